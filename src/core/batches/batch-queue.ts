import type { Batch } from '../../gen/tollgate/v1/batch_pb.ts';
import { BatchState } from '../../gen/tollgate/v1/batch_pb.ts';
import type { Timer } from '../../lib/runtime.ts';
import type { DocumentFacts } from '../../store/documents.ts';
import { BatchJob, type BatchJobDependencies } from './batch-job.ts';
import { Pace } from './pace.ts';
import { hasEnded, type OwnedBatch } from './batch-store.ts';

/** How often to look for stored batches that no process is running. */
const pollMs = 10_000;
/** How long to wait before checking again whether other requests leave time for an item. */
const retryMs = 20;
/** How many batches are open at once, with their files; further ones wait until one ends, but for the first of an account. */
const openMax = 32;
/** How many batches are open at once if each is the only one of its account. */
const openMost = 128;

interface QueueDependencies extends BatchJobDependencies {
  /** Returns how many items run at once, of all batches together. */
  readonly concurrency: () => number;
}

/**
 * Runs the batches of all accounts: a limited number of items at once, taken from each account in turn, and of its open batches in turn. If storage failed while a batch ran, this process resumes it; if this process ends first, the next one does.
 */
export class BatchQueue {
  readonly #dependencies: QueueDependencies;
  /** The open batches. Those of the account whose turn it is come first. */
  #jobs: BatchJob[] = [];
  /** The accounts of batches that are being opened, by the batch's id. */
  readonly #opening = new Map<string, number>();
  /** The work on batches that are being opened, finished or closed, by the batch's id. */
  readonly #busy = new Map<string, Promise<void>>();
  /** How many items run for each model. */
  readonly #runningByModel = new Map<string, number>();
  readonly #pace: Pace;
  /** Calls `#poll`. */
  readonly #pollTimer: Timer;
  /** Calls `#pump` when an item may begin or a batch expires. */
  readonly #wakeTimer: Timer;
  #running = 0;
  #isDraining = false;
  #whenIdle: (() => void)[] = [];

  constructor(dependencies: QueueDependencies) {
    this.#dependencies = dependencies;
    this.#pace = new Pace(() => dependencies.generations.begun);
    this.#pollTimer = dependencies.runtime.after(pollMs, () => void this.#poll());
    this.#wakeTimer = dependencies.runtime.after(pollMs, () => this.#pump());
    this.#pollTimer.cancel();
    this.#wakeTimer.cancel();
  }

  /** Resumes the stored batches that have not ended, and looks for more every 10 seconds. */
  async resume(): Promise<void> {
    await this.#poll();
  }

  /** Opens stored batches that wait, if there is room. Called after a batch was stored. */
  openWaiting(): void {
    void this.#openStored().catch((thrown: unknown) => this.#dependencies.onDefect('', thrown));
  }

  /** Returns the current state of a batch that is open in this process; undefined if it is not open here. */
  find(id: string): Batch | undefined {
    return this.#jobs.find(job => job.id === id)?.batch;
  }

  /** Cancels a batch: no more of its items are started. Returns the batch in its new state. */
  async cancel(owned: OwnedBatch): Promise<Batch> {
    const { store, runtime } = this.#dependencies;
    const { id } = owned.batch;
    await this.#busy.get(id);
    const job = this.#jobs.find(each => each.id === id);
    if (job !== undefined) {
      const batch = await job.cancel();
      this.#pump();
      return batch;
    }
    const { batch } = (await store.find(id)) ?? owned;
    if (hasEnded(batch) || batch.times === undefined || batch.times.cancellingMs !== undefined) return batch;
    const times = { ...batch.times, cancellingMs: BigInt(runtime.now()) };
    const cancelled = { ...batch, state: BatchState.CANCELLING, times };
    await store.update(cancelled);
    return cancelled;
  }

  /** Opens no more batches and starts no more items. */
  drain(): void {
    this.#isDraining = true;
    this.#pollTimer.cancel();
    this.#wakeTimer.cancel();
  }

  /** Resolves when no item runs and no batch is being opened, finished or closed. */
  async idle(): Promise<void> {
    while (this.#running > 0 || this.#busy.size > 0) {
      await Promise.all(this.#busy.values());
      if (this.#running === 0) continue;
      await new Promise<void>(resolve => {
        this.#whenIdle.push(resolve);
      });
    }
  }

  /** Closes all open batches. */
  async close(): Promise<void> {
    await Promise.all(this.#jobs.splice(0).map(job => job.close()));
  }

  async #poll(): Promise<void> {
    try {
      await this.#applyStoredCancellations();
      await this.#openStored();
    } catch (thrown) {
      // A batch that can't be read now is read at the next poll.
      this.#dependencies.onDefect('', thrown);
    } finally {
      if (!this.#isDraining) this.#pollTimer.restart(pollMs);
    }
  }

  /** Cancels open batches for which another gateway has stored a cancellation. */
  async #applyStoredCancellations(): Promise<void> {
    for (const job of this.#jobs.slice()) {
      const stored = await this.#dependencies.store.find(job.id);
      if (stored?.batch.times?.cancellingMs !== undefined) await job.cancel();
    }
  }

  /** Opens stored batches while there is room: first from the account with the fewest open batches, and of that account the oldest. */
  async #openStored(): Promise<void> {
    const waiting = [...(await this.#dependencies.store.unfinished())];
    while (!this.#isDraining) {
      const open = this.#countOpen();
      const jobs = new Set(this.#jobs.map(({ id }) => id));
      let next: DocumentFacts | undefined;
      for (const each of waiting) {
        if (this.#busy.has(each.id) || jobs.has(each.id)) continue;
        if (next === undefined || (open.get(each.accountId) ?? 0) < (open.get(next.accountId) ?? 0)) next = each;
      }
      if (next === undefined || !this.#hasRoom(open.get(next.accountId) ?? 0)) return;
      waiting.splice(waiting.indexOf(next), 1);
      this.#opening.set(next.id, next.accountId);
      const opened = this.#open(next.id).finally(() => this.#opening.delete(next.id));
      this.#trackWork(next.id, opened);
    }
  }

  /** Returns how many batches are open or being opened, by account. */
  #countOpen(): Map<number, number> {
    const open = new Map<number, number>();
    const add = (accountId: number): void => void open.set(accountId, (open.get(accountId) ?? 0) + 1);
    for (const { accountId } of this.#jobs) add(accountId);
    for (const accountId of this.#opening.values()) add(accountId);
    return open;
  }

  /** Returns whether another batch of an account with so many open ones may be opened. An account without one does not wait for those of others, which may take a day. */
  #hasRoom(openOfAccount: number): boolean {
    return this.#jobs.length + this.#busy.size < (openOfAccount === 0 ? openMost : openMax);
  }

  /** Marks a batch as busy until `work` has ended. `work` must not reject. */
  #trackWork(id: string, work: Promise<void>): void {
    const tracked = work.finally(() => {
      this.#busy.delete(id);
      this.#pump();
    });
    this.#busy.set(id, tracked);
  }

  async #open(id: string): Promise<void> {
    try {
      const owned = await this.#dependencies.store.find(id);
      if (owned === undefined || hasEnded(owned.batch)) return;
      const job = await BatchJob.open(this.#dependencies, owned, this.#runningByModel);
      if (job !== undefined) this.#jobs.push(job);
    } catch (thrown) {
      this.#dependencies.onDefect(id, thrown);
    }
  }

  /** Starts as many items as may run now, and finishes the batches whose items have all ended. */
  #pump(): void {
    if (this.#isDraining) return;
    for (const job of this.#jobs.filter(({ isDone }) => isDone)) this.#finish(job);
    while (this.#running < this.#dependencies.concurrency()) {
      if (!this.#pace.isFree(this.#dependencies.runtime.monotonicMs())) return this.#wakeTimer.restart(retryMs);
      const nowMs = this.#dependencies.runtime.now();
      const job = this.#jobs.find(({ nextAtMs }) => nextAtMs !== undefined && nextAtMs <= nowMs);
      if (job === undefined) break;
      this.#endTurn(job);
      this.#run(job);
    }
    this.#scheduleNextPump();
  }

  /** Moves the batches of an account to the end, with `job` as its last, so that the next item is that of another account, or else of another batch. */
  #endTurn(job: BatchJob): void {
    const rest = this.#jobs.filter(each => each !== job);
    const isOwn = ({ accountId }: BatchJob): boolean => accountId === job.accountId;
    this.#jobs = [...rest.filter(each => !isOwn(each)), ...rest.filter(isOwn), job];
  }

  #run(job: BatchJob): void {
    this.#running += 1;
    job
      .runNext()
      .catch((thrown: unknown) => this.#drop(job, thrown))
      .finally(() => {
        this.#running -= 1;
        if (this.#running === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
        // Yields to the event loop between items, so that items that end at once do not block other work.
        setImmediate(() => this.#pump());
      });
  }

  /** Closes a batch because storage failed. It is opened again at a later poll, but only after its running items have ended, because they may still be charged. */
  #drop(job: BatchJob, thrown: unknown): void {
    this.#dependencies.onDefect(job.id, thrown);
    const at = this.#jobs.indexOf(job);
    if (at < 0) return;
    this.#jobs.splice(at, 1);
    const close = async (): Promise<void> => {
      await job.idle();
      await job.close();
    };
    this.#trackWork(
      job.id,
      close().catch(() => undefined),
    );
  }

  #finish(job: BatchJob): void {
    this.#jobs.splice(this.#jobs.indexOf(job), 1);
    const finish = async (): Promise<void> => {
      try {
        await job.finish();
      } catch (thrown) {
        this.#dependencies.onDefect(job.id, thrown);
        await job.close().catch(() => undefined);
        return;
      }
      if (!this.#isDraining) await this.#openStored();
    };
    this.#trackWork(
      job.id,
      finish().catch((thrown: unknown) => this.#dependencies.onDefect(job.id, thrown)),
    );
  }

  /** Schedules the next `#pump` for when the next item may begin or a batch expires. */
  #scheduleNextPump(): void {
    const nowMs = this.#dependencies.runtime.now();
    const times = this.#jobs.flatMap(({ nextAtMs, batch }) => [
      ...(nextAtMs === undefined || nextAtMs <= nowMs ? [] : [nextAtMs]),
      Number(batch.times?.expiresMs ?? 0n),
    ]);
    const soonest = Math.min(...times.filter(ms => ms > nowMs));
    if (soonest === Infinity) this.#wakeTimer.cancel();
    else this.#wakeTimer.restart(soonest - nowMs + 1);
  }
}
