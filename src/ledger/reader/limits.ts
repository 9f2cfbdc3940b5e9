import type { Connection, Query } from '../../lib/sqlite/database.ts';
import type { LimitFilter, LimitRow } from '../ledger.ts';
import type { LimitUse } from '../rows.ts';
import { windowAt } from '../rules/calendar.ts';
import { readAmounts, currentMax } from '../rules/limits.ts';
import { opensAtMs } from '../rules/rolling.ts';
import { type Stored as StoredValue, RowCodec } from '../sqlite/columns.ts';
import { limitTable, limitUseTable } from '../sqlite/tables.ts';

type ListValues = { account: number; scope: string; id: number };

const limitCodec = new RowCodec(limitTable);
const useCodec = new RowCodec(limitUseTable);

/** Limits of a revoked key are not shown, although they still apply to its running requests. */
const isShown = `removed = 0 AND (scope <> 'key' OR (SELECT state FROM api_key WHERE id = scope_id) <> 'revoked')`;

/** Reads limits, with their use in the current window. */
export class Limits {
  readonly #list: Query<[ListValues], StoredValue[]>;
  readonly #one: Query<[number], StoredValue[]>;
  readonly #uses: Query<[number, number], StoredValue[]>;

  constructor(db: Connection) {
    const select = `SELECT ${limitCodec.names.join(', ')} FROM usage_limit`;
    this.#list = db
      .prepare<[ListValues], StoredValue[]>(
        `${select} WHERE account_id = @account AND ${isShown} AND (@scope = '' OR scope = @scope) AND (@id = 0 OR scope_id = @id) ORDER BY id`,
      )
      .raw();
    this.#one = db.prepare<[number], StoredValue[]>(`${select} WHERE id = ? AND ${isShown}`).raw();
    this.#uses = db
      .prepare<[number, number], StoredValue[]>(
        `SELECT ${useCodec.names.join(', ')} FROM limit_use WHERE limit_id = ? AND number = ?`,
      )
      .raw();
  }

  /** Returns an account's limits, or those of one scope, by id. */
  list({ accountId: account, scope, scopeId }: LimitFilter, nowMs: number): LimitRow[] {
    return this.#list.all({ account, scope: scope ?? '', id: scopeId ?? 0 }).map(stored => this.#row(stored, nowMs));
  }

  /** Returns a limit. `accountId`: only if the limit belongs to this account; undefined: any account. */
  find(limitId: number, accountId: number | undefined, nowMs: number): LimitRow | undefined {
    const stored = this.#one.get(limitId);
    const row = stored && this.#row(stored, nowMs);
    return accountId === undefined || row?.accountId === accountId ? row : undefined;
  }

  #row(stored: StoredValue[], nowMs: number): LimitRow {
    const limit = limitCodec.read(stored);
    const window = windowAt(limit.per, limit.timeZone, nowMs);
    const fullest = this.#fullest(limit.id, window.number, nowMs);
    const { used, held } = fullest.amounts;
    const max = currentMax(limit, nowMs);
    const left = max - used - held;
    const rolling = fullest.use?.rolling ?? null;
    const resetsAtMs = rolling === null ? window.endMs : opensAtMs(rolling, Number(max) - 1, nowMs);
    const { id: limitId, per, raisedMax, raisedUntilMs, field: _, removed: __, ...settings } = limit;
    return {
      ...settings,
      limitId,
      window: per,
      raised: raisedMax === null || raisedUntilMs === null ? null : { max: raisedMax, untilMs: raisedUntilMs },
      // The use of limits of concurrent requests is the number of running ones.
      used: limit.unit === 'concurrent' ? held : used,
      held: limit.unit === 'concurrent' ? 0n : held,
      remaining: left > 0n ? left : 0n,
      resetsAtMs: resetsAtMs === Number.POSITIVE_INFINITY ? null : resetsAtMs,
    };
  }

  /** Returns the use in a window. If the limit applies to each end user separately, returns that of the end user who has used most. */
  #fullest(limitId: number, number: number, nowMs: number): { use: LimitUse | undefined; amounts: Amounts } {
    let fullest: { use: LimitUse | undefined; amounts: Amounts } = { use: undefined, amounts: { used: 0n, held: 0n } };
    for (const stored of this.#uses.all(limitId, number)) {
      const use = useCodec.read(stored);
      const amounts = readAmounts(use, nowMs);
      const isFuller = amounts.used + amounts.held >= fullest.amounts.used + fullest.amounts.held;
      if (isFuller) fullest = { use, amounts };
    }
    return fullest;
  }
}

interface Amounts {
  readonly used: bigint;
  readonly held: bigint;
}
