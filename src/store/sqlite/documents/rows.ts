import type {
  Chunk,
  DocumentChange,
  DocumentKind,
  DocumentName,
  NewDocument,
  StoredDocument,
  StoredFacts,
} from '../../documents.ts';
import { crc32 } from 'node:zlib';
import type { Connection } from '../../../lib/sqlite/database.ts';

/** The bytes that a document takes besides its content: its rows and their index entries. */
const overheadBytes = 512;

/** Returns the size of a new document, as it counts for the space. */
export function measureSize({ body, chunks = [] }: NewDocument): number {
  return sumLength(chunks) + body.length + overheadBytes;
}

/** Returns the sum of the bytes of chunks. */
export function sumLength(chunks: readonly Chunk[]): number {
  return chunks.reduce((sum, { content }) => sum + content.length, 0);
}

/** The most documents of a chain that one statement reads, and the number of bytes after which it stops. */
const linksMax = 64;
const linkBytesMax = 1_000_000;

/** A document's row without its bytes. */
export interface HeadRow {
  readonly row: number;
  readonly kind: DocumentKind;
  readonly id: string;
  readonly account_id: number;
  readonly api_key_id: number | null;
  readonly state: string;
  readonly finished: number;
  readonly created_at_ms: number;
  readonly ends_at_ms: number;
  readonly parent: number | null;
  readonly children: number;
  readonly bytes: number;
}

/** Stored bytes and their checksum, which is null if they were written before there were checksums. */
export interface StoredContent {
  readonly content: Uint8Array;
  readonly crc: number | null;
}

/** A stored content as it is read here; `content` null: it is too large to be read here. */
export interface ReadContent {
  readonly content: Uint8Array | null;
  readonly crc: number | null;
  /** In bytes. */
  readonly length: number;
}

/** A document's row with its body. */
export interface WholeRow extends HeadRow, ReadContent {}

/** Returns the bytes. Throws if they differ from those that were stored. `owner`: the document's id, for the message. */
export function intactContent<Content extends Uint8Array>(
  { content, crc }: { readonly content: Content; readonly crc: number | null },
  owner: string,
): Content {
  if (crc !== null && crc32(content) !== crc)
    throw new Error(`the content of document ${owner} is damaged on the disk`);
  return content;
}

/** Returns SQL that reads a content and its sum, unless it has more than `bytesMax`: its sum is stored behind it, and reaching that reads all of it. */
export function readsContent(bytesMax: number, table: string): string {
  const reads = (column: string): string =>
    bytesMax === Infinity
      ? `${table}.${column}`
      : `iif(length(${table}.content) <= ${bytesMax}, ${table}.${column}, NULL) AS ${column}`;
  return `${reads('content')}, ${reads('crc')}, length(${table}.content) AS length`;
}

/** Rows of documents and their bodies, on one connection. */
export class DocumentRows {
  readonly #sql: ReturnType<typeof prepare>;

  /** `bytesMax`: larger bodies are not read here; absent: all are. */
  constructor(db: Connection, bytesMax = Infinity) {
    this.#sql = prepare(db, bytesMax);
  }

  /** Returns the row with this name, even if the document is expired or hidden. */
  head({ kind, id }: DocumentName): HeadRow | undefined {
    return this.#sql.head.get(kind, id);
  }

  headAt(row: number): HeadRow | undefined {
    return this.#sql.headAt.get(row);
  }

  read(head: HeadRow): StoredDocument {
    const { content, crc } = this.readBody(head);
    if (content === null) throw new Error(`the body of document ${head.id} is too large to be read here`);
    return { ...toDocumentFacts(head), body: intactContent({ content, crc }, head.id) };
  }

  /** Returns the body of a document, with its sum not checked yet. */
  readBody(head: HeadRow): ReadContent {
    const stored = this.#sql.body.get(head.row);
    if (stored === undefined) throw new Error(`document ${head.id} has no body`);
    return stored;
  }

  /**
   * Returns a row with its body, followed by the documents that it continues, one after the other: at least one, and as many as can be
   * read in about a millisecond; empty if there is no such row. One statement reads several, because a statement costs as much as ten rows.
   */
  links(row: number): WholeRow[] {
    return this.#sql.links.all(row);
  }

  /** Returns the bytes of the bodies of a document and of all that it continues. */
  chainLength(row: number): number {
    return this.#sql.chainLength.get(row)?.length ?? 0;
  }

  bodyLength(row: number): number {
    return this.#sql.bodyLength.get(row)?.length ?? 0;
  }

  /** Adds a document, and counts it at its parent. Returns the number of its row. */
  insert(document: NewDocument, parent: number | null): number {
    const { kind, id, accountId, apiKeyId = null, state, finished, createdAtMs, endsAtMs, body } = document;
    const owner = [kind, id, accountId, apiKeyId] as const;
    const facts = [state, Number(finished), createdAtMs, endsAtMs, parent, measureSize(document)] as const;
    const row = Number(this.#sql.insert.run(...owner, ...facts).lastInsertRowid);
    this.#sql.insertBody.run(row, body, crc32(body));
    if (parent !== null) this.#sql.addChild.run(parent);
    return row;
  }

  change(head: HeadRow, change: DocumentChange, bytes: number): void {
    const { state = head.state, finished = head.finished === 1, endsAtMs = head.ends_at_ms, body } = change;
    this.#sql.update.run(state, Number(finished), endsAtMs, bytes, head.row);
    if (body !== undefined) this.#sql.updateBody.run(body, crc32(body), head.row);
  }
}

/** Prepares the statements. On a read-only connection those that write can be prepared, but not run. */
function prepare(db: Connection, bytesMax: number) {
  return {
    head: db.prepare<[string, string], HeadRow>('SELECT * FROM document WHERE kind = ? AND id = ?'),
    headAt: db.prepare<[number], HeadRow>('SELECT * FROM document WHERE row = ?'),
    links: db.prepare<[number], WholeRow>(
      `WITH RECURSIVE up (row, parent, total) AS (
         SELECT row, parent, bytes FROM document WHERE row = ?
         UNION ALL
         SELECT d.row, d.parent, up.total + d.bytes FROM up JOIN document d ON d.row = up.parent
         WHERE up.total < ${linkBytesMax} LIMIT ${linksMax}
       )
       SELECT d.*, ${readsContent(bytesMax, 'b')} FROM up CROSS JOIN document d ON d.row = up.row CROSS JOIN body b ON b.document = up.row`,
    ),
    chainLength: db.prepare<[number], { length: number }>(
      `WITH RECURSIVE up (row, parent) AS (
         SELECT row, parent FROM document WHERE row = ? UNION ALL SELECT d.row, d.parent FROM up JOIN document d ON d.row = up.parent
       )
       SELECT sum(length(b.content)) AS length FROM up JOIN body b ON b.document = up.row`,
    ),
    body: db.prepare<[number], ReadContent>(`SELECT ${readsContent(bytesMax, 'body')} FROM body WHERE document = ?`),
    bodyLength: db.prepare<[number], { length: number }>(
      'SELECT length(content) AS length FROM body WHERE document = ?',
    ),
    insert: db.prepare(
      `INSERT INTO document (kind, id, account_id, api_key_id, state, finished, created_at_ms, ends_at_ms, parent, bytes)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    insertBody: db.prepare('INSERT INTO body (document, content, crc) VALUES (?, ?, ?)'),
    addChild: db.prepare('UPDATE document SET children = children + 1 WHERE row = ?'),
    update: db.prepare('UPDATE document SET state = ?, finished = ?, ends_at_ms = ?, bytes = ? WHERE row = ?'),
    updateBody: db.prepare('UPDATE body SET content = ?, crc = ? WHERE document = ?'),
  };
}

/** Converts a row to `StoredFacts`. */
export function toDocumentFacts(head: HeadRow): StoredFacts {
  return {
    kind: head.kind,
    id: head.id,
    accountId: head.account_id,
    ...(head.api_key_id === null ? {} : { apiKeyId: head.api_key_id }),
    state: head.state,
    finished: head.finished === 1,
    createdAtMs: head.created_at_ms,
    endsAtMs: head.ends_at_ms,
    bytes: head.bytes,
  };
}
