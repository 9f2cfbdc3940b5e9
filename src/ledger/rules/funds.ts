import type { DenialFacts } from '../../errors/gateway-error.ts';
import type { Key, Payer } from '../rows.ts';
import { dayOf, endOfDayMs, monthOf } from './calendar.ts';
import { type Context, findOwner } from './context.ts';

/** Money that a request can draw on: the caps and the balance, together. What the account's plan pays is in `payments.ts`. */

/** One thing that bounds what can be paid; `used` is settled plus held. */
export interface Fund {
  readonly limit: Extract<DenialFacts['limit'], 'daily_limit' | 'monthly_limit' | 'balance'>;
  readonly used: bigint;
  readonly max: bigint;
  /** Absent: it never resets by itself. */
  readonly resetAtMs?: number;
}

const nanoPerDollar = 1_000_000_000n;

/** Returns what is left of a fund; negative where a cap was lowered below what was used. */
export function leftOf(fund: Fund): bigint {
  return fund.max - fund.used;
}

/** Returns what all of them can pay: the tightest decides. At least 0. */
export function leftOfAll(funds: readonly Fund[]): bigint {
  let least: bigint | undefined;
  for (const fund of funds) {
    const left = leftOf(fund);
    if (least === undefined || left < least) least = left;
  }
  return least === undefined || least < 0n ? 0n : least;
}

/** Returns whose money pays a request of this key that is admitted now. */
export function choosePayer(key: Key): Payer {
  return key.balance === null ? 'account' : 'key_balance';
}

/** Returns the caps in the periods of the admission, and the payer's balance, in the order in which they refuse. */
export function listFunds(context: Context, key: Key, payer: Payer, admittedAtMs: number): Fund[] {
  const funds: Fund[] = [];
  if (context.dailyLimitUnit === 'dollars' && key.dailyLimit > 0) {
    const used = spending(context, key, dayOf(admittedAtMs));
    const max = BigInt(key.dailyLimit) * nanoPerDollar;
    funds.push({ limit: 'daily_limit', used, max, resetAtMs: endOfDayMs(admittedAtMs) });
  }
  if (key.monthlyLimit !== null) {
    const { first, last, endMs } = monthOf(admittedAtMs);
    let used = 0n;
    for (let day = first; day <= last; day++) used += spending(context, key, day);
    funds.push({ limit: 'monthly_limit', used, max: key.monthlyLimit, resetAtMs: endMs });
  }
  if (payer === 'key_balance') funds.push({ limit: 'balance', used: key.held, max: key.balance ?? 0n });
  else {
    const { held, balance } = findOwner(context.rows, key);
    funds.push({ limit: 'balance', used: held, max: balance });
  }
  return funds;
}

/** What the key has spent and holds of a day. */
function spending({ rows }: Context, key: Key, day: number): bigint {
  const of = rows.keyDays.get(key.id, day);
  return of === undefined ? 0n : of.spent + of.held;
}
