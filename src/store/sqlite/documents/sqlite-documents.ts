import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../../lib/clock.ts';
import {
  type Chunk,
  type ChunkPage,
  type ContentRoom,
  type DocumentChange,
  type DocumentFacts,
  type DocumentKind,
  type DocumentName,
  type DocumentPage,
  type Documents,
  type NewDocument,
  type PutOutcome,
  type StoredDocument,
  type StoredFacts,
  largeContentBytes,
} from '../../documents.ts';
import { type Connection, mayLoseWrites, openForReading, type Query } from '../../../lib/sqlite/database.ts';
import { endedEarly, holdLog, removeLog } from '../../../lib/sqlite/log-file.ts';
import type { DocumentCommand } from './document-engine.ts';
import { type DocumentWatch, DocumentWriter } from './document-writer.ts';
import { type ContentName, ContentReader } from './content-reader.ts';
import { DocumentRows, intactContent, toDocumentFacts, type HeadRow, type ReadContent, readsContent } from './rows.ts';

interface SqliteDocumentsOptions {
  /** The data directory; it is created if it does not exist. The caller has locked it, as opening the ledger does. */
  readonly dataDir: string;
  readonly clock: Clock;
  /** The most bytes of all documents except answers of idempotency keys; see `Eviction`. */
  readonly bytesMax: number;
  /** The most bytes of answers of idempotency keys; absent: the same number. */
  readonly replayBytesMax?: number;
  /** True to look for damage first; absent: only if the last process that wrote the file did not close it. */
  readonly checksFile?: boolean;
  /** Called for failures; absent: not reported. */
  readonly watch?: DocumentWatch;
}

const chunksBytesMax = 1_000_000;

/** Documents of a process that also accepts commands of its workers. */
export interface SharedDocuments extends Documents {
  /** Sends a command of a worker and resolves with its reply. */
  send(command: DocumentCommand): Promise<unknown>;
}

/** Opens the documents of a data directory. They are in a file separate from the ledger. Throws `LedgerStartError` if it can't be used. */
export async function openSqliteDocuments(options: SqliteDocumentsOptions): Promise<SharedDocuments> {
  const { dataDir, clock, bytesMax, replayBytesMax: keptBytesMax = bytesMax, watch = unwatched } = options;
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = documentsPath(dataDir);
  const data = { path, max: { bytesMax, keptBytesMax }, checksFile: options.checksFile ?? endedEarly(path) };
  const held = holdLog(path);
  try {
    const writer = await DocumentWriter.start(data, () => clock.now(), watch);
    return new SqliteDocuments(path, writer, clock, () => removeLog(path));
  } finally {
    held?.close();
  }
}

/** Opens the documents in a worker: it reads the file itself, and `sender` sends its commands to the thread that opened the store. */
export function openLentDocuments(dataDir: string, clock: Clock, sender: Omit<CommandSender, 'close'>): Documents {
  const lent = { ...sender, close: async () => undefined };
  return new SqliteDocuments(documentsPath(dataDir), lent, clock, () => undefined);
}

function openReads(path: string): Connection {
  const db = openForReading(path);
  db.defaultSafeIntegers(false);
  return db;
}

/** Sends the commands of a store. */
type CommandSender = Pick<DocumentWriter, 'send' | 'lose' | 'close'>;

/** Returns the path of the documents' file in a data directory. */
export function documentsPath(dataDir: string): string {
  return join(dataDir, 'content.db');
}

/** Returns the number of documents in a data directory; 0 if it has no documents' file or it can't be read. */
export function countDocuments(dataDir: string): number {
  const db = holdLog(documentsPath(dataDir));
  if (db === undefined) return 0;
  try {
    return Number(db.prepare<[], bigint>('SELECT count(*) FROM document').pluck().get() ?? 0n);
  } catch {
    return 0;
  } finally {
    db.close();
  }
}

type PageValues = [kind: string, accountId: number, atMs: number, row: number, nowMs: number, limit: number];

function preparePage(db: Connection, after: '<' | '>', direction: 'ASC' | 'DESC'): Query<PageValues, HeadRow> {
  return db.prepare(
    `SELECT * FROM document WHERE kind = ? AND account_id = ? AND (created_at_ms, row) ${after} (?, ?) AND ends_at_ms > ?
     ORDER BY created_at_ms ${direction}, row ${direction} LIMIT ?`,
  );
}

const unwatched: DocumentWatch = { failing: () => undefined, lost: () => undefined };

/** Sends commands to the writer's thread. Reads find single rows, so they run on the calling thread, on a read-only connection; large contents are read on a thread of their own. */
class SqliteDocuments implements SharedDocuments {
  readonly #db: Connection;
  readonly #writer: CommandSender;
  readonly #clock: Clock;
  readonly #onClosed: () => void;
  readonly #rows: DocumentRows;
  readonly #contents: ContentReader;
  readonly #chunkAfter: Query<[number, number], ReadContent & Pick<Chunk, 'seq'>>;
  readonly #unfinished: Query<[string], HeadRow>;
  readonly #pages: Readonly<Record<DocumentPage['order'], Query<PageValues, HeadRow>>>;

  constructor(path: string, writer: CommandSender, clock: Clock, onClosed: () => void) {
    const db = openReads(path);
    this.#onClosed = onClosed;
    this.#db = db;
    this.#writer = writer;
    this.#clock = clock;
    this.#contents = new ContentReader(path);
    this.#rows = new DocumentRows(db, largeContentBytes);
    this.#chunkAfter = db.prepare(
      `SELECT seq, ${readsContent(largeContentBytes, 'chunk')} FROM chunk WHERE document = ? AND seq > ? ORDER BY seq LIMIT 1`,
    );
    this.#unfinished = db.prepare('SELECT * FROM document WHERE kind = ? AND finished = 0 ORDER BY created_at_ms');
    this.#pages = { oldest_first: preparePage(db, '>', 'ASC'), newest_first: preparePage(db, '<', 'DESC') };
  }

  send(command: DocumentCommand): Promise<unknown> {
    return this.#writer.send(command);
  }

  put(document: NewDocument): Promise<PutOutcome> {
    return this.#writer.send({ kind: 'put', document });
  }

  update(change: DocumentChange): ReturnType<Documents['update']> {
    return this.#writer.send({ kind: 'update', change });
  }

  delete({ kind, id }: DocumentName): ReturnType<Documents['delete']> {
    return this.#writer.send({ kind: 'delete', name: { kind, id } });
  }

  async find(name: DocumentName, room: ContentRoom, accountId?: number): Promise<StoredDocument | undefined> {
    const head = this.#seen(name, accountId);
    if (head === undefined) return undefined;
    const stored = this.#read(() => this.#rows.readBody(head));
    if (stored.content === null) await room.reserve(stored.length);
    return this.#whole(head, stored);
  }

  async facts(name: DocumentName, accountId?: number): Promise<StoredFacts | undefined> {
    const head = this.#seen(name, accountId);
    return head && toDocumentFacts(head);
  }

  async chain(name: DocumentName, accountId: number, room: ContentRoom): Promise<StoredDocument[] | undefined> {
    const chain: StoredDocument[] = [];
    let loadedBytes = 0;
    let isReserved = false;
    let next = this.#seen(name, accountId)?.row ?? null;
    while (next !== null) {
      if (chain.length > 0) await new Promise(setImmediate);
      const from = next;
      const links = this.#read(() => this.#rows.links(from));
      for (const link of links) {
        if (link.row !== next) throw new Error(`document ${link.id} is not the next one of its chain`);
        if (!isReserved && loadedBytes + link.length > largeContentBytes) {
          isReserved = true;
          const restBytes = this.#read(() => this.#rows.chainLength(link.row));
          await room.reserve(loadedBytes + restBytes);
        }
        loadedBytes += link.length;
        const found = this.#content(link, { row: link.row, owner: link.id });
        const body = found instanceof Promise ? await found : found;
        // The document was deleted while its chain was read.
        if (body === undefined) return undefined;
        chain.push({ ...toDocumentFacts(link), body });
        next = link.parent;
      }
      // The document was deleted while its chain was read.
      if (links.length === 0) return undefined;
    }
    return chain.length === 0 ? undefined : chain.reverse();
  }

  async chunks(name: DocumentName, { after, limit }: ChunkPage, room: ContentRoom): Promise<Chunk[]> {
    const head = this.#seen(name);
    if (head === undefined) return [];
    const chunks: Chunk[] = [];
    let bytes = 0;
    while (chunks.length < limit && bytes < chunksBytesMax) {
      const chunk = this.#read(() => this.#chunkAfter.get(head.row, chunks.at(-1)?.seq ?? after));
      if (chunk === undefined) break;
      if (chunk.content === null) await room.reserve(chunk.length);
      const content = await this.#content(chunk, { row: head.row, seq: chunk.seq, owner: head.id });
      if (content === undefined) break;
      chunks.push({ seq: chunk.seq, content });
      bytes += content.length;
    }
    return chunks;
  }

  async unfinished(kind: DocumentKind): Promise<DocumentFacts[]> {
    return this.#read(() => this.#unfinished.all(kind)).map(toDocumentFacts);
  }

  async list({ kind, accountId, order, after, limit }: DocumentPage): Promise<StoredDocument[] | undefined> {
    const from = after === undefined ? undefined : this.#seen({ kind, id: after }, accountId);
    if (after !== undefined && from === undefined) return undefined;
    const first = order === 'oldest_first' ? [-1, -1] : [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
    const [atMs = 0, row = 0] = from === undefined ? first : [from.created_at_ms, from.row];
    const page = this.#read(() =>
      this.#pages[order]
        .all(kind, accountId, atMs, row, this.#clock.now(), limit)
        .map(head => ({ head, stored: this.#rows.readBody(head) })),
    );
    const documents: StoredDocument[] = [];
    for (const { head, stored } of page) {
      const document = await this.#whole(head, stored);
      if (document !== undefined) documents.push(document);
    }
    return documents;
  }

  async close(): Promise<void> {
    await this.#contents.close();
    await this.#writer.close();
    this.#db.close();
    this.#onClosed();
  }

  /** Returns a document with its body; undefined: it was deleted meanwhile. */
  async #whole(head: HeadRow, stored: ReadContent): Promise<StoredDocument | undefined> {
    const body = await this.#content(stored, { row: head.row, owner: head.id });
    return body === undefined ? undefined : { ...toDocumentFacts(head), body };
  }

  /** Returns a content, from the thread if it is large; undefined: it was deleted meanwhile. Throws or rejects if it is damaged. */
  #content(
    { content, crc }: Omit<ReadContent, 'length'>,
    name: ContentName,
  ): Uint8Array | Promise<Uint8Array | undefined> {
    return content === null ? this.#readApart(name) : intactContent({ content, crc }, name.owner);
  }

  async #readApart(name: ContentName): Promise<Uint8Array | undefined> {
    try {
      return await this.#contents.read(name);
    } catch (error) {
      if (mayLoseWrites(error)) this.#writer.lose(error);
      throw error;
    }
  }

  /** Runs a read. If SQLite finds that the file is damaged, the process must end, as after a failed write. */
  #read<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      if (mayLoseWrites(error)) this.#writer.lose(error);
      throw error;
    }
  }

  #seen(name: DocumentName, accountId?: number): HeadRow | undefined {
    const head = this.#read(() => this.#rows.head(name));
    if (head === undefined || head.ends_at_ms <= this.#clock.now()) return undefined;
    return accountId === undefined || head.account_id === accountId ? head : undefined;
  }
}
