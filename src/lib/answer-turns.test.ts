import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { awaitTurn } from './answer-turns.ts';

test('answers go on one in each turn of the event loop, accounts in rotation', async () => {
  const order: string[] = [];
  const wait = async (account: number, name: string): Promise<void> => {
    await awaitTurn(account);
    order.push(name);
  };
  const many = Array.from({ length: 100 }, () => wait(1, 'many'));
  const other = wait(2, 'other');
  for (let turns = 0; turns < 5; turns += 1) await turn();
  expect(order.length).toBeLessThanOrEqual(8);
  expect(order).toContain('other');
  await Promise.all([...many, other]);
  expect(order).toHaveLength(101);
});
