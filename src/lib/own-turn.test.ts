import { expect, test } from 'vitest';
import { ownTurn } from './own-turn.ts';

test('callers that wait at the same time go on in different turns of the event loop, in their order', async () => {
  let turn = 0;
  let isOver = false;
  const count = (): void => {
    turn += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const turns: [caller: number, turn: number][] = [];
  await Promise.all(
    Array.from({ length: 5 }, async (_, caller) => {
      await ownTurn();
      turns.push([caller, turn]);
    }),
  );
  isOver = true;
  expect(turns.map(([caller]) => caller)).toEqual([0, 1, 2, 3, 4]);
  expect(new Set(turns.map(([, at]) => at)).size).toBe(5);
});
