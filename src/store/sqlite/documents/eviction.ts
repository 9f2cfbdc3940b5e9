import type { Connection } from '../../../lib/sqlite/database.ts';
import type { DocumentRows, HeadRow } from './rows.ts';

/** How many documents one batch removes at most because they have ended: callers wait for the batch. */
const sweptMax = 64;
/** How many one tidying removes at most: commands may wait meanwhile. */
const tidiedMax = 256;

/**
 * What goes: documents that have ended, and the oldest finished ones where space is short. A document that others go on from is only made
 * unseen, and is removed with the last of those.
 */
export class Eviction {
  readonly #rows: DocumentRows;
  readonly #bytesMax: number;
  readonly #sql: ReturnType<typeof prepare>;
  readonly #tidied: (nowMs: number) => number;
  /** Of all documents, as this batch has it; undefined: to be read. */
  #total: number | undefined;

  constructor(db: Connection, rows: DocumentRows, bytesMax: number) {
    this.#rows = rows;
    this.#bytesMax = bytesMax;
    this.#sql = prepare(db);
    const tidied = db.transaction((nowMs: number) => this.#removeEnded(nowMs, tidiedMax));
    this.#tidied = nowMs => tidied.immediate(nowMs);
  }

  /** Documents have grown by that many bytes, in this batch. */
  grow(bytes: number): void {
    this.#total = this.#sum() + bytes;
    this.#sql.setBytes.run(this.#total);
  }

  /** Writes what is stored already. */
  touch(): void {
    this.grow(0);
  }

  /** The batch was undone, wholly or in part. */
  forget(): void {
    this.#total = undefined;
  }

  /** Removes some of what has ended. */
  sweep(nowMs: number): void {
    this.#removeEnded(nowMs, sweptMax);
  }

  /** The same in a transaction of its own; answers whether there may be more. */
  tidy(nowMs: number): boolean {
    return this.#tidied(nowMs) === tidiedMax;
  }

  /** Makes a document unseen, and removes it where nothing goes on from it. */
  end(head: HeadRow, nowMs: number): void {
    if (head.children === 0) this.remove(head.row, nowMs);
    else this.#sql.end.run(head.row);
  }

  /** Removes a document, and of those that it goes on from what had only waited for that. */
  remove(row: number, nowMs: number): void {
    let next = row;
    for (;;) {
      const head = this.#rows.headAt(next);
      if (head === undefined) return;
      this.#sql.remove.run(head.row);
      this.grow(-head.bytes);
      if (head.parent === null) return;
      this.#sql.dropChild.run(head.parent);
      const parent = this.#rows.headAt(head.parent);
      if (parent === undefined || parent.children > 0 || parent.ends_at_ms > nowMs) return;
      next = parent.row;
    }
  }

  /** Makes room for so many more bytes; false where there is none, whatever is evicted. `spared` stays seen. */
  makeRoom(bytes: number, nowMs: number, spared: number | null): boolean {
    if (bytes > this.#bytesMax) return false;
    while (this.#sum() + bytes > this.#bytesMax) {
      if (this.#removeEnded(nowMs, sweptMax) > 0) continue;
      const oldest = this.#sql.oldest.get(spared ?? 0);
      if (oldest === undefined) return false;
      this.end(oldest, nowMs);
    }
    return true;
  }

  #removeEnded(nowMs: number, max: number): number {
    const ended = this.#sql.ended.all(nowMs, max);
    for (const { row } of ended) this.remove(row, nowMs);
    return ended.length;
  }

  #sum(): number {
    this.#total ??= this.#sql.bytes.get()?.value ?? 0;
    return this.#total;
  }
}

function prepare(db: Connection) {
  return {
    bytes: db.prepare<[], { value: number }>("SELECT value FROM meta WHERE name = 'bytes'"),
    setBytes: db.prepare("UPDATE meta SET value = ? WHERE name = 'bytes'"),
    ended: db.prepare<[number, number], { row: number }>(
      'SELECT row FROM document WHERE ends_at_ms <= ? AND children = 0 LIMIT ?',
    ),
    oldest: db.prepare<[number], HeadRow>(
      'SELECT * FROM document WHERE finished = 1 AND ends_at_ms > 0 AND row <> ? ORDER BY created_at_ms LIMIT 1',
    ),
    end: db.prepare('UPDATE document SET ends_at_ms = 0, finished = 1 WHERE row = ?'),
    remove: db.prepare('DELETE FROM document WHERE row = ?'),
    dropChild: db.prepare('UPDATE document SET children = children - 1 WHERE row = ?'),
  };
}
