import type { Connection, Query } from '../../lib/sqlite/database.ts';
import { toPocket } from '../columns/column-file.ts';
import type { ColumnStore } from '../columns/column-store.ts';
import { ColumnRecords } from './column-records.ts';

/** No request takes longer than this, so a charge is at most this much later than the admission. */
export const longestMs = 2 * 86_400_000;
/** Few requests take longer than this. A separate index finds them: migrations/0020-long-requests.sql. */
export const longMs = 600_000;

/** Records admitted from `first` up to but not including `last`. */
type Values = { account: number; end: number; first: number; last: number };
type Change = { keyId: bigint | null; groupId: bigint | null; amount: bigint };

const chargesText = `SELECT iif(payer = 1, key_id, NULL) AS keyId, payer_group AS groupId, -sum(cost) AS amount FROM usage
  WHERE account_id = @account AND created_at_ms >= @first AND created_at_ms < @last AND cost > 0 AND created_at_ms + latency_ms >= @end`;

/** Sums how much each balance of an account has changed since a time. */
export class LaterChanges {
  readonly #columns: ColumnRecords | undefined;
  readonly #entries: Query<[{ account: number; end: number }], Change>;
  readonly #charges: Query<[Values], Change>;
  readonly #longCharges: Query<[Values], Change>;

  /** `columns`: the column files; undefined: there are none. */
  constructor(db: Connection, columns?: ColumnStore) {
    this.#columns = columns === undefined ? undefined : new ColumnRecords(db, columns);
    this.#entries = db.prepare(
      `SELECT key_id AS keyId, group_id AS groupId, sum(amount) AS amount FROM entry WHERE account_id = @account AND at_ms >= @end GROUP BY 1, 2`,
    );
    this.#charges = db.prepare(`${chargesText} GROUP BY 1, 2`);
    this.#longCharges = db.prepare(`${chargesText} AND latency_ms >= ${longMs} GROUP BY 1, 2`);
  }

  /** Returns the sum of the changes of each balance since the time `end`. The keys are the numbers of `toPocket`. */
  read(account: number, end: number): Map<number, bigint> {
    const later = new Map<number, bigint>();
    const add = (pocket: number, amount: bigint): void => void later.set(pocket, (later.get(pocket) ?? 0n) + amount);
    const addAll = (changes: readonly Change[]): void => {
      for (const { keyId, groupId, amount } of changes)
        add(toPocket(keyId === null ? null : Number(keyId), groupId === null ? null : Number(groupId)), amount);
    };
    const { sums, uncovered } = this.#columns?.sumPockets(account, { from: end, to: Number.MAX_SAFE_INTEGER }) ?? {
      sums: [],
      uncovered: [{ from: end, to: Number.MAX_SAFE_INTEGER }],
    };
    for (const { group, amounts } of sums) add(Number(group), -amounts.cost);
    for (const { from, to } of uncovered) addAll(this.#charges.all({ account, end, first: from, last: to }));
    // Requests that were admitted before `end` and charged after it.
    addAll(this.#charges.all({ account, end, first: end - longMs, last: end }));
    addAll(this.#longCharges.all({ account, end, first: end - longestMs, last: end - longMs }));
    addAll(this.#entries.all({ account, end }));
    return later;
  }
}
