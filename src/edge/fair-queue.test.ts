import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { busyJobs, windowMs } from './busy-owners.ts';
import { FairQueue } from './fair-queue.ts';

/** Returns a queue whose jobs take a millisecond each, and a list of the jobs that it has run. */
function setUp(limits = { sliceMs: 2, waitingMax: 100 }) {
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
  const pass = (ms: number): void => void (nowMs += ms);
  return { run, done, pass };
}

/** Sends as many requests of an account as make it busy, and one of another, in a window that is over when this resolves. */
async function makeBusy({ run, done, pass }: ReturnType<typeof setUp>, other: string | undefined): Promise<void> {
  for (let count = 0; count <= busyJobs; count += 1) run('busy');
  if (other !== undefined) run(other);
  while (done.length < busyJobs + 1) await turn();
  await turn();
  await turn();
  pass(windowMs);
  done.length = 0;
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

test('while others send requests, those of a busy account start together every 2 ms; the others’ start at once', async () => {
  const queue = setUp();
  const { run, done } = queue;
  await makeBusy(queue, 'quiet');
  run('busy');
  run('busy');
  run('quiet');
  expect(done).toEqual(['quiet']);
  await turn();
  await turn();
  expect(done).toEqual(['quiet']);
  await wait(20);
  expect(done).toEqual(['quiet', 'busy', 'busy']);
});

test('an account that is alone is not delayed, however many requests it sends', async () => {
  const queue = setUp();
  await makeBusy(queue, undefined);
  queue.run('busy');
  expect(queue.done).toEqual(['busy']);
});

test('an account is no longer busy after a window without its requests', async () => {
  const queue = setUp();
  await makeBusy(queue, 'quiet');
  queue.pass(windowMs);
  queue.run('busy');
  expect(queue.done).toEqual(['busy']);
});

test('gathered requests count for the most that may wait', async () => {
  const queue = setUp({ sliceMs: 2, waitingMax: busyJobs });
  await makeBusy(queue, 'quiet');
  const taken = Array.from({ length: busyJobs + 1 }, () => queue.run('busy'));
  expect(taken.indexOf(false)).toBe(busyJobs);
});
