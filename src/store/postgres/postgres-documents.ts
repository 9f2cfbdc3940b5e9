import { overloaded } from '../../errors/overloaded.ts';
import { toArray, type Value } from '../../lib/postgres/values.ts';
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
} from '../documents.ts';
import { isAlive, nowMs, query, type Row, type StoreDatabase, toBytes } from './database.ts';
import { EvictedSpace, type SpaceMax } from './evicted-space.ts';

const chunksBytesMax = 1_000_000;
const putTriesMax = 5;

/** Returns true for answers of idempotency keys: they are kept until they expire, and their space is counted separately. */
const isKept = (kind: string): boolean => kind === 'replay';

/**
 * Stores a document, its body and its chunks in one statement. Returns no row if the name is taken or the parent does not exist.
 * $1 kind, $2 id, $3 account, $4 key, $5 state, $6 finished, $7 created, $8 ends, $9 bytes, $10 body, $11 and $12 chunks, $13 parent's id, $14 boot.
 */
const putText = `WITH p AS (
    SELECT row FROM document WHERE kind = $1::text AND id = $13::text AND account_id = $3::bigint FOR UPDATE
  ), d AS (
    INSERT INTO document (kind, id, account_id, api_key_id, state, finished, created_at_ms, ends_at_ms, bytes, parent, boot)
    SELECT $1::text, $2::text, $3::bigint, $4::bigint, $5::text, $6::boolean, $7::bigint, $8::bigint, $9::bigint, (SELECT row FROM p),
      CASE WHEN $6::boolean THEN NULL ELSE $14::bigint END
    WHERE $13::text IS NULL OR EXISTS (SELECT 1 FROM p)
    ON CONFLICT (kind, id) DO NOTHING RETURNING row
  ), b AS (
    INSERT INTO document_body SELECT row, $10::bytea FROM d
  ), c AS (
    INSERT INTO document_chunk SELECT d.row, u.seq, u.content FROM d, unnest($11::bigint[], $12::bytea[]) AS u (seq, content)
  ), k AS (
    UPDATE document SET children = children + 1 WHERE row = (SELECT row FROM p) AND EXISTS (SELECT 1 FROM d)
  )
  SELECT row FROM d`;

/**
 * Changes a document, unless another instance is working on it. $1 kind, $2 id, $3 required state, $4 new state, $5 finished, $6 ends, $7 body, $8 and $9 chunks, $10 bytes of the chunks, $11 boot.
 */
const updateText = `WITH h AS (
    SELECT row, state, finished, boot FROM document WHERE kind = $1::text AND id = $2::text AND ends_at_ms > ${nowMs} FOR UPDATE
  ), ok AS (
    SELECT row FROM h WHERE ($3::text IS NULL OR state = $3::text) AND (finished OR boot IS NULL OR boot = $11::bigint OR $1::text IN ('batch', 'message_batch'))
  ), b AS (
    UPDATE document_body SET content = $7::bytea FROM ok WHERE document = ok.row AND $7::bytea IS NOT NULL
  ), c AS (
    INSERT INTO document_chunk SELECT ok.row, u.seq, u.content FROM ok, unnest($8::bigint[], $9::bytea[]) AS u (seq, content)
  ), u AS (
    UPDATE document SET state = coalesce($4::text, state), finished = coalesce($5::boolean, finished), ends_at_ms = coalesce($6::bigint, ends_at_ms),
      boot = CASE WHEN coalesce($5::boolean, finished) THEN NULL ELSE boot END,
      bytes = bytes + $10::bigint + CASE WHEN $7::bytea IS NULL THEN 0
        ELSE length($7::bytea) - (SELECT length(content) FROM document_body WHERE document = document.row) END
    WHERE row = (SELECT row FROM ok) RETURNING 1
  )
  SELECT (SELECT count(*) FROM h) AS found, (SELECT count(*) FROM u) AS changed`;

/** SQL for a content that is loaded only if it is small, and its length. */
const smallContent = (column: string): string =>
  `CASE WHEN length(${column}) <= ${largeContentBytes} THEN ${column} END AS content, length(${column}) AS length`;

const wholeText = `SELECT d.*, b.content FROM document d JOIN document_body b ON b.document = d.row WHERE d.kind = $1::text AND d.id = $2::text`;
const seenText = `d.ends_at_ms > ${nowMs} AND ($3::bigint IS NULL OR d.account_id = $3::bigint)`;
const findText = `SELECT d.*, ${smallContent('b.content')} FROM document d JOIN document_body b ON b.document = d.row
  WHERE d.kind = $1::text AND d.id = $2::text AND ${seenText}`;
const factsText = `SELECT d.* FROM document d WHERE d.kind = $1::text AND d.id = $2::text AND ${seenText}`;
const bodyText = 'SELECT content FROM document_body WHERE document = $1::bigint';

const upText = `WITH RECURSIVE up (row, parent, depth) AS (
    SELECT row, parent, 0 FROM document WHERE kind = $1::text AND id = $2::text AND account_id = $3::bigint AND ends_at_ms > ${nowMs}
    UNION ALL SELECT d.row, d.parent, up.depth + 1 FROM up JOIN document d ON d.row = up.parent
  )`;
const linksText = 'FROM up JOIN document d ON d.row = up.row JOIN document_body b ON b.document = up.row';
const chainText = `${upText} SELECT d.*, b.content ${linksText} ORDER BY up.depth DESC`;
/** Loads the contents of a chain only if they are small together. */
const smallChainText = `${upText}
  SELECT c.*, CASE WHEN c.total <= ${largeContentBytes} THEN b.content END AS content
  FROM (SELECT d.*, up.depth, sum(length(b.content)) OVER () AS total ${linksText}) AS c JOIN document_body b ON b.document = c.row ORDER BY c.depth DESC`;

const chunkText =
  'SELECT content FROM document_chunk WHERE document = (SELECT row FROM document WHERE kind = $1::text AND id = $2::text) AND seq = $3::bigint';
const chunksText = `SELECT seq, ${smallContent('content')} FROM (
    SELECT seq, content, sum(length(content)) OVER (ORDER BY seq) - length(content) AS before FROM document_chunk
    WHERE document = (SELECT row FROM document WHERE kind = $1::text AND id = $2::text AND ends_at_ms > ${nowMs}) AND seq > $3::bigint
    ORDER BY seq LIMIT $4::bigint
  ) AS c WHERE before < ${chunksBytesMax} ORDER BY seq`;

/** Takes over documents that belong to no instance or to one that has ended. */
const takeOverText = `UPDATE document SET boot = $2::bigint
  WHERE kind = $1::text AND NOT finished AND boot IS DISTINCT FROM $2::bigint AND (boot IS NULL OR NOT ${isAlive('document.boot')})`;
const ownText =
  'SELECT * FROM document WHERE kind = $1::text AND NOT finished AND boot = $2::bigint ORDER BY created_at_ms, row';

const deleteText = `WITH h AS (
    SELECT row, children FROM document WHERE kind = $1::text AND id = $2::text AND ends_at_ms > ${nowMs} FOR UPDATE
  )
  UPDATE document SET ends_at_ms = 0, finished = true, boot = NULL WHERE row = (SELECT row FROM h) RETURNING row`;

const pageText = (after: '<' | '>', direction: 'ASC' | 'DESC'): string =>
  `SELECT d.*, b.content FROM document d JOIN document_body b ON b.document = d.row
   WHERE d.kind = $1::text AND d.account_id = $2::bigint AND (d.created_at_ms, d.row) ${after} ($3::bigint, $4::bigint) AND d.ends_at_ms > ${nowMs}
   ORDER BY d.created_at_ms ${direction}, d.row ${direction} LIMIT $5::bigint`;
const pages = { oldest_first: pageText('>', 'ASC'), newest_first: pageText('<', 'DESC') } as const;

/** Opens the documents in a database, whose tables must exist. `closed` is called when they are closed. */
export function openPostgresDocuments(database: StoreDatabase, max: SpaceMax, closed?: () => Promise<void>): Documents {
  return new PostgresDocuments(database, new EvictedSpace(database, max), closed);
}

/**
 * Documents that all gateways share. An unfinished document belongs to the instance that stored it. If that instance has ended, the next one
 * that lists unfinished documents takes it over.
 */
class PostgresDocuments implements Documents {
  readonly #database: StoreDatabase;
  readonly #space: EvictedSpace;
  readonly #closed: () => Promise<void>;

  constructor(database: StoreDatabase, space: EvictedSpace, closed: () => Promise<void> = () => Promise.resolve()) {
    this.#closed = closed;
    this.#database = database;
    this.#space = space;
  }

  async put(document: NewDocument): Promise<PutOutcome> {
    const {
      kind,
      id,
      accountId,
      apiKeyId = null,
      state,
      finished,
      createdAtMs,
      endsAtMs,
      body,
      parentId = null,
    } = document;
    const { chunks = [] } = document;
    const bytes = body.length + sumLengths(chunks);
    if (!(await this.#space.hasRoom(isKept(kind), accountId, bytes)))
      throw overloaded('There is no room to store content.');
    const facts = [kind, id, accountId, apiKeyId, state, finished, createdAtMs, endsAtMs, bytes, body] as const;
    for (let tries = 0; tries < putTriesMax; tries += 1) {
      const values = [...facts, ...chunkArrays(chunks), parentId, this.#database.boot()];
      const [stored] = await query(this.#database, putText, values);
      if (stored !== undefined) return { kind: 'stored' };
      const [there] = await query(this.#database, wholeText, [kind, id]);
      if (there === undefined) {
        if (parentId === null) continue;
        return { kind: 'no_parent' };
      }
      const isOver = Number(there['ends_at_ms']) <= (await this.#now());
      if (!isOver || Number(there['children']) > 0) return { kind: 'exists', document: toDocument(there) };
      await this.#space.remove([Number(there['row'])]);
    }
    throw new Error(`the document ${id} was stored and removed by others again and again`);
  }

  async update(change: DocumentChange): ReturnType<Documents['update']> {
    const {
      kind,
      id,
      ifState = null,
      state = null,
      finished = null,
      endsAtMs = null,
      body = null,
      chunks = [],
    } = change;
    const values = [kind, id, ifState, state, finished, endsAtMs, body, ...chunkArrays(chunks), sumLengths(chunks)];
    const [row] = await query(this.#database, updateText, [...values, this.#database.boot()]);
    if (row?.['changed'] === 1n) return 'updated';
    return row?.['found'] === 1n ? 'other_state' : 'not_found';
  }

  async delete({ kind, id }: DocumentName): ReturnType<Documents['delete']> {
    const [row] = await query(this.#database, deleteText, [kind, id]);
    if (row === undefined) return 'not_found';
    await this.#space.remove([Number(row['row'])]);
    return 'deleted';
  }

  async find({ kind, id }: DocumentName, room: ContentRoom, accountId?: number): Promise<StoredDocument | undefined> {
    const [row] = await query(this.#database, findText, [kind, id, accountId ?? null]);
    if (row === undefined || row['content'] !== null) return row && toDocument(row);
    await room.reserve(Number(row['length']));
    const [whole] = await query(this.#database, bodyText, [row['row'] ?? null]);
    return whole && toDocument({ ...row, ...whole });
  }

  async facts({ kind, id }: DocumentName, accountId?: number): Promise<StoredFacts | undefined> {
    const [row] = await query(this.#database, factsText, [kind, id, accountId ?? null]);
    return row && toFacts(row);
  }

  async chain({ kind, id }: DocumentName, accountId: number, room: ContentRoom): Promise<StoredDocument[] | undefined> {
    let rows = await query(this.#database, smallChainText, [kind, id, accountId]);
    const [first] = rows;
    if (first === undefined) return undefined;
    if (first['content'] === null) {
      await room.reserve(Number(first['total']));
      rows = await query(this.#database, chainText, [kind, id, accountId]);
    }
    return rows.length === 0 ? undefined : rows.map(toDocument);
  }

  async chunks({ kind, id }: DocumentName, { after, limit }: ChunkPage, room: ContentRoom): Promise<Chunk[]> {
    const chunks: Chunk[] = [];
    for (const row of await query(this.#database, chunksText, [kind, id, after, limit])) {
      const seq = Number(row['seq']);
      let { content } = row;
      if (content === null) {
        await room.reserve(Number(row['length']));
        const [whole] = await query(this.#database, chunkText, [kind, id, seq]);
        // The document was deleted meanwhile.
        if (whole === undefined) break;
        ({ content } = whole);
      }
      chunks.push({ seq, content: toBytes(content) });
    }
    return chunks;
  }

  async unfinished(kind: DocumentKind): Promise<DocumentFacts[]> {
    const boot = this.#database.boot();
    await query(this.#database, takeOverText, [kind, boot]);
    return (await query(this.#database, ownText, [kind, boot])).map(toFacts);
  }

  async list({ kind, accountId, order, after, limit }: DocumentPage): Promise<StoredDocument[] | undefined> {
    let from: readonly [Value, Value] =
      order === 'oldest_first' ? [-1n, -1n] : [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
    if (after !== undefined) {
      const [row] = await query(
        this.#database,
        `SELECT created_at_ms, row FROM document WHERE kind = $1::text AND id = $2::text AND account_id = $3::bigint AND ends_at_ms > ${nowMs}`,
        [kind, after, accountId],
      );
      if (row === undefined) return undefined;
      from = [row['created_at_ms'] ?? null, row['row'] ?? null];
    }
    return (await query(this.#database, pages[order], [kind, accountId, ...from, limit])).map(toDocument);
  }

  async close(): Promise<void> {
    this.#space.close();
    await this.#closed();
  }

  async #now(): Promise<number> {
    const [row] = await query(this.#database, `SELECT ${nowMs} AS now`);
    return Number(row?.['now']);
  }
}

function sumLengths(chunks: readonly Chunk[]): number {
  return chunks.reduce((sum, { content }) => sum + content.length, 0);
}

function chunkArrays(chunks: readonly Chunk[]): [seqs: string, contents: string] {
  return [toArray(chunks.map(({ seq }) => seq)), toArray(chunks.map(({ content }) => content))];
}

function toFacts(row: Row): StoredFacts {
  const apiKeyId = row['api_key_id'];
  return {
    // The cast is safe: only documents of these kinds are stored.
    kind: String(row['kind']) as DocumentKind,
    id: String(row['id']),
    accountId: Number(row['account_id']),
    ...(apiKeyId === null || apiKeyId === undefined ? {} : { apiKeyId: Number(apiKeyId) }),
    state: String(row['state']),
    finished: row['finished'] === 1n,
    createdAtMs: Number(row['created_at_ms']),
    endsAtMs: Number(row['ends_at_ms']),
    bytes: Number(row['bytes']),
  };
}

function toDocument(row: Row): StoredDocument {
  return { ...toFacts(row), body: toBytes(row['content']) };
}
