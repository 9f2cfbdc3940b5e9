import type { DenialFacts } from '../../errors/gateway-error.ts';
import type { Account, Key, Request, Rows } from '../rows.ts';
import { findOwner, present } from './context.ts';
import { amountAgainst, type BoundLimit, inOrder } from './limits.ts';
import { describeLimit, computeReset } from './windows.ts';

/** The money that a request can use: what the dollar limits and the balance together allow. For the plan's tokens see `payments.ts`. */

/** A dollar limit or a balance, as a bound for what can be paid. `used`: settled plus held. */
export interface Fund extends Pick<DenialFacts, 'limit' | 'row'> {
  readonly used: bigint;
  readonly max: bigint;
  /** When it resets; absent: never by itself. */
  readonly resetAtMs?: number;
}

/** Returns how much of a fund is left; negative if a limit was lowered below its use. */
export function amountLeft(fund: Fund): bigint {
  return fund.max - fund.used;
}

/** The fields that name the balance that pays a request. */
export type PayerFields = Pick<Request, 'payer' | 'payerGroup'>;

/**
 * Returns whose balance pays for a request of this key that is admitted now: the key's if it has one, else that of the nearest group that
 * has one, else the account's.
 */
export function choosePayer(rows: Rows, key: Key, groups: readonly number[]): PayerFields {
  if (key.balance !== null) return { payer: 'key_balance', payerGroup: null };
  for (const id of groups) {
    if (present(rows.groups.get(id)).balance !== null) return { payer: 'group_balance', payerGroup: id };
  }
  return { payer: 'account', payerGroup: null };
}

/** The balance that pays for a request, and the limits that apply to it. */
export interface Paying {
  readonly payerFields: PayerFields;
  readonly groups: readonly number[];
  readonly admittedAtMs: number;
  readonly bound: readonly BoundLimit[];
}

/** Returns how much money can be paid: what the tightest fund has left, at least 0. */
export function countMoney(rows: Rows, key: Key, { payerFields, admittedAtMs, bound }: Paying, nowMs: number): bigint {
  const { held, balance } = findPayer(rows, key, payerFields);
  let least = (balance ?? 0n) - held;
  for (const { limit, max, use } of bound) {
    if (limit.unit !== 'usd' || limit.action === 'alert') continue;
    const left = max - amountAgainst(use, admittedAtMs, nowMs);
    if (left < least) least = left;
  }
  return least < 0n ? 0n : least;
}

/** Returns the dollar limits in the windows of the admission, and the payer's balance, in the order in which they refuse. */
export function listFunds(rows: Rows, key: Key, paying: Paying, nowMs: number): Fund[] {
  const { bound, admittedAtMs } = paying;
  const dollars = bound.filter(({ limit }) => limit.unit === 'usd' && limit.action === 'refuse');
  const order = inOrder(paying.groups);
  if (dollars.length > 1) dollars.sort((one, other) => order(one.limit, other.limit));
  const funds = dollars.map((each): Fund => {
    const { limit, max, use } = each;
    const resetAtMs = computeReset(each, 1n, nowMs);
    const fund = { ...describeLimit(limit), used: amountAgainst(use, admittedAtMs, nowMs), max };
    return resetAtMs === Number.POSITIVE_INFINITY ? fund : { ...fund, resetAtMs };
  });
  const { held, balance } = findPayer(rows, key, paying.payerFields);
  funds.push({ limit: 'balance', used: held, max: balance ?? 0n });
  return funds;
}

/** Returns who pays: the key, a group or the account. */
export function findPayer(
  rows: Rows,
  key: Key,
  { payer, payerGroup }: PayerFields,
): Pick<Account, 'held' | 'running'> & Pick<Key, 'balance'> {
  if (payerGroup !== null) return present(rows.groups.get(payerGroup));
  return payer === 'key_balance' ? key : findOwner(rows, key);
}
