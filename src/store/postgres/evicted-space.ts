import { toArray } from '../../lib/postgres/values.ts';
import { nowMs, query, type StoreDatabase } from './database.ts';

/** The interval of the runs that remove expired documents. */
const checkIntervalMs = 5_000;
/** One run in this many measures the space, because that reads all documents. */
const runsPerMeasurement = 12;
const removedMax = 500;
/** An account may use 1/`keptDivisor` of the space for answers that must be kept. */
const keptDivisor = 4;

/** The maximum total sizes of the two sorts of documents. */
export interface SpaceMax {
  /** The maximum for documents that may be evicted before they expire. */
  readonly bytesMax: number;
  /** The maximum for answers of idempotency keys, which may not be evicted. */
  readonly keptBytesMax: number;
}

/** Removes those of the documents that no other continues. Returns the documents that these continued, each with the number of documents that still continue it and whether it has ended. */
const removeText = `WITH gone AS (
    DELETE FROM document WHERE row = ANY ($1::bigint[]) AND children = 0 RETURNING parent
  )
  UPDATE document d SET children = d.children - g.count FROM (SELECT parent, count(*)::integer AS count FROM gone WHERE parent IS NOT NULL GROUP BY parent) AS g
  WHERE d.row = g.parent RETURNING d.row, d.children, d.ends_at_ms <= ${nowMs} AS ended`;
const endedText = `SELECT row FROM document WHERE ends_at_ms <= ${nowMs} AND children = 0 LIMIT ${removedMax}`;
const sumsText = `SELECT kind = 'replay' AS kept, account_id, sum(bytes)::bigint AS bytes FROM document GROUP BY 1, 2`;
const oldestText = `SELECT row, bytes, children FROM document
  WHERE account_id = $1::bigint AND finished AND ends_at_ms > 0 AND kind IN ('response', 'image_task', 'bodies')
  ORDER BY kind <> 'bodies', created_at_ms LIMIT ${removedMax}`;
const endText = 'UPDATE document SET ends_at_ms = 0 WHERE row = ANY ($1::bigint[])';

/**
 * Limits the space of documents. Removes expired ones and, if the space is exceeded, the oldest finished ones of the account that uses most. The space is measured every minute and not at each write,
 * because all gateways would wait for each other to update the row of a sum; so the limit may be exceeded a little for a short time.
 */
export class EvictedSpace {
  readonly #database: StoreDatabase;
  readonly #max: SpaceMax;
  readonly #timer: NodeJS.Timeout;
  #kept = 0;
  #keptByAccount = new Map<number, number>();
  #measuring: Promise<void> | undefined;
  #runs = 0;

  constructor(database: StoreDatabase, max: SpaceMax) {
    this.#database = database;
    this.#max = max;
    // If a run fails, the next one does its work.
    this.#timer = setInterval(() => void this.check().catch(() => undefined), checkIntervalMs).unref();
  }

  /** Returns whether a document of `bytes` may be stored, and if it must be kept (`isKept`), counts it until the next measurement. A refused one is not counted: otherwise, the refused answers of one account would use up the space of all. Others make room by eviction, so only their own size matters. */
  async hasRoom(isKept: boolean, accountId: number, bytes: number): Promise<boolean> {
    if (!isKept) return bytes <= this.#max.bytesMax;
    const { keptBytesMax } = this.#max;
    const all = this.#kept + bytes;
    const own = (this.#keptByAccount.get(accountId) ?? 0) + bytes;
    if (all > keptBytesMax || own > keptBytesMax / keptDivisor) return false;
    this.#kept = all;
    this.#keptByAccount.set(accountId, own);
    return true;
  }

  /** Removes expired documents. The first run and then every twelfth also measures the space, and evicts documents if it is exceeded. */
  check(): Promise<void> {
    this.#measuring ??= this.#run().finally(() => {
      this.#measuring = undefined;
    });
    return this.#measuring;
  }

  /** Removes those of the documents that no other continues, and the ones that they continued if these had been deleted. */
  async remove(rows: readonly number[]): Promise<void> {
    for (let next = rows; next.length > 0;) {
      const parents = await query(this.#database, removeText, [toArray(next)]);
      next = parents.flatMap(({ row, children, ended }) => (children === 0n && ended === 1n ? [Number(row)] : []));
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #run(): Promise<void> {
    const ended = await query(this.#database, endedText);
    await this.remove(ended.map(({ row }) => Number(row)));
    this.#runs += 1;
    if (this.#runs % runsPerMeasurement !== 1) return;
    const sums = await query(this.#database, sumsText);
    const shares = sums.map(row => ({
      isKept: row['kept'] === 1n,
      accountId: Number(row['account_id']),
      bytes: Number(row['bytes']),
    }));
    const kept = shares.filter(({ isKept }) => isKept);
    this.#keptByAccount = new Map(kept.map(({ accountId, bytes }) => [accountId, bytes]));
    this.#kept = kept.reduce((sum, { bytes }) => sum + bytes, 0);
    await this.#evict(shares.filter(({ isKept }) => !isKept));
  }

  async #evict(shares: readonly { readonly accountId: number; readonly bytes: number }[]): Promise<void> {
    let over = shares.reduce((sum, { bytes }) => sum + bytes, 0) - this.#max.bytesMax;
    const left = new Map(shares.map(({ accountId, bytes }) => [accountId, bytes]));
    while (over > 0) {
      const [most, second] = [...left].toSorted(([, one], [, other]) => other - one);
      if (most === undefined) return;
      // Evicts until the account has no more than the next one; if several have the same, each loses a part.
      const lead = most[1] - (second?.[1] ?? 0);
      const freed = await this.#evictOldest(most[0], Math.min(over, Math.max(lead, over / left.size)));
      over -= freed;
      if (freed > 0) left.set(most[0], most[1] - freed);
      else left.delete(most[0]);
    }
  }

  /** Removes the oldest finished documents of an account, at most `removedMax`, until they add up to `bytesDue`. Returns the bytes of the removed ones; 0: there are none. */
  async #evictOldest(accountId: number, bytesDue: number): Promise<number> {
    let freed = 0;
    const going: number[] = [];
    for (const { row, bytes } of await query(this.#database, oldestText, [accountId])) {
      if (freed >= bytesDue) break;
      freed += Number(bytes);
      going.push(Number(row));
    }
    await query(this.#database, endText, [toArray(going)]);
    await this.remove(going);
    return freed;
  }
}
