import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { type Batch, type BatchRecord, BatchRecordSchema, type BatchResult } from '../../gen/tollgate/v1/batch_pb.ts';
import type { Usage } from '../../gen/tollgate/v1/event_pb.ts';
import type { ResultLine } from '../../generation/batches/batch-codec.ts';
import { addBuckets, noUsage, toBuckets, toUsage, type UsageBuckets } from '../../generation/usage-buckets.ts';
import { jsonDollars } from '../../lib/dollars.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { BulkFiles, Journal } from '../../store/bulk-files.ts';
import type { ItemCharge } from './run-item.ts';

/** The states of an item. */
const notRun = 0;
const answered = 1;
const failed = 2;

/** The result line of an item: an answer or a failure. `pieces` are the parts of the line, in order. */
export interface FinalLine {
  readonly kind: 'answered' | 'failed';
  readonly pieces: readonly Uint8Array[];
}

/** The results that an open batch has so far. Takes 17 bytes of memory per item. */
export class BatchJournal {
  readonly #journal: Journal;
  readonly #states: Uint8Array;
  readonly #places: Float64Array;
  readonly #costs: BigInt64Array;
  #usage: UsageBuckets = noUsage;
  #costNanoUsd = 0n;
  #answered = 0;
  #failed = 0;
  #isBroken = false;

  constructor(journal: Journal, total: number) {
    this.#journal = journal;
    this.#states = new Uint8Array(total);
    this.#places = new Float64Array(total);
    this.#costs = new BigInt64Array(total);
  }

  /**
   * Opens the journal of a batch and reads the results in it. If a crash came after a result was stored but before its charge was, the ledger decides: if it has a record of the request, the result counts; if not, it is dropped, and the item runs again.
   */
  static async open(
    bulk: BulkFiles,
    ledger: Pick<Ledger, 'findActivity'>,
    { name, total, accountId }: { readonly name: string; readonly total: number; readonly accountId: number },
  ): Promise<BatchJournal> {
    const file = await bulk.openJournal(name);
    const journal = new BatchJournal(file, total);
    try {
      await journal.#recover(ledger, accountId);
    } catch (thrown) {
      await file.close();
      throw thrown;
    }
    return journal;
  }

  /** True after a failed write: nothing more can be added, and the batch must be opened again. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  get costNanoUsd(): bigint {
    return this.#costNanoUsd;
  }

  get usage(): Usage {
    return toUsage(this.#usage);
  }

  /** Counts the completed and failed items; those that have not run count as neither. */
  get counts(): { readonly completed: number; readonly failed: number } {
    return { completed: this.#answered, failed: this.#failed };
  }

  hasRun(item: number): boolean {
    return this.#states[item] !== notRun;
  }

  /** Stores a result durably, before it is charged. Returns its position in the journal. */
  async keep(item: number, requestId: string, { head, tail }: ResultLine): Promise<number> {
    const value = {
      $typeName: 'tollgate.v1.BatchResult',
      requestId,
      head,
      ...(tail === undefined ? {} : { tail }),
    } as const;
    return this.#append({ item, what: { case: 'result', value } }, true);
  }

  /** Records that the result at `place` was charged. */
  async charged(item: number, place: number, charge: ItemCharge): Promise<void> {
    this.#take(item, place, charge);
    const value = { $typeName: 'tollgate.v1.BatchCharge', ...charge } as const;
    // If this is lost in a power cut, the ledger still has the record.
    await this.#append({ item, what: { case: 'charge', value } }, false);
  }

  /** Records that the item ended with an error; nothing was charged. */
  async failed(item: number, line: Uint8Array): Promise<void> {
    // If this is lost in a power cut, the item runs again.
    const place = await this.#append({ item, what: { case: 'failure', value: line } }, false);
    this.#takeFailure(item, place);
  }

  /** Returns the line of an item that has run; undefined: it has not. */
  async readLine(item: number): Promise<FinalLine | undefined> {
    if (!this.hasRun(item)) return undefined;
    const { what } = readRecord(await this.#journal.read(this.#places[item] ?? 0));
    if (what.case === 'failure') return { kind: 'failed', pieces: [what.value] };
    if (what.case !== 'result') throw new Error(`item ${item} has no result at its position in the journal`);
    const { head, tail } = what.value;
    if (tail === undefined) return { kind: 'answered', pieces: [head] };
    const cost = Buffer.from(JSON.stringify(jsonDollars(this.#costs[item] ?? 0n)));
    return { kind: 'answered', pieces: [head, cost, tail] };
  }

  async close(): Promise<void> {
    await this.#journal.close();
  }

  async #append(record: Pick<BatchRecord, 'item' | 'what'>, durable: boolean): Promise<number> {
    try {
      return await this.#journal.append(toBinary(BatchRecordSchema, create(BatchRecordSchema, record)), durable);
    } catch (thrown) {
      this.#isBroken = true;
      throw thrown;
    }
  }

  async #recover(ledger: Pick<Ledger, 'findActivity'>, accountId: number): Promise<void> {
    const open = new Map<number, { readonly place: number; readonly requestId: BatchResult['requestId'] }>();
    await this.#journal.scan((bytes, place) => {
      const { item, what } = readRecord(bytes);
      if (what.case === 'result') open.set(item, { place, requestId: what.value.requestId });
      if (what.case === 'failure') this.#takeFailure(item, place);
      if (what.case !== 'charge') return;
      const result = open.get(item);
      if (result === undefined) throw new Error(`item ${item} was charged without a result`);
      open.delete(item);
      this.#take(item, result.place, {
        costNanoUsd: what.value.costNanoUsd,
        usage: what.value.usage ?? toUsage(noUsage),
      });
    });
    for (const [item, { place, requestId }] of open) {
      if (this.hasRun(item)) continue;
      const found = await ledger.findActivity(accountId, requestId);
      if (found === undefined) continue;
      const { costNanoUsd, usage } = found.row;
      await this.charged(item, place, { costNanoUsd, usage: toUsage(usage) });
    }
  }

  #take(item: number, place: number, { costNanoUsd, usage }: ItemCharge): void {
    this.#states[item] = answered;
    this.#places[item] = place;
    this.#costs[item] = costNanoUsd;
    this.#answered += 1;
    this.#costNanoUsd += costNanoUsd;
    this.#usage = addBuckets(this.#usage, toBuckets(usage));
  }

  #takeFailure(item: number, place: number): void {
    this.#states[item] = failed;
    this.#places[item] = place;
    this.#failed += 1;
  }
}

function readRecord(bytes: Uint8Array): BatchRecord {
  return fromBinary(BatchRecordSchema, bytes);
}

/** Returns the names of the files that belong to a batch. */
export function fileNames({ id }: Pick<Batch, 'id'>): { readonly input: string; readonly journal: string } {
  return { input: `${id}.input`, journal: `${id}.journal` };
}
