import { toDay } from '../rules/calendar.ts';
import type { SumChange } from '../rows.ts';
import type { Query } from '../../lib/sqlite/database.ts';
import { codes, encode } from './codes.ts';
import { insertText } from './columns.ts';
import { InsertStatements } from './insert-statements.ts';
import type { Labels } from './labels.ts';
import type { Sql } from './sql.ts';
import { sumColumns, sumKeyCount, sumUp } from './sum-raises.ts';

/** The most end users, and tags, of an account on a day; further ones are summed together, under `other`. */
export const valuesMax = 10_000;
export const other = '(other)';
const countsKnownMax = 1000;

/** The sums of records: a batch raises each of them once. */
export class SumTable {
  readonly #labels: Labels;
  readonly #changes: SumChange[] = [];
  readonly #raise: InsertStatements;
  readonly #has: Query<number[], unknown>;
  readonly #count: Query<number[], { count: bigint }>;
  /** The number of end users and of tags per account and day. */
  readonly #counts = new Map<string, number>();

  constructor(sql: Sql, labels: Labels) {
    this.#labels = labels;
    const of = 'FROM usage_sum WHERE account_id = ? AND period = ? AND grouped = ? AND number = ?';
    this.#has = sql.prepare(`SELECT 1 ${of} AND group_id = ?`);
    this.#count = sql.prepare(`SELECT count(*) AS count ${of}`);
    this.#raise = new InsertStatements(sql, sumColumns.length, raiseText);
  }

  add(change: SumChange): void {
    this.#changes.push(this.#bounded(change));
  }

  /** Writes the batch's additions. */
  write(): void {
    for (const values of sumUp(this.#changes)) this.#raise.run(values);
  }

  /** The batch is stored. */
  settle(): void {
    this.#changes.length = 0;
  }

  /** Discards the batch's additions. */
  clear(): void {
    this.#changes.length = 0;
    this.#counts.clear();
  }

  /** Returns the change, or one of the sum `other` if the account has too many of its kind on that day. */
  #bounded(change: SumChange): SumChange {
    const { accountId, grouped, valueId, usage } = change;
    if (grouped !== 'end_user' && grouped !== 'tag') return change;
    const day = [accountId, encode(codes.period, 'day'), encode(codes.grouped, grouped), toDay(usage.admittedAtMs)];
    const isKnown =
      this.#changes.some(known => known.grouped === grouped && known.valueId === valueId && isSameDay(known, change)) ||
      this.#has.get(...day, valueId) !== undefined;
    if (isKnown) return change;
    const name = day.join();
    const count = this.#counts.get(name) ?? Number(this.#count.get(...day)?.count ?? 0n);
    if (count >= valuesMax) return { ...change, valueId: this.#labels.other(grouped, valueId, other) };
    if (this.#counts.size >= countsKnownMax) this.#counts.clear();
    this.#counts.set(name, count + 1);
    return change;
  }
}

/** Returns the statement that adds a sum, or raises it by the values that are not 0. */
function raiseText(places: readonly string[]): string {
  const raised = sumColumns.filter((_, index) => index >= sumKeyCount && places[index] !== '0');
  const raises = raised.map(column => `${column} = ${column} + excluded.${column}`);
  return `${insertText('usage_sum', sumColumns, places)} ON CONFLICT DO UPDATE SET ${raises.join(', ')}`;
}

function isSameDay(one: SumChange, two: SumChange): boolean {
  return one.accountId === two.accountId && toDay(one.usage.admittedAtMs) === toDay(two.usage.admittedAtMs);
}
