import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import { type Batch, BatchState } from '../../gen/tollgate/v1/batch_pb.ts';
import type { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import type { BatchCall, RequestedItem } from '../../generation/batches/batch-codec.ts';
import { type IdSource, publicRequestId } from '../../lib/ids.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Router } from '../routing/router.ts';
import { ItemCall } from './batch-item.ts';
import { BatchJournal, fileNames } from './batch-journal.ts';
import { itemName } from './item-name.ts';
import { hasEnded, type BatchStore, type OwnedBatch } from './batch-store.ts';
import { checkLines, type LineDependencies, type NumberedLine, readItems } from './check-lines.ts';
import type { FileStore } from './file-store.ts';
import { type ItemRunners, runItem } from './run-item.ts';
import { writeResults } from './write-results.ts';

/** An item that has a result, for the log and the metrics. */
export interface EndedItem {
  readonly batchId: string;
  readonly endpoint: Endpoint;
  readonly call: ItemCall;
  readonly durationMs: number;
  /** The error of the item; absent: it succeeded. */
  readonly error?: GatewayError;
}

/** The dependencies of batches. */
export interface BatchJobDependencies extends LineDependencies, ItemRunners {
  readonly runtime: Runtime;
  readonly ledger: Ledger;
  readonly ids: IdSource;
  readonly catalog: Pick<Catalog, 'findListedId'>;
  readonly router: Pick<Router, 'hasRoom'>;
  readonly files: FileStore;
  readonly store: BatchStore;
  /** Called for every item that has a result, for the log and the metrics. */
  readonly onItem: (item: EndedItem) => void;
  /** Called for failures that are the gateway's own fault, for the log. */
  readonly onDefect: (batchId: string, error: unknown) => void;
}

/** An item whose request is running. */
interface CalledItem {
  readonly line: NumberedLine;
  readonly name: RequestedItem;
  readonly call: ItemCall;
  /** When the item began, by the monotonic clock. */
  readonly beganMs: number;
}

/** How long an item waits if its model has no free slot, and if the gateway is overloaded. */
const noSlotWaitMs = 100;
const overloadedMs = 1_000;
/** The longest wait for a limit's window to reset: items try again at least this often, because the limit may be raised in the meantime. */
const waitMsMax = 60_000;

/** One open batch. It runs the items in order and repeats an item that has to wait, until each has a result. */
export class BatchJob {
  readonly #dependencies: BatchJobDependencies;
  readonly #accountId: number;
  readonly #journal: BatchJournal;
  readonly #lines: AsyncGenerator<NumberedLine, void, undefined>;
  /** Items that wait to be tried again, in order. */
  readonly #waitingLines: NumberedLine[] = [];
  /** How many items run, by the listed id of their model. */
  readonly #runningByModel: Map<string, number>;
  readonly #whenIdle: (() => void)[] = [];
  #batch: Batch;
  #running = 0;
  #isRead = false;
  #isCancellationStored: boolean;
  #waitsUntilMs = 0;

  private constructor(
    dependencies: BatchJobDependencies,
    { accountId, batch }: OwnedBatch,
    { journal, runningByModel }: { readonly journal: BatchJournal; readonly runningByModel: Map<string, number> },
  ) {
    this.#dependencies = dependencies;
    this.#accountId = accountId;
    this.#batch = batch;
    this.#isCancellationStored = batch.times?.cancellingMs !== undefined;
    this.#journal = journal;
    this.#runningByModel = runningByModel;
    this.#lines = readItems(dependencies, fileNames(batch).input);
  }

  /**
   * Opens a batch: checks its file first, or continues where an earlier process stopped. `runningByModel` is shared by all batches. Returns undefined if the batch has ended, because its file was refused.
   */
  static async open(
    dependencies: BatchJobDependencies,
    owned: OwnedBatch,
    runningByModel: Map<string, number>,
  ): Promise<BatchJob | undefined> {
    const checked = owned.batch.counts === undefined ? await check(dependencies, owned.batch) : owned.batch;
    if (hasEnded(checked)) return undefined;
    const journal = await BatchJournal.open(dependencies.bulk, dependencies.ledger, {
      name: fileNames(checked).journal,
      total: checked.counts?.total ?? 0,
      accountId: owned.accountId,
    });
    return new BatchJob(dependencies, { accountId: owned.accountId, batch: checked }, { journal, runningByModel });
  }

  get id(): string {
    return this.#batch.id;
  }

  get accountId(): number {
    return this.#accountId;
  }

  /** Returns the current state of the batch. */
  get batch(): Batch {
    const { costNanoUsd, usage, counts } = this.#journal;
    const { total = 0 } = this.#batch.counts ?? {};
    return {
      ...this.#batch,
      costNanoUsd,
      usage,
      counts: { $typeName: 'tollgate.v1.BatchCounts', total, ...counts, cancelled: 0, expired: 0 },
    };
  }

  /** The time at which the next item may begin, which may be in the past; undefined: no item is left to begin. */
  get nextAtMs(): number | undefined {
    if (this.#isOver || (this.#isRead && this.#waitingLines.length === 0)) return undefined;
    return this.#waitsUntilMs;
  }

  /** True if no item runs and none is left to begin. */
  get isDone(): boolean {
    return this.#running === 0 && this.nextAtMs === undefined;
  }

  get #isExpired(): boolean {
    return this.#dependencies.runtime.now() >= Number(this.#batch.times?.expiresMs ?? 0n);
  }

  get #isOver(): boolean {
    return this.#batch.times?.cancellingMs !== undefined || this.#isExpired;
  }

  /** Cancels the batch: no more items are started. The cancellation is durable when the promise resolves; if it rejects, repeat the call. */
  async cancel(): Promise<Batch> {
    const { times } = this.#batch;
    if (times === undefined || this.#isCancellationStored) return this.batch;
    if (times.cancellingMs === undefined) {
      const cancelled = { ...times, cancellingMs: BigInt(this.#dependencies.runtime.now()) };
      this.#batch = { ...this.#batch, state: BatchState.CANCELLING, times: cancelled };
    }
    await this.#dependencies.store.update(this.#batch);
    this.#isCancellationStored = true;
    return this.batch;
  }

  /** Runs the next item, if there is one. Rejects only if storage fails; then the batch must be closed and opened again. */
  async runNext(): Promise<void> {
    this.#running += 1;
    try {
      const next = await this.#take();
      if (next !== undefined) await this.#run(next);
    } finally {
      this.#running -= 1;
      if (this.#running === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
    }
  }

  /** Resolves when no item of this batch runs. */
  async idle(): Promise<void> {
    if (this.#running === 0) return;
    await new Promise<void>(resolve => {
      this.#whenIdle.push(resolve);
    });
  }

  /** Writes the result files and stores the batch as ended. Call it once, when `isDone` is true. */
  async finish(): Promise<void> {
    const { bulk, store, runtime } = this.#dependencies;
    const { times } = this.#batch;
    if (times === undefined) throw new Error(`the batch ${this.id} has no times`);
    const isCancelled = times.cancellingMs !== undefined;
    const nowMs = BigInt(runtime.now());
    if (!isCancelled) {
      this.#batch = { ...this.batch, state: BatchState.FINALIZING, times: { ...times, finalizingMs: nowMs } };
      await store.update(this.#batch);
    }
    const owner = { accountId: this.#accountId, batch: this.batch };
    const written = await writeResults(this.#dependencies, { ...owner, journal: this.#journal, isCancelled });
    const state = isCancelled
      ? BatchState.CANCELLED
      : written.counts.expired > 0
        ? BatchState.EXPIRED
        : BatchState.COMPLETED;
    const ended = { ...(this.#batch.times ?? times), endedMs: BigInt(runtime.now()) };
    this.#batch = { ...this.batch, ...written, state, times: ended };
    await store.update(this.#batch);
    await this.close();
    const { input, journal } = fileNames(this.#batch);
    await bulk.delete(input);
    await bulk.delete(journal);
  }

  async close(): Promise<void> {
    await this.#lines.return();
    await this.#journal.close();
  }

  /** Returns the next item to run; undefined if there is none. */
  async #take(): Promise<NumberedLine | undefined> {
    const waiting = this.#waitingLines.shift();
    if (waiting !== undefined) return waiting;
    while (!this.#isRead) {
      const { done, value } = await this.#lines.next();
      if (done === true) this.#isRead = true;
      else if (!this.#journal.hasRun(value.item)) return value;
    }
    return undefined;
  }

  async #run(line: NumberedLine): Promise<void> {
    const { codec, ids } = this.#dependencies;
    const { endpoint } = this.#batch;
    const read = await codec.readLine(line.bytes, endpoint);
    const requestId = publicRequestId(ids.next());
    const item = {
      line,
      name: { ...itemName(this.#batch, line.item, read), requestId },
      call: new ItemCall(requestId),
      beganMs: this.#dependencies.runtime.monotonicMs(),
    };
    let body: BatchCall;
    let model: string;
    try {
      body = await codec.decode(read, endpoint);
      model = this.#dependencies.catalog.findListedId(readModel(body));
    } catch (thrown) {
      await this.#fail(item, thrown);
      return;
    }
    const running = this.#runningByModel.get(model) ?? 0;
    if (!this.#dependencies.router.hasRoom(model, running)) return this.#wait(line, noSlotWaitMs);
    this.#runningByModel.set(model, running + 1);
    try {
      await this.#answer(item, body);
    } finally {
      const left = (this.#runningByModel.get(model) ?? 1) - 1;
      if (left === 0) this.#runningByModel.delete(model);
      else this.#runningByModel.set(model, left);
    }
  }

  async #answer(item: CalledItem, body: BatchCall): Promise<void> {
    const { ledger } = this.#dependencies;
    const { id: batchId, apiKeyId } = this.#batch;
    const { line, name, call } = item;
    let place = -1;
    let charge;
    try {
      const credential = await ledger.findApiKey(Number(apiKeyId));
      if (credential === undefined) throw new GatewayError('invalid_api_key', 'The batch’s API key was revoked.');
      charge = await runItem(this.#dependencies, {
        credential,
        batchId,
        name,
        call,
        body,
        keep: async result => {
          place = await this.#journal.keep(line.item, name.requestId, result);
        },
      });
    } catch (thrown) {
      if (this.#journal.isBroken) throw thrown;
      const waitMs = findWaitMs(toGatewayError(thrown));
      if (waitMs === undefined) await this.#fail(item, thrown);
      else this.#wait(line, waitMs);
      return;
    }
    await this.#journal.charged(line.item, place, charge);
    this.#report(item);
  }

  #wait(line: NumberedLine, ms: number): void {
    this.#waitingLines.push(line);
    this.#waitsUntilMs = Math.max(this.#waitsUntilMs, this.#dependencies.runtime.now() + ms);
  }

  async #fail({ line, name, call, beganMs }: CalledItem, thrown: unknown): Promise<void> {
    const error = toGatewayError(thrown);
    if (error.code === 'internal') this.#dependencies.onDefect(this.id, error.cause ?? error);
    await this.#journal.failed(line.item, this.#dependencies.codec.renderFailure(name, error));
    this.#report({ call, beganMs }, error);
  }

  #report({ call, beganMs }: Pick<CalledItem, 'call' | 'beganMs'>, error?: GatewayError): void {
    const { onItem, runtime } = this.#dependencies;
    const { id: batchId, endpoint } = this.#batch;
    const durationMs = runtime.monotonicMs() - beganMs;
    onItem({ batchId, endpoint, call, durationMs, ...(error === undefined ? {} : { error }) });
  }
}

function readModel(call: BatchCall): string {
  return call.kind === 'response' ? call.request.request.model : call.request.model;
}

/**
 * Returns how long an item waits after this error before it is tried again, in ms; undefined: the error is the item's result. Items wait only for minute windows, limits of concurrent requests and an overloaded gateway.
 */
function findWaitMs({ code, facts }: GatewayError): number | undefined {
  if (code === 'overloaded') return overloadedMs;
  const { denial, retryAfterMs = overloadedMs } = facts;
  if (denial === undefined) return undefined;
  const passes =
    denial.limit === 'minute_limit' ||
    denial.limit === 'free_minute' ||
    denial.row?.window === 'minute' ||
    denial.unit === 'concurrent';
  return passes ? Math.min(retryAfterMs, waitMsMax) : undefined;
}

/** Checks the file of a batch and stores the result. */
async function check(dependencies: BatchJobDependencies, batch: Batch): Promise<Batch> {
  const { total, faults } = await checkLines(dependencies, fileNames(batch).input, batch.endpoint);
  const nowMs = BigInt(dependencies.runtime.now());
  const times = batch.times ?? { $typeName: 'tollgate.v1.BatchTimes', createdMs: nowMs, expiresMs: nowMs };
  const counts = {
    $typeName: 'tollgate.v1.BatchCounts',
    total,
    completed: 0,
    failed: 0,
    cancelled: 0,
    expired: 0,
  } as const;
  const checked: Batch =
    faults.length > 0
      ? { ...batch, faults, state: BatchState.FAILED, times: { ...times, endedMs: nowMs } }
      : {
          ...batch,
          counts,
          state: times.cancellingMs === undefined ? BatchState.IN_PROGRESS : batch.state,
          times: { ...times, inProgressMs: nowMs },
        };
  await dependencies.store.update(checked);
  return checked;
}
