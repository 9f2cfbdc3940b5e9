import type { Step, StepResult } from '../../lib/postgres/connection.ts';
import { toArray } from '../../lib/postgres/values.ts';
import type { Hold, Key, PlanPeriod } from '../rows.ts';
import type { BatchTable } from './batch-table.ts';
import { MissingRow } from './missing-row.ts';

/** When the next hold, key or period of an account ends by itself; Infinity: never. */
interface Deadline {
  /** The time that the account's row has. */
  stored: number;
  atMs: number;
  /** True if all holds, keys and periods of the account that end by themselves are loaded. */
  isLoaded: boolean;
}

/** The tables whose rows can end by themselves. */
export interface Ending {
  readonly holds: BatchTable<Hold>;
  readonly keys: BatchTable<Key>;
  readonly periods: BatchTable<PlanPeriod>;
  /** The columns to select from each table. */
  readonly columns: { readonly hold: string; readonly key: string; readonly period: string };
}

/** The next time for each account at which something ends by itself: a hold of another service, a key with money, a plan's period. */
export class Deadlines {
  readonly #deadlines = new Map<number, Deadline>();
  readonly #ending: Ending;
  #nextMs = Number.POSITIVE_INFINITY;

  constructor(ending: Ending) {
    this.#ending = ending;
  }

  /** Adds the time that the account's row has; null: nothing ends by itself. */
  addLoaded(accountId: number, atMs: number | null): void {
    const stored = atMs ?? Number.POSITIVE_INFINITY;
    this.#deadlines.set(accountId, { stored, atMs: stored, isLoaded: false });
    this.#nextMs = Math.min(this.#nextMs, stored);
  }

  /** Notes that something of the account ends at that time. */
  bringForward(accountId: number, atMs: number): void {
    if (atMs === Number.POSITIVE_INFINITY) return;
    const due = this.#deadlines.get(accountId);
    if (due === undefined) {
      this.#deadlines.set(accountId, { stored: Number.POSITIVE_INFINITY, atMs, isLoaded: true });
    } else due.atMs = Math.min(due.atMs, atMs);
    this.#nextMs = Math.min(this.#nextMs, atMs);
  }

  /** Returns whether something may have ended by now. Throws `MissingRow` if its rows are not loaded. */
  hasEnded(nowMs: number): boolean {
    if (nowMs < this.#nextMs) return false;
    const accounts = [...this.#deadlines].filter(([, due]) => !due.isLoaded && due.atMs <= nowMs).map(([id]) => id);
    if (accounts.length > 0) {
      throw new MissingRow({
        steps: this.#steps(accounts),
        onResults: results => this.#addLoadedRows(accounts, results),
      });
    }
    return true;
  }

  /** Returns the statement that writes the changed times; none if no time has changed. */
  writeSteps(): Step[] {
    const changed = this.#listChanged();
    if (changed.length === 0) return [];
    const times = changed.map(({ nextMs }) => (nextMs === Number.POSITIVE_INFINITY ? null : nextMs));
    return [
      {
        text: 'UPDATE account t SET due_at_ms = v.due FROM unnest($1::bigint[], $2::bigint[]) AS v(id, due) WHERE t.id = v.id',
        values: [toArray(changed.map(({ accountId }) => accountId)), toArray(times)],
      },
    ];
  }

  /** Takes the changed times as stored, because they have been written. */
  markWritten(): void {
    for (const { due, nextMs } of this.#listChanged()) due.stored = nextMs;
  }

  #listChanged(): { readonly accountId: number; readonly due: Deadline; readonly nextMs: number }[] {
    const next = new Map<number, number>();
    for (const [accountId, due] of this.#deadlines) if (due.isLoaded) next.set(accountId, Number.POSITIVE_INFINITY);
    const add = (accountId: number, atMs: number): void => {
      const known = next.get(accountId);
      if (known !== undefined) next.set(accountId, Math.min(known, atMs));
    };
    if (next.size > 0) {
      const { holds, keys, periods } = this.#ending;
      for (const hold of holds.rows()) add(hold.accountId, holdEndMs(hold));
      for (const key of keys.rows()) add(key.accountId, keyEndMs(key));
      for (const period of periods.rows()) add(period.accountId, periodEndMs(period));
    }
    return [...this.#deadlines].flatMap(([accountId, due]) => {
      const nextMs = next.get(accountId) ?? due.atMs;
      return nextMs === due.stored ? [] : [{ accountId, due, nextMs }];
    });
  }

  #steps(accounts: readonly number[]): Step[] {
    const values = [toArray(accounts)];
    const { hold, key, period } = this.#ending.columns;
    const where = 'WHERE account_id = ANY($1::bigint[])';
    return [
      { text: `SELECT ${hold} FROM hold ${where} AND expires_at_ms IS NOT NULL`, values },
      { text: `SELECT ${key} FROM api_key ${where} AND expires_at_ms IS NOT NULL AND balance > held`, values },
      { text: `SELECT ${period} FROM plan_period ${where} AND live = 1`, values },
    ];
  }

  #addLoadedRows(accounts: readonly number[], [holds, keys, periods]: readonly StepResult[]): void {
    const { ending } = { ending: this.#ending };
    if (holds !== undefined) ending.holds.addAllLoaded(holds);
    if (keys !== undefined) ending.keys.addAllLoaded(keys);
    if (periods !== undefined) ending.periods.addAllLoaded(periods);
    for (const id of accounts) {
      const due = this.#deadlines.get(id);
      if (due !== undefined) due.isLoaded = true;
    }
  }
}

const never = Number.POSITIVE_INFINITY;

/** Returns when a hold ends by itself; Infinity: never. */
export function holdEndMs({ expiresAtMs }: Hold): number {
  return expiresAtMs ?? never;
}

/** Returns when money of a key moves back to its account; Infinity: never. */
export function keyEndMs({ expiresAtMs, balance, held }: Key): number {
  return balance !== null && balance > held ? (expiresAtMs ?? never) : never;
}

/** Returns when a live period ends; Infinity: it is not live. */
export function periodEndMs({ live, endMs }: PlanPeriod): number {
  return live ? endMs : never;
}
