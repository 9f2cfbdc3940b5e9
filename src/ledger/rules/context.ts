import assert from 'node:assert/strict';
import type { Suspension } from '../ledger.ts';
import type { DailyLimitUnit, Plans } from '../plans.ts';
import type { Account, Counter, Key, Rows } from '../rows.ts';

/** The context of rules: the rows, the plans that accounts can have, and the unit of `daily_limit`. */
export interface Context {
  readonly rows: Rows;
  readonly plans: Plans;
  readonly dailyLimitUnit: DailyLimitUnit;
  /** An account is suspended if more nano-dollars than this have been written off; absent: never. */
  readonly writeOffMax?: bigint | undefined;
  /** Called if a command suspends an account. */
  readonly onSuspended?: (accountId: number, reason: Suspension) => void;
}

/** Returns a row that must exist because its kind is never deleted. Throws if it does not exist. */
export function present<R>(row: R | undefined): R {
  assert(row !== undefined, 'a row is missing');
  return row;
}

/** Returns the account of a key. */
export function findOwner(rows: Rows, key: Pick<Key, 'accountId'>): Account {
  return present(rows.accounts.get(key.accountId));
}

/** Takes and returns the next number of a counter. */
export function nextNumber(rows: Rows, name: Counter['name']): number {
  const value = (rows.counters.get(name)?.value ?? 0) + 1;
  rows.counters.put({ name, value });
  return value;
}
