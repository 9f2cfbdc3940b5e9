import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { type Batch, BatchSchema, BatchState } from '../../gen/tollgate/v1/batch_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import {
  type DocumentFacts,
  type DocumentName,
  type DocumentPage,
  type Documents,
  type StoredDocument,
  uncounted,
} from '../../store/documents.ts';
import { keptMs } from './file-store.ts';

/** A batch and its owner. */
export interface OwnedBatch {
  readonly accountId: number;
  /** The last stored state. */
  readonly batch: Batch;
}

const ended: ReadonlySet<BatchState> = new Set([
  BatchState.FAILED,
  BatchState.COMPLETED,
  BatchState.EXPIRED,
  BatchState.CANCELLED,
]);

/** Returns whether a batch has ended. */
export function hasEnded({ state }: Pick<Batch, 'state'>): boolean {
  return ended.has(state);
}

/** The prefixes of batch ids. */
export const idStarts = { messages: 'msgbatch_', others: 'batch_' } as const;

/** Stores batches as documents. */
export class BatchStore {
  readonly #documents: Documents;

  constructor(documents: Documents) {
    this.#documents = documents;
  }

  /** Stores a new batch, durably. */
  async create({ accountId, batch }: OwnedBatch): Promise<void> {
    const createdAtMs = Number(batch.times?.createdMs ?? 0n);
    await this.#documents.put({
      ...batchName(batch.id),
      accountId,
      apiKeyId: Number(batch.apiKeyId),
      state: hasEnded(batch) ? 'ended' : 'open',
      finished: hasEnded(batch),
      createdAtMs,
      endsAtMs: createdAtMs + keptMs,
      body: toBinary(BatchSchema, batch),
    });
  }

  /** Stores the state of a batch. */
  async update(batch: Batch): Promise<void> {
    const body = toBinary(BatchSchema, batch);
    await this.#documents.update({
      ...batchName(batch.id),
      state: hasEnded(batch) ? 'ended' : 'open',
      finished: hasEnded(batch),
      body,
    });
  }

  /** Returns an account's batch (any account's if no account is given); undefined if there is none with that id. */
  async find(id: string, accountId?: number): Promise<OwnedBatch | undefined> {
    const found = await this.#documents.find(batchName(id), uncounted, accountId);
    return found && toBatch(found);
  }

  async list(page: Omit<DocumentPage, 'kind'>, messages: boolean): Promise<Batch[] | undefined> {
    const found = await this.#documents.list({ ...page, kind: messages ? 'message_batch' : 'batch' });
    return found?.map(document => toBatch(document).batch);
  }

  async delete(id: string): Promise<void> {
    await this.#documents.delete(batchName(id));
  }

  /** Returns the batches that have not ended, oldest first. */
  async unfinished(): Promise<readonly DocumentFacts[]> {
    const [others, messages] = await Promise.all([
      this.#documents.unfinished('batch'),
      this.#documents.unfinished('message_batch'),
    ]);
    return [...others, ...messages].sort((one, other) => one.createdAtMs - other.createdAtMs);
  }
}

/** Returns the name of a batch's document. */
export function batchName(id: string): DocumentName {
  return { kind: id.startsWith(idStarts.messages) ? 'message_batch' : 'batch', id };
}

function toBatch({ accountId, body }: StoredDocument): OwnedBatch {
  return { accountId, batch: fromBinary(BatchSchema, body) };
}

/** Returns whether the batch was created through the Messages interface, whose batches have other states, ids and results. */
export function isMessagesBatch({ endpoint }: Pick<Batch, 'endpoint'>): boolean {
  return endpoint === Endpoint.MESSAGES;
}
