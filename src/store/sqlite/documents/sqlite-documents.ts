import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../../lib/clock.ts';
import type {
  Chunk,
  DocumentChange,
  DocumentFacts,
  DocumentKind,
  DocumentName,
  Documents,
  NewDocument,
  PutOutcome,
  StoredDocument,
} from '../../documents.ts';
import { type Connection, openForReading, type Query } from '../database.ts';
import { DocumentWriter } from './document-writer.ts';
import { DocumentRows, factsOf, type HeadRow } from './rows.ts';

/** How to open the documents. */
export interface SqliteDocumentsOptions {
  /** Made where it is missing. Whoever opens it holds its node lock, which opening the ledger takes. */
  readonly dataDir: string;
  readonly clock: Clock;
  /** Of all documents together; the oldest finished ones go first. */
  readonly bytesMax: number;
}

/** How long a read of many documents may keep the event loop before it lets others go on. */
const sliceMs = 4;
const chunksBytesMax = 1_000_000;

/** Opens the documents of a data directory, in a file of their own. Throws `LedgerStartError` where that can't be used. */
export async function openSqliteDocuments({ dataDir, clock, bytesMax }: SqliteDocumentsOptions): Promise<Documents> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, 'content.db');
  const writer = await DocumentWriter.start({ path, bytesMax }, () => clock.now());
  const db = openForReading(path);
  db.defaultSafeIntegers(false);
  return new SqliteDocuments(db, writer, clock);
}

/** Commands go to the writer's thread; reads are point reads on this one, by a connection that only reads. */
class SqliteDocuments implements Documents {
  readonly #db: Connection;
  readonly #writer: DocumentWriter;
  readonly #clock: Clock;
  readonly #rows: DocumentRows;
  readonly #chunkAfter: Query<[number, number], Chunk>;
  readonly #unfinished: Query<[string], HeadRow>;

  constructor(db: Connection, writer: DocumentWriter, clock: Clock) {
    this.#db = db;
    this.#writer = writer;
    this.#clock = clock;
    this.#rows = new DocumentRows(db);
    this.#chunkAfter = db.prepare('SELECT seq, content FROM chunk WHERE document = ? AND seq > ? ORDER BY seq LIMIT 1');
    this.#unfinished = db.prepare('SELECT * FROM document WHERE kind = ? AND finished = 0 ORDER BY created_at_ms');
  }

  async put(document: NewDocument): Promise<PutOutcome> {
    return (await this.#writer.send({ kind: 'put', document })) as PutOutcome;
  }

  async update(change: DocumentChange): Promise<'updated' | 'not_found' | 'other_state'> {
    return (await this.#writer.send({ kind: 'update', change })) as 'updated' | 'not_found' | 'other_state';
  }

  async delete({ kind, id }: DocumentName): Promise<'deleted' | 'not_found'> {
    return (await this.#writer.send({ kind: 'delete', name: { kind, id } })) as 'deleted' | 'not_found';
  }

  async find(name: DocumentName, accountId?: number): Promise<StoredDocument | undefined> {
    const head = this.#seen(name, accountId);
    return head === undefined ? undefined : this.#rows.read(head);
  }

  async chain(name: DocumentName, accountId: number): Promise<StoredDocument[] | undefined> {
    const chain: StoredDocument[] = [];
    let head = this.#seen(name, accountId);
    let sliceEndsAt = performance.now() + sliceMs;
    while (head !== undefined) {
      chain.push(this.#rows.read(head));
      if (head.parent === null) return chain.reverse();
      if (performance.now() > sliceEndsAt) {
        await new Promise(setImmediate);
        sliceEndsAt = performance.now() + sliceMs;
      }
      head = this.#rows.headAt(head.parent);
    }
    // Nothing was found, or it was deleted while it was read.
    return undefined;
  }

  async chunks(name: DocumentName, after: number, limit: number): Promise<Chunk[]> {
    const head = this.#seen(name);
    if (head === undefined) return [];
    const chunks: Chunk[] = [];
    let bytes = 0;
    while (chunks.length < limit && bytes < chunksBytesMax) {
      const chunk = this.#chunkAfter.get(head.row, chunks.at(-1)?.seq ?? after);
      if (chunk === undefined) break;
      chunks.push(chunk);
      bytes += chunk.content.length;
    }
    return chunks;
  }

  async unfinished(kind: DocumentKind): Promise<DocumentFacts[]> {
    return this.#unfinished.all(kind).map(factsOf);
  }

  async close(): Promise<void> {
    await this.#writer.close();
    this.#db.close();
  }

  #seen(name: DocumentName, accountId?: number): HeadRow | undefined {
    const head = this.#rows.head(name);
    if (head === undefined || head.ends_at_ms <= this.#clock.now()) return undefined;
    return accountId === undefined || head.account_id === accountId ? head : undefined;
  }
}
