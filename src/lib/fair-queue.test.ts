import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type FairLimits, FairQueue } from './fair-queue.ts';

/** Returns a queue whose jobs take a millisecond each, and a list of the jobs that it has run. */
function setUp(limits: FairLimits = { sliceMs: 2, waitingMax: 100 }) {
  let nowMs = 0;
  const done: string[] = [];
  const queue = new FairQueue<string>(
    () => limits,
    () => nowMs,
  );
  const run = (owner: string): boolean =>
    queue.run(owner, () => {
      nowMs += 1;
      done.push(owner);
    });
  return { run, done, queue };
}

test('jobs that fit into a turn begin at once, all others in later turns', async () => {
  const { run, done } = setUp();
  for (let count = 0; count < 7; count += 1) run('a');
  expect(done).toHaveLength(2);
  await turn();
  expect(done).toHaveLength(4);
  for (let count = 0; count < 4; count += 1) await turn();
  expect(done).toHaveLength(7);
});

test('if a turn may start a number of jobs, all others begin in later turns', async () => {
  const { run, done } = setUp({ sliceMs: 100, waitingMax: 100, jobsMax: 3 });
  for (let count = 0; count < 7; count += 1) run('a');
  expect(done).toHaveLength(3);
  await turn();
  expect(done).toHaveLength(6);
});

test('jobs with nothing to do any more don’t count, so that thousands of them leave the queue in a few turns', async () => {
  const { run, done, queue } = setUp({ sliceMs: 100, waitingMax: 10_000, jobsMax: 1 });
  for (let count = 0; count < 5_000; count += 1) queue.run('gone', () => false);
  run('a');
  run('a');
  for (let turns = 0; turns < 4; turns += 1) await turn();
  expect(done).toEqual(['a', 'a']);
});

test('accounts take turns, however many requests one of them sends', async () => {
  const { run, done } = setUp();
  for (let count = 0; count < 100; count += 1) run('many');
  for (const owner of ['one', 'two']) run(owner);
  for (let count = 0; count < 4; count += 1) await turn();
  expect(done.slice(0, 8)).toContain('one');
  expect(done.slice(0, 8)).toContain('two');
});

test('an account whose queue is full is refused, and others are not', () => {
  const { run } = setUp({ sliceMs: 0, waitingMax: 3 });
  expect([1, 2, 3, 4].map(() => run('many'))).toEqual([true, true, true, false]);
  expect(run('other')).toBe(true);
});

test('a job that fails does not affect the others', async () => {
  const { run, done } = setUp();
  const queue = new FairQueue<string>(
    () => ({ sliceMs: 1, waitingMax: 9 }),
    () => 0,
  );
  expect(() =>
    queue.run('a', () => {
      throw new Error('no');
    }),
  ).toThrow('no');
  run('a');
  await turn();
  expect(done).toEqual(['a']);
});
