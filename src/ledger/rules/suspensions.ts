import type { Suspension } from '../ledger.ts';
import type { Account, Rows } from '../rows.ts';
import type { Context } from './context.ts';

/** Returns the account with an amount added to its write-offs; it is suspended if they exceed the maximum. The caller stores the account. */
export function writeOffFrom(
  { writeOffMax, onSuspended }: Pick<Context, 'writeOffMax' | 'onSuspended'>,
  account: Account,
  amount: bigint,
): Account {
  const writtenOff = account.writtenOff + amount;
  const isOver = account.suspended === null && writeOffMax !== undefined && writtenOff > writeOffMax;
  if (!isOver) return { ...account, writtenOff };
  onSuspended?.(account.id, 'write_offs');
  return { ...account, writtenOff, suspended: 'write_offs' };
}

/** Suspends an account. Does nothing if it does not exist. */
export function suspend(rows: Rows, accountId: number, reason: Suspension): void {
  const account = rows.accounts.get(accountId);
  if (account !== undefined) rows.accounts.put({ ...account, suspended: reason });
}
