import assert from 'node:assert/strict';
import type { DailyLimitUnit, Plans, Suspension } from '../ledger.ts';
import type { Account, Counter, Key, Rows } from '../rows.ts';

/** What rules depend on: the rows, the plans that accounts can have, and how `daily_limit` is read. */
export interface Context {
  readonly rows: Rows;
  readonly plans: Plans;
  readonly dailyLimitUnit: DailyLimitUnit;
  /** An account of whose requests more is written off is suspended; absent: none is. */
  readonly writeOffMax?: bigint | undefined;
  /** Called with an account that this command suspends. */
  readonly onSuspended?: (accountId: number, reason: Suspension) => void;
}

/** Returns a row that must be there, because rows like it are never deleted. Throws if it is not. */
export function present<R>(row: R | undefined): R {
  assert(row !== undefined, 'a row is missing');
  return row;
}

/** Returns the account of a key. */
export function findOwner(rows: Rows, key: Pick<Key, 'accountId'>): Account {
  return present(rows.accounts.get(key.accountId));
}

/** The next number of a counter, taken. */
export function nextNumber(rows: Rows, name: Counter['name']): number {
  const value = (rows.counters.get(name)?.value ?? 0) + 1;
  rows.counters.put({ name, value });
  return value;
}
