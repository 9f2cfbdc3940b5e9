import type { Batch } from '../../gen/tollgate/v1/batch_pb.ts';
import type { BulkWriter } from '../../store/bulk-files.ts';
import { type BatchJournal, fileNames } from './batch-journal.ts';
import type { FileStore } from './file-store.ts';
import { itemName } from './item-name.ts';
import { isMessagesBatch, type OwnedBatch } from './batch-store.ts';
import { type LineDependencies, readItems } from './check-lines.ts';

/** The dependencies of writing results. */
export interface ResultDependencies extends Pick<LineDependencies, 'bulk' | 'codec'> {
  readonly files: FileStore;
}

/** A batch of which no item is left to run, and whose results have not been written yet. */
export interface DoneBatch extends OwnedBatch {
  readonly journal: BatchJournal;
  /** Why some items have not run. True: the batch was cancelled; false: it expired. */
  readonly isCancelled: boolean;
}

/** The fields that a batch gets when its results are written. */
export type WrittenResults = Pick<Batch, 'outputFileId' | 'errorFileId'> & {
  readonly counts: NonNullable<Batch['counts']>;
};

/** Lines are collected until they have at least this many bytes together, then written. */
const flushBytes = 262_144;

/**
 * Writes the result files: answers in one and failures in another, in the order of the requests; all in one file for
 * Messages. Empty files are not stored. Safe to call again after a crash: files are overwritten.
 */
export async function writeResults(dependencies: ResultDependencies, done: DoneBatch): Promise<WrittenResults> {
  const { batch, journal, isCancelled } = done;
  const output = new ResultFile(dependencies, done, { id: batch.outputFileId, name: 'output' });
  const errors = new ResultFile(dependencies, done, { id: batch.errorFileId, name: 'error' });
  const reason = isCancelled ? 'cancelled' : 'expired';
  let unrun = 0;
  try {
    for await (const { item, bytes } of readItems(dependencies, fileNames(batch).input)) {
      const line = await journal.readLine(item);
      if (line === undefined) {
        unrun += 1;
        const name = itemName(batch, item, await dependencies.codec.readLine(bytes, batch.endpoint));
        await (isMessagesBatch(batch) ? output : errors).add([dependencies.codec.renderUnrun(name, reason)]);
      } else await (line.kind === 'answered' || isMessagesBatch(batch) ? output : errors).add(line.pieces);
    }
    const { completed, failed } = journal.counts;
    const counted = { total: batch.counts?.total ?? 0, completed, failed };
    return {
      outputFileId: await output.finish(),
      errorFileId: await errors.finish(),
      counts: {
        $typeName: 'tollgate.v1.BatchCounts',
        ...counted,
        cancelled: isCancelled ? unrun : 0,
        expired: isCancelled ? 0 : unrun,
      },
    };
  } catch (thrown) {
    await output.discard();
    await errors.discard();
    throw thrown;
  }
}

/** A result file. It is created when its first line is added. */
class ResultFile {
  readonly #dependencies: ResultDependencies;
  readonly #done: DoneBatch;
  readonly #file: { readonly id: string; readonly name: string };
  #writer: BulkWriter | undefined;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;

  constructor(dependencies: ResultDependencies, done: DoneBatch, file: { readonly id: string; readonly name: string }) {
    this.#dependencies = dependencies;
    this.#done = done;
    this.#file = file;
  }

  async add(pieces: readonly Uint8Array[]): Promise<void> {
    for (const piece of pieces) {
      this.#waiting.push(piece);
      this.#waitingBytes += piece.length;
    }
    if (this.#waitingBytes >= flushBytes) await this.#write();
  }

  /** Returns the id of the stored file; '' if it has no lines. */
  async finish(): Promise<string> {
    if (this.#waitingBytes > 0) await this.#write();
    if (this.#writer === undefined) return '';
    await this.#writer.finish();
    const { accountId, batch } = this.#done;
    const { id, name } = this.#file;
    const facts = { filename: `${batch.id}_${name}.jsonl`, purpose: 'batch_output', bytes: this.#writer.size };
    const file = this.#dependencies.files.describe(id, facts);
    const kind = isMessagesBatch(batch) ? 'hidden_file' : 'file';
    await this.#dependencies.files.put({ kind, accountId, apiKeyId: Number(batch.apiKeyId), file });
    return id;
  }

  async discard(): Promise<void> {
    await this.#writer?.discard();
  }

  async #write(): Promise<void> {
    this.#writer ??= await this.#dependencies.bulk.create(this.#file.id);
    const bytes = Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#waitingBytes = 0;
    await this.#writer.append(bytes);
  }
}
