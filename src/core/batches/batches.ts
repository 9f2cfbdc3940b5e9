import { GatewayError } from '../../errors/gateway-error.ts';
import {
  type Batch,
  type BatchService,
  BatchState,
  type CreateBatchRequest,
  type CreateBatchResponse,
  CreateBatchResponseSchema,
  type File,
  type ListBatchesRequest,
  type ReadResultsResponse,
} from '../../gen/tollgate/v1/batch_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { randomBase62 } from '../../lib/ids.ts';
import { pump } from '../../lib/push.ts';
import type { CallContext, PushedService } from '../../lib/pushed-service.ts';
import type { Credential } from '../../ledger/ledger.ts';
import type { Documents } from '../../store/documents.ts';
import { invalidField } from '../account-fields.ts';
import { authenticate } from '../credential.ts';
import { createOnce } from '../idempotency/create-once.ts';
import { type StoppableService, stopping } from '../running-requests.ts';
import { fileNames } from './batch-journal.ts';
import type { BatchJobDependencies } from './batch-job.ts';
import { BatchQueue } from './batch-queue.ts';
import { BatchStore, batchName, hasEnded, idStarts, isMessagesBatch, type OwnedBatch } from './batch-store.ts';
import { checkLines } from './check-lines.ts';
import { FileStore, newFileId } from './file-store.ts';
import { Files, type FileDependencies, noSuchFile, readPieces } from './files.ts';

/** The dependencies of batches and their files. */
export interface BatchDependencies
  extends Omit<BatchJobDependencies, 'files' | 'store'>, Omit<FileDependencies, 'files'> {
  readonly documents: Documents;
  /** Returns how many items run at once, of all batches together. */
  readonly concurrency: () => number;
  /** Returns the URL of the public listener, without a slash at its end. */
  readonly publicUrl: () => string;
}

/** How long after the creation of a batch its items may begin; items that have not begun by then expire. Source: docs/interfaces/files-and-batches.md "How items run". */
const lifetimeMs = 86_400_000;
/** The most batches of one account that have not ended. */
const openMax = 1_000;
const page = { default: 20, max: 1_000 };
const metadataMax = { pairs: 16, key: 64, value: 512 };
/** Interval at which expired files are removed. */
const sweepMs = 3_600_000;

const endpoints: ReadonlySet<Endpoint> = new Set([
  Endpoint.CHAT_COMPLETIONS,
  Endpoint.RESPONSES,
  Endpoint.EMBEDDINGS,
  Endpoint.MESSAGES,
  Endpoint.GEMINI,
]);

/** All batches and files of this process. */
export class Batches implements StoppableService {
  readonly #dependencies: BatchDependencies & BatchJobDependencies & FileDependencies;
  readonly #files: Files;
  readonly #queue: BatchQueue;
  #isDraining = false;

  constructor(dependencies: BatchDependencies) {
    const files = new FileStore(dependencies.documents, dependencies.bulk, dependencies.runtime);
    this.#dependencies = { ...dependencies, files, store: new BatchStore(dependencies.documents) };
    this.#files = new Files(this.#dependencies);
    this.#queue = new BatchQueue(this.#dependencies);
  }

  get fileService(): Files['service'] {
    return this.#files.service;
  }

  get service(): PushedService<typeof BatchService> {
    return {
      createBatch: (request, context) => this.#create(request, context),
      getBatch: async ({ batchId }, context) => ({ batch: this.#show(await this.#find(batchId, context)) }),
      listBatches: async (request, context) => this.#list(request, await this.#caller(context)),
      cancelBatch: async ({ batchId }, context) => ({ batch: await this.#cancel(await this.#find(batchId, context)) }),
      deleteBatch: async ({ batchId }, context) => {
        await this.#delete(await this.#find(batchId, context));
        return {};
      },
      readResults: ({ batchId }, context, sink) => pump(signal => this.#readResults(batchId, context, signal), sink),
    };
  }

  /** Resumes the batches that an earlier process left unfinished; removes expired files now and at intervals. */
  async resume(): Promise<void> {
    await this.#queue.resume();
    const sweep = this.#dependencies.runtime.after(0, () => {
      void this.#sweep().finally(() => {
        if (!this.#isDraining) sweep.restart(sweepMs);
      });
    });
  }

  /** Starts no more items, and refuses new batches. */
  drain(): void {
    this.#isDraining = true;
    this.#queue.drain();
  }

  /** Resolves when no item runs; immediately if none runs now. */
  async idle(): Promise<void> {
    await this.#queue.idle();
  }

  /** Does nothing: the services that answer the items also interrupt them. */
  interruptAll(): void {}

  /** Does nothing: the services that answer the items also end those of a revoked key, and later items of the batch fail because the key is revoked. */
  revoke(): void {}

  /** Closes all open batches. The next process resumes them. */
  async close(): Promise<void> {
    await this.#queue.close();
    await this.#files.close();
  }

  async #caller(context: CallContext): Promise<Credential> {
    return authenticate(context, this.#dependencies.ledger, 'api_key');
  }

  async #find(batchId: string, context: CallContext): Promise<OwnedBatch> {
    const { accountId } = await this.#caller(context);
    const found = await this.#dependencies.store.find(batchId, accountId);
    if (found === undefined) throw new GatewayError('not_found', 'There is no such batch.', { param: 'batch_id' });
    return found;
  }

  async #create(request: CreateBatchRequest, context: CallContext): Promise<CreateBatchResponse> {
    const credential = await this.#caller(context);
    const call = { context, credential, request, answer: CreateBatchResponseSchema };
    try {
      return await createOnce(this.#dependencies.replays, call, async (keep, requestId) => {
        const input = await this.#findInput(request, credential);
        const batch = await this.#describe(request, input, credential);
        const answer: CreateBatchResponse = {
          $typeName: 'tollgate.v1.CreateBatchResponse',
          batch: this.#show({ accountId: credential.accountId, batch }),
          requestId,
        };
        await keep(answer, batchName(batch.id));
        await this.#store(batch, input, credential);
        return answer;
      });
    } finally {
      // The batch has its own link to the requests. A refused or repeated call leaves nothing either.
      if (request.endpoint === Endpoint.MESSAGES) await this.#dropInput(request, credential);
    }
  }

  /** Checks a request for a batch, and returns its file. */
  async #findInput(request: CreateBatchRequest, { accountId }: Credential): Promise<File> {
    if (this.#isDraining) throw stopping();
    const { endpoint, metadata, inputFileId } = request;
    if (!endpoints.has(endpoint)) {
      const allowed =
        'must be /v1/chat/completions, /v1/responses, /v1/embeddings or /v1beta/models/{model}:generateContent';
      throw invalidField('endpoint', allowed);
    }
    checkMetadata(metadata);
    const kind = endpoint === Endpoint.MESSAGES ? 'hidden_file' : 'file';
    const file = await this.#dependencies.files.find(inputFileId, accountId, kind);
    if (file === undefined) throw noSuchFile('input_file_id');
    await this.#checkRoom(accountId);
    return file;
  }

  /** Returns the new batch, which is not stored yet. Throws `validation_error` for a batch of Messages with a wrong request. */
  async #describe({ endpoint, metadata }: CreateBatchRequest, file: File, { keyId }: Credential): Promise<Batch> {
    const nowMs = this.#dependencies.runtime.now();
    const isMessages = endpoint === Endpoint.MESSAGES;
    const batch: Batch = {
      $typeName: 'tollgate.v1.Batch',
      id: `${isMessages ? idStarts.messages : idStarts.others}${randomBase62(24)}`,
      endpoint,
      state: BatchState.VALIDATING,
      inputFileId: isMessages ? '' : file.id,
      outputFileId: newFileId(),
      errorFileId: newFileId(),
      metadata,
      faults: [],
      costNanoUsd: 0n,
      times: {
        $typeName: 'tollgate.v1.BatchTimes',
        createdMs: BigInt(nowMs),
        expiresMs: BigInt(nowMs + lifetimeMs),
      },
      resultsUrl: '',
      apiKeyId: BigInt(keyId),
    };
    return isMessages ? this.#checkMessages(batch, file.id) : batch;
  }

  async #store(batch: Batch, file: File, { accountId }: Credential): Promise<void> {
    const { store, bulk } = this.#dependencies;
    // The batch gets its own link to the file, because the client may delete the file before the batch has ended.
    if ((await bulk.link(file.id, fileNames(batch).input)) === 'not_found') throw noSuchFile('input_file_id');
    await store.create({ accountId, batch });
    this.#queue.openWaiting();
  }

  /** Deletes the hidden file with the requests of a batch of Messages. */
  async #dropInput({ inputFileId }: CreateBatchRequest, { accountId }: Credential): Promise<void> {
    const { files } = this.#dependencies;
    const file = await files.find(inputFileId, accountId, 'hidden_file');
    if (file !== undefined) await files.delete(file.id, 'hidden_file');
  }

  /** Checks the requests of a Messages batch before it is created, because in that interface a batch can't be refused later. Throws `validation_error`. */
  async #checkMessages(batch: Batch, fileId: string): Promise<Batch> {
    const { total, faults } = await checkLines(this.#dependencies, fileId, batch.endpoint);
    const [fault] = faults;
    if (fault !== undefined) {
      const at = fault.line === undefined ? 'requests' : `requests.${fault.line - 1}`;
      const path = fault.param === '' ? at : `${at}.${fault.param}`;
      throw new GatewayError(
        'validation_error',
        `${path}: ${fault.message.replace(/\bline (\d+)/, 'another request')}`,
        {
          param: path,
          violations: [{ path: path.split('.'), message: fault.message, type: 'value_error' }],
        },
      );
    }
    const counts = {
      $typeName: 'tollgate.v1.BatchCounts',
      total,
      completed: 0,
      failed: 0,
      cancelled: 0,
      expired: 0,
    } as const;
    const times = batch.times && { ...batch.times, inProgressMs: batch.times.createdMs };
    return { ...batch, counts, state: BatchState.IN_PROGRESS, ...(times === undefined ? {} : { times }) };
  }

  async #checkRoom(accountId: number): Promise<void> {
    const open = (await this.#dependencies.store.unfinished()).filter(each => each.accountId === accountId);
    if (open.length < openMax) return;
    const message = `The account has ${openMax} batches that have not ended, which is the maximum. Wait until one ends, or cancel one.`;
    throw new GatewayError('overloaded', message, { retryAfterMs: 60_000 });
  }

  async #cancel(owned: OwnedBatch): Promise<Batch> {
    const { batch, accountId } = owned;
    if (hasEnded(batch)) {
      if (isMessagesBatch(batch)) return this.#show(owned);
      throw new GatewayError('conflict', 'The batch has ended.');
    }
    return this.#show({ accountId, batch: await this.#queue.cancel(owned) });
  }

  async #delete({ batch }: OwnedBatch): Promise<void> {
    if (!hasEnded(batch)) {
      throw new GatewayError('conflict', 'The batch has not ended.', {
        tip: 'Cancel it, and delete it once it has ended.',
      });
    }
    const { store, files } = this.#dependencies;
    await store.delete(batch.id);
    const kind = isMessagesBatch(batch) ? 'hidden_file' : 'file';
    for (const id of [batch.outputFileId, batch.errorFileId]) if (id !== '') await files.delete(id, kind);
  }

  async #list({ limit, after, before, messages }: ListBatchesRequest, { accountId }: Credential) {
    if (limit > page.max) throw invalidField('limit', `must be 1 to ${page.max}`, limit);
    const wanted = limit === 0 ? page.default : limit;
    const isBackwards = before !== '';
    const from = isBackwards ? before : after;
    const found = await this.#dependencies.store.list(
      {
        accountId,
        order: isBackwards ? 'oldest_first' : 'newest_first',
        after: from === '' ? undefined : from,
        limit: wanted + 1,
      },
      messages,
    );
    if (found === undefined) {
      throw new GatewayError('not_found', 'There is no such batch.', { param: isBackwards ? 'before' : 'after' });
    }
    const batches = found.slice(0, wanted).map(batch => this.#show({ accountId, batch }));
    return { batches: isBackwards ? batches.reverse() : batches, hasMore: found.length > wanted };
  }

  async *#readResults(
    batchId: string,
    context: CallContext,
    signal: AbortSignal,
  ): AsyncGenerator<ReadResultsResponse, void, undefined> {
    const { batch } = await this.#find(batchId, context);
    if (!isMessagesBatch(batch) || !hasEnded(batch)) {
      throw new GatewayError('not_found', 'The batch has no results yet.', { tip: 'Wait until it has ended.' });
    }
    const reader = batch.outputFileId === '' ? undefined : await this.#dependencies.files.open(batch.outputFileId);
    if (reader === undefined) return;
    for await (const chunk of readPieces(reader, signal)) {
      yield { $typeName: 'tollgate.v1.ReadResultsResponse', chunk };
    }
  }

  /** Returns a batch as its account sees it: in its current state, with results once it has ended. */
  #show({ batch: stored }: OwnedBatch): Batch {
    const batch = this.#queue.find(stored.id) ?? stored;
    if (!hasEnded(batch)) return { ...batch, outputFileId: '', errorFileId: '' };
    if (batch.state === BatchState.FAILED) return { ...batch, outputFileId: '', errorFileId: '' };
    if (!isMessagesBatch(batch)) return batch;
    return { ...batch, resultsUrl: `${this.#dependencies.publicUrl()}/v1/messages/batches/${batch.id}/results` };
  }

  async #sweep(): Promise<void> {
    const { files, store, onDefect } = this.#dependencies;
    try {
      await files.sweep(async name => {
        const batch = await store.find(name.slice(0, name.indexOf('.')));
        return batch !== undefined && !hasEnded(batch.batch);
      });
    } catch (thrown) {
      onDefect('', thrown);
    }
  }
}

function checkMetadata(metadata: CreateBatchRequest['metadata']): void {
  const pairs = Object.entries(metadata);
  const { pairs: most, key, value } = metadataMax;
  if (pairs.length > most) throw invalidField('metadata', `must have at most ${most} pairs`);
  for (const [name, text] of pairs) {
    if (name.length > key || text.length > value) {
      throw invalidField('metadata', `must have names of at most ${key} characters and values of at most ${value}`);
    }
  }
}
