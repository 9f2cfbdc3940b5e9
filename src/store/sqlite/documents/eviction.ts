import type { Connection } from '../../../lib/sqlite/database.ts';
import type { DocumentFacts, DocumentKind } from '../../documents.ts';
import type { DocumentRows, HeadRow } from './rows.ts';

/** The most expired documents that one batch removes, because callers wait for the batch. */
const sweptMax = 64;
/** The most expired documents that one call of `tidy` removes, because commands may arrive meanwhile. */
const tidiedMax = 256;
/** An account may use this fraction (one in `keptPart`) of the space for answers that must be kept. */
const keptPart = 4;
const totalNames = ['bytes', 'kept_bytes'] as const;
const evictable = "finished = 1 AND ends_at_ms > 0 AND kind IN ('response', 'image_task', 'bodies')";

/** 1: answers of idempotency keys, which stay until they expire; 0: all other documents. */
type Kept = 0 | 1;

/** Whose space a document uses, and which part of it. */
export type DocumentOwner = Pick<DocumentFacts, 'kind' | 'accountId'>;

/** The most bytes of all documents together. */
export interface SpaceMax {
  /** The maximum for documents that may be evicted before they expire. */
  readonly bytesMax: number;
  /** The maximum for answers of idempotency keys, which may not be evicted. */
  readonly keptBytesMax: number;
}

/**
 * Removes documents that have expired or were deleted, and, if space is short, the oldest finished ones of the account that uses
 * most, so that no account makes others lose theirs. Answers of idempotency keys stay until they expire: they have a separate
 * space, of which each account may use a part. A document that others continue is only hidden, and is removed with
 * the last of these.
 */
export class Eviction {
  readonly #rows: DocumentRows;
  readonly #max: SpaceMax;
  readonly #sql: ReturnType<typeof prepare>;
  readonly #tidied: (nowMs: number) => number;
  /** The sizes of all evictable documents and of all others, as this batch has left them; undefined: not read yet. */
  readonly #totals: [evictable: number | undefined, kept: number | undefined] = [undefined, undefined];

  constructor(db: Connection, rows: DocumentRows, max: SpaceMax) {
    this.#rows = rows;
    this.#max = max;
    this.#sql = prepare(db);
    const tidied = db.transaction((nowMs: number) => this.#removeEnded(nowMs, tidiedMax));
    this.#tidied = nowMs => tidied.immediate(nowMs);
  }

  /** Notes that a document of the owner has grown by `bytes` in this batch. */
  grow({ kind, accountId }: DocumentOwner, bytes: number): void {
    const kept = findKept(kind);
    this.#setTotal(kept, this.#sum(kept) + bytes);
    this.#sql.growShare.run(kept, accountId, bytes);
  }

  /** Writes a meaningless change, because writing an equal value would write nothing. */
  touch(): void {
    this.#sql.touch.run();
  }

  /** Clears the cached sizes, because the batch was undone, at least in part. */
  forget(): void {
    this.#totals.fill(undefined);
  }

  /** Removes some expired documents. */
  sweep(nowMs: number): void {
    this.#removeEnded(nowMs, sweptMax);
  }

  /** Removes some expired documents in a separate transaction. Returns true if there may be more. */
  tidy(nowMs: number): boolean {
    return this.#tidied(nowMs) === tidiedMax;
  }

  /** Hides a document, and removes it if no other continues it. */
  end(head: HeadRow, nowMs: number): void {
    if (head.children === 0) this.remove(head.row, nowMs);
    else this.#sql.end.run(head.row);
  }

  /** Removes a document, and the hidden ones that it continued if no other continues them. */
  remove(row: number, nowMs: number): void {
    let next = row;
    for (;;) {
      const head = this.#rows.headAt(next);
      if (head === undefined) return;
      this.#sql.remove.run(head.row);
      this.grow({ kind: head.kind, accountId: head.account_id }, -head.bytes);
      if (head.parent === null) return;
      this.#sql.dropChild.run(head.parent);
      const parent = this.#rows.headAt(head.parent);
      if (parent === undefined || parent.children > 0 || parent.ends_at_ms > nowMs) return;
      next = parent.row;
    }
  }

  /** Makes room for `bytes` more of an owner. Returns false if that is impossible. `spared`: a document that is not evicted. */
  makeRoom(owner: DocumentOwner, bytes: number, nowMs: number, spared: number | null): boolean {
    if (findKept(owner.kind) === 1) return this.#makeKeptRoom(owner, bytes, nowMs);
    const { bytesMax } = this.#max;
    if (bytes > bytesMax) return false;
    while (this.#sum(0) + bytes > bytesMax) {
      if (this.#removeEnded(nowMs, sweptMax) > 0) continue;
      const oldest = this.#findOldest(owner.accountId, bytes, spared ?? 0);
      if (oldest === undefined) return false;
      this.end(oldest, nowMs);
    }
    return true;
  }

  #makeKeptRoom({ accountId }: DocumentOwner, bytes: number, nowMs: number): boolean {
    const { keptBytesMax } = this.#max;
    const isOver = (): boolean =>
      this.#sum(1) + bytes > keptBytesMax || this.#share(1, accountId) + bytes > keptBytesMax / keptPart;
    while (isOver()) if (this.#removeEnded(nowMs, sweptMax) === 0) return false;
    return true;
  }

  /**
   * Finds the document to evict for `bytes` more of an account: one of the account that uses most and has an evictable one, or of
   * the account itself if it would then use more.
   */
  #findOldest(accountId: number, bytes: number, spared: number): HeadRow | undefined {
    const other = this.#sql.oldestOfOthers.get(spared, accountId);
    const own = this.#share(0, accountId) + bytes;
    const isOther = other !== undefined && this.#share(0, other.account_id) >= own;
    const owner = isOther ? other.account_id : accountId;
    // Bodies are evicted first: only people at the dashboard read them, while clients come back for other documents.
    return this.#sql.oldestBodies.get(owner, spared) ?? (isOther ? other : this.#sql.oldest.get(owner, spared));
  }

  #removeEnded(nowMs: number, max: number): number {
    const ended = this.#sql.ended.all(nowMs, max);
    for (const { row } of ended) this.remove(row, nowMs);
    return ended.length;
  }

  #sum(kept: Kept): number {
    return (this.#totals[kept] ??= this.#sql.total.get(totalNames[kept])?.value ?? 0);
  }

  #setTotal(kept: Kept, bytes: number): void {
    this.#totals[kept] = bytes;
    this.#sql.setTotal.run(bytes, totalNames[kept]);
  }

  #share(kept: Kept, accountId: number): number {
    return this.#sql.share.get(kept, accountId)?.bytes ?? 0;
  }
}

function findKept(kind: DocumentKind): Kept {
  return kind === 'replay' ? 1 : 0;
}

function prepare(db: Connection) {
  return {
    total: db.prepare<[string], { value: number }>('SELECT value FROM meta WHERE name = ?'),
    touch: db.prepare("UPDATE meta SET value = value + 1 WHERE name = 'probe'"),
    setTotal: db.prepare('UPDATE meta SET value = ? WHERE name = ?'),
    share: db.prepare<[number, number], { bytes: number }>('SELECT bytes FROM share WHERE kept = ? AND account_id = ?'),
    growShare: db.prepare(
      'INSERT INTO share (kept, account_id, bytes) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes',
    ),
    ended: db.prepare<[number, number], { row: number }>(
      'SELECT row FROM document WHERE ends_at_ms <= ? AND children = 0 LIMIT ?',
    ),
    oldest: db.prepare<[number, number], HeadRow>(
      `SELECT * FROM document WHERE account_id = ? AND ${evictable} AND row <> ? ORDER BY created_at_ms LIMIT 1`,
    ),
    oldestBodies: db.prepare<[number, number], HeadRow>(
      "SELECT * FROM document WHERE kind = 'bodies' AND account_id = ? AND ends_at_ms > 0 AND row <> ? ORDER BY created_at_ms LIMIT 1",
    ),
    oldestOfOthers: db.prepare<[number, number], HeadRow>(
      `SELECT d.* FROM share s CROSS JOIN document d ON d.row =
         (SELECT row FROM document WHERE account_id = s.account_id AND ${evictable} AND row <> ? ORDER BY created_at_ms LIMIT 1)
       WHERE s.kept = 0 AND s.account_id <> ? ORDER BY s.bytes DESC LIMIT 1`,
    ),
    end: db.prepare('UPDATE document SET ends_at_ms = 0, finished = 1 WHERE row = ?'),
    remove: db.prepare('DELETE FROM document WHERE row = ?'),
    dropChild: db.prepare('UPDATE document SET children = children - 1 WHERE row = ?'),
  };
}
