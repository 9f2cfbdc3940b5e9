import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Semaphore } from './semaphore.ts';

const never = new AbortController().signal;

test('no more callers hold a slot than there are slots, and waiters are served in order', async () => {
  const semaphore = new Semaphore({ slots: 2, waitersMax: 10, waitMs: 60_000 });
  const [one, two] = [await semaphore.acquire(never), await semaphore.acquire(never)];
  const order: string[] = [];
  const three = semaphore.acquire(never).then(release => {
    order.push('three');
    return release;
  });
  const four = semaphore.acquire(never).then(release => {
    order.push('four');
    return release;
  });
  expect([semaphore.held, semaphore.waiting]).toEqual([2, 2]);
  one?.();
  await three;
  expect([semaphore.held, semaphore.waiting, order]).toEqual([2, 1, ['three']]);
  two?.();
  await four;
  expect(order).toEqual(['three', 'four']);
  (await three)?.();
  (await four)?.();
  expect([semaphore.held, semaphore.waiting]).toEqual([0, 0]);
});

test('releasing a slot twice frees it once', async () => {
  const semaphore = new Semaphore({ slots: 1, waitersMax: 10, waitMs: 60_000 });
  const first = await semaphore.acquire(never);
  first?.();
  const second = await semaphore.acquire(never);
  first?.();
  expect([second === undefined, semaphore.held]).toEqual([false, 1]);
});

test('a waiter beyond the queue’s size is refused at once; one that waits too long is refused then', async () => {
  const semaphore = new Semaphore({ slots: 1, waitersMax: 1, waitMs: 20 });
  await semaphore.acquire(never);
  const waiting = semaphore.acquire(never);
  expect(await semaphore.acquire(never)).toBeUndefined();
  expect(await waiting).toBeUndefined();
  expect([semaphore.held, semaphore.waiting]).toEqual([1, 0]);
});

test('owners are served in rotation, and if the queue is full, the owner with the most waiters loses its newest to one with fewer', async () => {
  const semaphore = new Semaphore({ slots: 1, waitersMax: 3, waitMs: 60_000 });
  let release = await semaphore.acquire(never);
  const order: string[] = [];
  const wait = async (owner: number, name: string): Promise<void> => {
    const slot = await semaphore.acquire(never, owner);
    order.push(slot === undefined ? `${name} refused` : name);
    if (slot !== undefined) release = slot;
  };
  const all = [wait(1, 'a1'), wait(1, 'a2'), wait(1, 'a3'), wait(1, 'a4'), wait(2, 'b1'), wait(3, 'c1')];
  await expect.poll(() => order).toEqual(['a4 refused', 'a3 refused', 'a2 refused']);
  for (const count of [4, 5, 6]) {
    release?.();
    await expect.poll(() => order.length).toBe(count);
  }
  await Promise.all(all);
  expect(order.slice(3)).toEqual(['a1', 'b1', 'c1']);
  release?.();
  expect([semaphore.held, semaphore.waiting]).toEqual([0, 0]);
});

test('an aborted wait rejects with the reason, and the next waiter takes its place', async () => {
  const semaphore = new Semaphore({ slots: 1, waitersMax: 5, waitMs: 60_000 });
  const held = await semaphore.acquire(never);
  const leaving = new AbortController();
  const left = semaphore.acquire(leaving.signal);
  const stays = semaphore.acquire(never);
  leaving.abort(new Error('gone'));
  await expect(left).rejects.toThrow('gone');
  held?.();
  expect(await stays).toBeTypeOf('function');
  expect([semaphore.held, semaphore.waiting]).toEqual([1, 0]);
});

test('in any sequence of calls, no more slots are taken than there are, and none is lost', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 3 }),
      fc.array(fc.record({ steps: fc.integer({ min: 0, max: 5 }), aborts: fc.boolean() }), { maxLength: 20 }),
      async (slots, users) => {
        const semaphore = new Semaphore({ slots, waitersMax: 4, waitMs: 60_000 });
        let inside = 0;
        let most = 0;
        const visits = users.map(async ({ steps, aborts }) => {
          const controller = new AbortController();
          if (aborts) setImmediate(() => controller.abort(new Error('gone')));
          try {
            const release = await semaphore.acquire(controller.signal);
            if (release === undefined) return;
            inside += 1;
            most = Math.max(most, inside);
            for (let step = 0; step < steps; step += 1) await nextTurn();
            inside -= 1;
            release();
          } catch (thrown) {
            if (!(thrown instanceof Error) || thrown.message !== 'gone') throw thrown;
          }
        });
        await Promise.all(visits);
        return most <= slots && semaphore.held === 0 && semaphore.waiting === 0;
      },
    ),
    { numRuns: 100 },
  );
});
