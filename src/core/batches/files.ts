import { create } from '@bufbuild/protobuf';
import { GatewayError } from '../../errors/gateway-error.ts';
import {
  type File,
  type FileService,
  type FinishFileRequest,
  type FinishFileResponse,
  FinishFileResponseSchema,
  ListOrder,
  type ListFilesRequest,
  type ReadFileContentResponse,
} from '../../gen/tollgate/v1/batch_pb.ts';
import { randomBase62 } from '../../lib/ids.ts';
import { pump } from '../../lib/push.ts';
import type { CallContext, PushedService } from '../../lib/pushed-service.ts';
import type { Runtime, Timer } from '../../lib/runtime.ts';
import type { Credential, Ledger } from '../../ledger/ledger.ts';
import type { BulkFiles, BulkReader, BulkWriter } from '../../store/bulk-files.ts';
import { invalidField } from '../account-fields.ts';
import { authenticate } from '../credential.ts';
import { createOnce, type KeepAnswer } from '../idempotency/create-once.ts';
import type { Replays } from '../idempotency/replays.ts';
import { type FileKind, type FileStore, newFileId } from './file-store.ts';

/** The dependencies of storing files. */
export interface FileDependencies {
  readonly ledger: Ledger;
  readonly runtime: Runtime;
  readonly bulk: BulkFiles;
  readonly files: FileStore;
  readonly replays: Replays;
  /** Returns the most bytes of an uploaded file. */
  readonly fileBytesMax: () => number;
  /** Returns the most bytes of all files and results. */
  readonly diskBytesMax: () => number;
}

/** An upload that gets no piece for this long is discarded. */
const idleMs = 600_000;
/** The most concurrent uploads of one account. */
const uploadsMax = 16;
/** The part of the space that one account may have, so that it can't stop the uploads of others. */
const accountShare = 1 / 4;
/** The part of the space that uploads may fill; the rest is left for the results of batches, which are paid for. */
const uploadShare = 7 / 8;
const pageMax = 1_000;
const filenameMax = 255;

/** A file that is being uploaded. */
interface Upload {
  readonly id: string;
  readonly fileId: string;
  readonly kind: FileKind;
  readonly accountId: number;
  readonly writer: BulkWriter;
  /** How many bytes the account had stored when it began, and has stored since. */
  storedBytes: number;
  readonly idle: Timer;
  /** Ends when all pieces so far are written, one after the other. */
  last: Promise<unknown>;
}

/** The files of all accounts, and the uploads that this process receives. */
export class Files {
  readonly #dependencies: FileDependencies;
  readonly #uploads = new Map<string, Upload>();

  constructor(dependencies: FileDependencies) {
    this.#dependencies = dependencies;
  }

  get service(): PushedService<typeof FileService> {
    return {
      createFile: async ({ hidden }, context) => {
        const { accountId } = await this.#caller(context);
        return { uploadId: await this.#begin(accountId, hidden ? 'hidden_file' : 'file') };
      },
      appendFile: async ({ uploadId, content }, context) => {
        const upload = this.#upload(uploadId, await this.#caller(context));
        return { bytes: BigInt(await this.#append(upload, content)) };
      },
      finishFile: (request, context) => this.#finish(request, context),
      getFile: async ({ fileId }, context) => ({ file: await this.#find(fileId, await this.#caller(context)) }),
      listFiles: async (request, context) => this.#list(request, await this.#caller(context)),
      deleteFile: async ({ fileId }, context) => {
        const { id } = await this.#find(fileId, await this.#caller(context));
        await this.#dependencies.files.delete(id);
        return {};
      },
      readFileContent: ({ fileId }, context, sink) => pump(signal => this.#read(fileId, context, signal), sink),
    };
  }

  /** Discards unfinished uploads. */
  async close(): Promise<void> {
    await Promise.all(Array.from(this.#uploads.values(), upload => this.#forget(upload)));
  }

  async #caller(context: CallContext): Promise<Credential> {
    return authenticate(context, this.#dependencies.ledger, 'api_key');
  }

  async #begin(accountId: number, kind: FileKind): Promise<string> {
    const open = Array.from(this.#uploads.values()).filter(upload => upload.accountId === accountId);
    if (open.length >= uploadsMax) {
      throw new GatewayError(
        'overloaded',
        `The account is uploading ${uploadsMax} files, which is the maximum. Try again when one has ended.`,
        { retryAfterMs: 5_000 },
      );
    }
    const { bulk, runtime } = this.#dependencies;
    const id = `upload_${randomBase62(24)}`;
    const fileId = newFileId();
    const storedBytes = await this.#dependencies.files.sumBytes(accountId);
    const writer = await bulk.create(fileId, uploadShare);
    const idle = runtime.after(idleMs, () => void this.#forget(upload));
    const upload: Upload = { id, fileId, kind, accountId, writer, storedBytes, idle, last: Promise.resolve() };
    this.#uploads.set(id, upload);
    return id;
  }

  #upload(id: string, { accountId }: Credential): Upload {
    const upload = this.#uploads.get(id);
    if (upload?.accountId === accountId) return upload;
    throw new GatewayError('not_found', 'There is no such upload.', { param: 'upload_id' });
  }

  async #append(upload: Upload, content: Uint8Array): Promise<number> {
    const max = this.#dependencies.fileBytesMax();
    const { writer } = upload;
    upload.idle.restart(idleMs);
    const turn = upload.last.then(async () => {
      if (writer.size + content.length > max) {
        throw new GatewayError('body_too_large', `The file is larger than ${max} bytes.`, { param: 'file' });
      }
      this.#checkShare(upload, content.length);
      await writer.append(content);
      return writer.size;
    });
    upload.last = turn.catch(() => this.#forget(upload));
    return turn;
  }

  /** Throws if an account would have more than its share with so many more bytes of an upload. */
  #checkShare({ accountId, storedBytes }: Upload, bytes: number): void {
    const { diskBytesMax, fileBytesMax } = this.#dependencies;
    const max = Math.max(fileBytesMax(), diskBytesMax() * accountShare);
    const own = Array.from(this.#uploads.values()).filter(upload => upload.accountId === accountId);
    const uploading = own.reduce((sum, { writer }) => sum + writer.size, 0);
    if (storedBytes + uploading + bytes <= max) return;
    throw new GatewayError('overloaded', `The files of the account have their share of the space: ${max} bytes.`, {
      tip: 'Delete files that you do not need any more (DELETE /v1/files/{id}).',
      retryAfterMs: 60_000,
    });
  }

  async #finish(request: FinishFileRequest, context: CallContext): Promise<FinishFileResponse> {
    const credential = await this.#caller(context);
    const { replays } = this.#dependencies;
    const call = { context, credential, request, answer: FinishFileResponseSchema };
    try {
      const upload = this.#uploads.get(request.uploadId);
      if (request.discard) return create(FinishFileResponseSchema, {});
      // The batch that a hidden file belongs to is made once; the file goes with it.
      if (upload?.kind === 'hidden_file') return await this.#keep(request, credential, async () => {}, '');
      return await createOnce(replays, call, (keep, requestId) => this.#keep(request, credential, keep, requestId));
    } finally {
      const upload = this.#uploads.get(request.uploadId);
      if (upload?.accountId === credential.accountId) await this.#forget(upload);
    }
  }

  /** Stores an upload as a file, and its answer for repeats. */
  async #keep(
    { uploadId, filename, purpose }: FinishFileRequest,
    credential: Credential,
    keep: KeepAnswer<FinishFileResponse>,
    requestId: string,
  ): Promise<FinishFileResponse> {
    const upload = this.#upload(uploadId, credential);
    await upload.last;
    const { files } = this.#dependencies;
    const { writer, fileId, kind, accountId } = upload;
    if (purpose !== 'batch') throw invalidField('purpose', 'must be batch', purpose);
    if (filename.length > filenameMax)
      throw invalidField('file', `must have a name of at most ${filenameMax} characters`);
    if (writer.size === 0) throw invalidField('file', 'must not be empty');
    const name = filename === '' ? 'file.jsonl' : filename;
    const file = files.describe(fileId, { filename: name, purpose, bytes: writer.size });
    const answer: FinishFileResponse = { $typeName: 'tollgate.v1.FinishFileResponse', file, requestId };
    await writer.finish();
    await keep(answer, { kind, id: fileId });
    await files.put({ kind, accountId, apiKeyId: credential.keyId, file });
    for (const other of this.#uploads.values()) if (other.accountId === accountId) other.storedBytes += writer.size;
    return answer;
  }

  async #forget(upload: Upload): Promise<void> {
    if (!this.#uploads.delete(upload.id)) return;
    upload.idle.cancel();
    await upload.writer.discard();
  }

  async #find(fileId: string, { accountId }: Credential): Promise<File> {
    const file = await this.#dependencies.files.find(fileId, accountId);
    if (file === undefined) throw noSuchFile('file_id');
    return file;
  }

  async #list({ limit, after, order, purpose }: ListFilesRequest, { accountId }: Credential) {
    if (limit > pageMax) throw invalidField('limit', `must be 1 to ${pageMax}`, limit);
    const wanted = limit === 0 ? pageMax : limit;
    const files: File[] = [];
    let from = after === '' ? undefined : after;
    // Reads page after page, because files of other purposes are skipped.
    while (files.length <= wanted) {
      const page = await this.#dependencies.files.list({
        accountId,
        order: order === ListOrder.ASCENDING ? 'oldest_first' : 'newest_first',
        after: from,
        limit: wanted + 1,
      });
      if (page === undefined) throw noSuchFile('after');
      for (const file of page) if (purpose === '' || file.purpose === purpose) files.push(file);
      if (page.length <= wanted) break;
      from = page.at(-1)?.id;
    }
    return { files: files.slice(0, wanted), hasMore: files.length > wanted };
  }

  async *#read(
    fileId: string,
    context: CallContext,
    signal: AbortSignal,
  ): AsyncGenerator<ReadFileContentResponse, void, undefined> {
    const $typeName = 'tollgate.v1.ReadFileContentResponse';
    const file = await this.#find(fileId, await this.#caller(context));
    const reader = await this.#dependencies.files.open(file.id);
    if (reader === undefined) throw noSuchFile('file_id');
    yield { $typeName, content: { case: 'file', value: file } };
    for await (const chunk of readPieces(reader, signal)) yield { $typeName, content: { case: 'chunk', value: chunk } };
  }
}

/** Reads a file to its end, or until the signal is aborted, and closes it. */
export async function* readPieces(reader: BulkReader, signal?: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
  try {
    for (let piece = await reader.read(); piece.length > 0; piece = await reader.read()) {
      if (signal?.aborted === true) return;
      yield piece;
    }
  } finally {
    await reader.close();
  }
}

/** Returns the error for an unknown file. `param`: the field that names the file. */
export function noSuchFile(param: string): GatewayError {
  return new GatewayError('not_found', 'There is no such file.', { param });
}
