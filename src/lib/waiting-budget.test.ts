import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { WaitingBudget } from './waiting-budget.ts';

const never = new AbortController().signal;
const make = (waitMs = 60_000): WaitingBudget<string> => new WaitingBudget(() => ({ max: 10, ownerMax: 5, waitMs }));

/** Waits for an amount, and notes in `order` when it was taken. */
function note(budget: WaitingBudget<string>, order: string[], owner: string, amount: number): Promise<void> {
  return budget.wait(owner, amount, never).then(isTaken => void order.push(`${owner} ${amount} ${isTaken}`));
}

test('an owner that has used up its share delays only itself, and a large amount is not overtaken by later ones', async () => {
  const budget = make();
  const order: string[] = [];
  expect([budget.take('a', 5), budget.take('b', 3)]).toEqual(['taken', 'taken']);
  const waits = [note(budget, order, 'a', 1), note(budget, order, 'c', 4), note(budget, order, 'd', 1)];
  await nextTurn();
  expect([order, budget.waiting]).toEqual([[], 3]);
  budget.give('b', 3);
  await nextTurn();
  expect(order).toEqual(['c 4 true', 'd 1 true']);
  budget.give('a', 1);
  await Promise.all(waits);
  expect([order.at(-1), budget.taken, budget.waiting]).toEqual(['a 1 true', 10, 0]);
});

test('owners are served in rotation', async () => {
  const budget = make();
  const order: string[] = [];
  expect([budget.take('x', 5), budget.take('y', 5)]).toEqual(['taken', 'taken']);
  const waits = [note(budget, order, 'a', 2), note(budget, order, 'a', 3), note(budget, order, 'b', 2)];
  budget.give('x', 5);
  await nextTurn();
  expect(order).toEqual(['a 2 true', 'b 2 true']);
  budget.give('y', 5);
  await Promise.all(waits);
  expect(order.at(-1)).toBe('a 3 true');
});

test('a caller that waits too long or leaves takes nothing, and those behind it are served', async () => {
  const budget = make(20);
  expect([budget.take('a', 5), budget.take('b', 4)]).toEqual(['taken', 'taken']);
  const leaving = new AbortController();
  const left = budget.wait('c', 5, leaving.signal);
  const next = budget.wait('d', 1, never);
  leaving.abort(new Error('gone'));
  await expect(left).rejects.toThrow('gone');
  expect(await next).toBe(true);
  expect(await budget.wait('c', 5, never)).toBe(false);
  expect([budget.taken, budget.waiting]).toEqual([10, 0]);
});

test('an owner whose amount found no room in time is behind the others with its next one', async () => {
  const budget = make(50);
  const order: string[] = [];
  expect([budget.take('x', 5), budget.take('y', 2)]).toEqual(['taken', 'taken']);
  const first = note(budget, order, 'a', 5);
  await sleep(25);
  const rest = [note(budget, order, 'a', 4), note(budget, order, 'b', 3)];
  await first;
  await Promise.all(rest);
  expect(order).toEqual(['a 5 false', 'b 3 true', 'a 4 false']);
});
