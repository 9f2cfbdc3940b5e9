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

test('amounts that are taken without waiting leave an owner what its first waiter needs', async () => {
  const budget = make();
  const order: string[] = [];
  expect(budget.take('a', 3)).toBe('taken');
  const wait = note(budget, order, 'a', 3);
  expect([budget.take('a', 1), budget.take('b', 1)]).toEqual(['owner_full', 'taken']);
  budget.give('a', 1);
  expect(budget.take('a', 1)).toBe('owner_full');
  await wait;
  expect(order).toEqual(['a 3 true']);
});

test('amounts that are taken without waiting do not overtake for ever: owners with more than an equal part get none while another waits', async () => {
  const budget = make();
  const order: string[] = [];
  expect([budget.take('a', 4), budget.take('b', 3)]).toEqual(['taken', 'taken']);
  const wait = note(budget, order, 'c', 4);
  // Each of `a`, `b` and `d` may have 2 of the 6 that are left.
  expect([budget.take('a', 1), budget.take('b', 1), budget.take('d', 2)]).toEqual(['full', 'full', 'taken']);
  for (let turn = 0; turn < 2; turn += 1) {
    budget.give('a', 1);
    expect(budget.take('a', 1)).toBe('full');
  }
  budget.give('b', 2);
  await wait;
  expect([order, budget.taken]).toEqual([['c 4 true'], 9]);
});

/** A caller of one owner, which waits for amounts and keeps them. */
class Caller {
  held = 0;
  readonly #budget: WaitingBudget<string>;
  readonly #owner: string;

  constructor(budget: WaitingBudget<string>, owner: string, amount: number) {
    this.#budget = budget;
    this.#owner = owner;
    expect(budget.take(owner, amount)).toBe('taken');
    this.held = amount;
  }

  async wait(amount: number): Promise<void> {
    expect(await this.#budget.wait(this.#owner, amount, never, this)).toBe(true);
    this.held += amount;
  }

  end(): void {
    this.#budget.give(this.#owner, this.held);
    this.held = 0;
  }
}

test('callers of one owner that wait for what they have themselves are served one after the other, the oldest first', async () => {
  const budget = make();
  const callers = [new Caller(budget, 'a', 2), new Caller(budget, 'a', 2), new Caller(budget, 'a', 1)];
  const served: number[] = [];
  const waits = callers.map(async (caller, at) => {
    await caller.wait(1);
    served.push(at);
    // It may need more, and is served before those that have nothing beyond the limit.
    if (at === 0) await caller.wait(2);
    await nextTurn();
    expect(budget.taken).toBeLessThanOrEqual(10);
    caller.end();
  });
  await Promise.all(waits);
  expect([served, budget.taken, budget.waiting]).toEqual([[0, 1, 2], 0, 0]);
});

test('so are callers of several owners that together have everything', async () => {
  const budget = new WaitingBudget<string>(() => ({ max: 10, ownerMax: 8, waitMs: 60_000 }));
  const callers = ['a', 'b', 'c', 'd', 'e'].map(owner => new Caller(budget, owner, 2));
  let most = 0;
  const waits = callers.map(async caller => {
    await caller.wait(3);
    await caller.wait(3);
    most = Math.max(most, budget.taken);
    await nextTurn();
    caller.end();
  });
  await Promise.all(waits);
  expect([most, budget.taken, budget.waiting]).toEqual([16, 0, 0]);
});

test('a caller waits as long as another one that does not wait has what it needs', async () => {
  const budget = make();
  const [busy, waiting] = [new Caller(budget, 'a', 3), new Caller(budget, 'a', 2)];
  let isServed = false;
  const wait = waiting.wait(1).then(() => (isServed = true));
  await nextTurn();
  expect([isServed, budget.taken]).toEqual([false, 5]);
  busy.end();
  await wait;
  expect(budget.taken).toBe(3);
});

test('whatever callers have and wait for, all are served, and what is taken stays within twice the limit of an owner and within the limit of all and of one owner', async () => {
  const limits = { max: 20, ownerMax: 12, waitMs: 60_000 };
  let seed = 1;
  /** Returns a whole number from 0 to below `below`; the same ones in each run. */
  const pick = (below: number): number => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % below;
  };
  for (let round = 0; round < 100; round += 1) {
    const budget = new WaitingBudget<string>(() => limits);
    const taken = new Map<string, number>();
    let served = 0;
    const callers = Array.from({ length: 20 }, async () => {
      const owner = ['a', 'b', 'c'][pick(3)] ?? '';
      const caller = { held: 0 };
      const count = (amount: number): void => {
        caller.held += amount;
        taken.set(owner, (taken.get(owner) ?? 0) + amount);
        expect(taken.get(owner)).toBeLessThanOrEqual(2 * limits.ownerMax);
        expect(budget.taken).toBeLessThanOrEqual(limits.max + limits.ownerMax);
      };
      for (let ticks = pick(3); ticks > 0; ticks -= 1) await nextTurn();
      const body = pick(7);
      if (budget.take(owner, body) === 'taken') count(body);
      for (let reads = pick(4); reads > 0; reads -= 1) {
        const amount = 1 + pick(limits.ownerMax);
        if (caller.held + amount > limits.ownerMax) break;
        expect(await budget.wait(owner, amount, never, caller)).toBe(true);
        count(amount);
        for (let ticks = pick(3); ticks > 0; ticks -= 1) await nextTurn();
      }
      const { held } = caller;
      caller.held = 0;
      taken.set(owner, (taken.get(owner) ?? 0) - held);
      budget.give(owner, held);
      served += 1;
    });
    await Promise.all(callers);
    expect([served, budget.taken, budget.waiting]).toEqual([20, 0, 0]);
  }
});
