import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { type File, FileSchema } from '../../gen/tollgate/v1/batch_pb.ts';
import type { Clock } from '../../lib/clock.ts';
import { randomBase62 } from '../../lib/ids.ts';
import type { BulkFiles, BulkReader } from '../../store/bulk-files.ts';
import {
  type DocumentPage,
  type Documents,
  type NewDocument,
  type StoredDocument,
  uncounted,
} from '../../store/documents.ts';

/** How long files and batches are kept. Source: docs/interfaces/files-and-batches.md "Files". */
export const keptMs = 30 * 86_400_000;

/** How many files are read at a time to add up their sizes. */
const summedPage = 1_000;

/** Hidden files are the input and results of a Messages batch: their account sees them only through the batch. */
export type FileKind = Extract<DocumentPage['kind'], 'file' | 'hidden_file'>;

/** A file and its owner. */
export interface OwnedFile {
  readonly kind: FileKind;
  readonly accountId: number;
  readonly apiKeyId: number;
  readonly file: File;
}

/** Returns a new id of a file. */
export function newFileId(): string {
  return `file-${randomBase62(24)}`;
}

/** Stores files: their facts as documents, their bytes as bulk files, under the file's id. */
export class FileStore {
  readonly #documents: Documents;
  readonly #bulk: BulkFiles;
  readonly #clock: Clock;
  /** Names whose file or batch did not exist at the last sweep. */
  #ended: ReadonlySet<string> = new Set();

  constructor(documents: Documents, bulk: BulkFiles, clock: Clock) {
    this.#documents = documents;
    this.#bulk = bulk;
    this.#clock = clock;
  }

  /** Registers a file whose bytes are already stored. Repeating this changes nothing. */
  async put({ kind, accountId, apiKeyId, file }: OwnedFile): Promise<void> {
    const facts: Omit<NewDocument, 'body'> = {
      kind,
      id: file.id,
      accountId,
      apiKeyId,
      state: 'stored',
      finished: true,
      createdAtMs: Number(file.createdAtMs),
      endsAtMs: Number(file.expiresAtMs),
    };
    await this.#documents.put({ ...facts, body: toBinary(FileSchema, file) });
  }

  /** Returns an account's file; undefined if it has none with that id. */
  async find(id: string, accountId: number, kind: FileKind = 'file'): Promise<File | undefined> {
    const found = await this.#documents.find({ kind, id }, uncounted, accountId);
    return found && toFile(found);
  }

  async list(page: Omit<DocumentPage, 'kind'>): Promise<File[] | undefined> {
    return (await this.#documents.list({ ...page, kind: 'file' }))?.map(toFile);
  }

  /** Returns how many bytes the files of an account have, with those of its Messages batches. */
  async sumBytes(accountId: number): Promise<number> {
    let bytes = 0;
    for (const kind of ['file', 'hidden_file'] as const) {
      for (let after: string | undefined; ;) {
        const page = await this.#documents.list({ kind, accountId, order: 'newest_first', after, limit: summedPage });
        for (const document of page ?? []) bytes += Number(toFile(document).bytes);
        if (page === undefined || page.length < summedPage) break;
        after = page.at(-1)?.id;
      }
    }
    return bytes;
  }

  async delete(id: string, kind: FileKind = 'file'): Promise<void> {
    await this.#documents.delete({ kind, id });
    await this.#bulk.delete(id);
  }

  async open(id: string): Promise<BulkReader | undefined> {
    return this.#bulk.open(id);
  }

  /** Returns the description of a file that is created now. */
  describe(id: string, { filename, purpose, bytes }: Pick<File, 'filename' | 'purpose'> & { bytes: number }): File {
    const nowMs = this.#clock.now();
    return {
      $typeName: 'tollgate.v1.File',
      id,
      filename,
      purpose,
      bytes: BigInt(bytes),
      createdAtMs: BigInt(nowMs),
      expiresAtMs: BigInt(nowMs + keptMs),
    };
  }

  /**
   * Removes bytes whose file or batch does not exist, and did not exist at the last sweep either. A single check is not enough, because bytes are stored before the document that names them. `isKept` decides for names that are not ids of files.
   */
  async sweep(isKept: (name: string) => Promise<boolean>): Promise<void> {
    const ended = new Set<string>();
    for (const name of await this.#bulk.list()) {
      const stays = name.startsWith('file-') ? await this.#isKnown(name) : await isKept(name);
      if (stays) continue;
      if (this.#ended.has(name)) await this.#bulk.delete(name);
      else ended.add(name);
    }
    this.#ended = ended;
  }

  async #isKnown(id: string): Promise<boolean> {
    const kinds: readonly FileKind[] = ['file', 'hidden_file'];
    for (const kind of kinds) if ((await this.#documents.find({ kind, id }, uncounted)) !== undefined) return true;
    return false;
  }
}

function toFile({ body }: StoredDocument): File {
  return fromBinary(FileSchema, body);
}
