import { FairQueue } from './fair-queue.ts';
import { systemRuntime } from './runtime.ts';

/** Both bounds together keep a turn of the event loop below 10 ms. */
const sliceMs = 6;

/** The work of all answers of this thread, of which each job can be timed. */
const timed = new FairQueue<number>(
  () => ({ sliceMs, waitingMax: Infinity }),
  () => systemRuntime.monotonicMs(),
);

/** The answers of this thread that wait to go on. */
const awaited = new FairQueue<number>(
  () => ({ sliceMs, waitingMax: Infinity, jobsMax: 1 }),
  () => systemRuntime.monotonicMs(),
);

/**
 * Runs a piece of work for an answer: now if this turn of the event loop has time left, else in a later turn, accounts in rotation. So an account with hundreds of fast answers delays only its own. Pieces of one account keep
 * their order. `account`: the number of the account; 0: the gateway itself.
 */
export function runInTurn(account: number, job: () => void): void {
  timed.run(account, job);
}

/** Resolves when an answer may go on with about a millisecond of work: one in each turn of the event loop, accounts in rotation. */
export async function awaitTurn(account: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  awaited.run(account, resolve);
  await promise;
}
