import type { DenialFacts } from '../../errors/gateway-error.ts';
import { dayOf, endOfDayMs, monthOf } from './calendar.ts';
import type { Query, Sql } from '../../lib/sqlite/database.ts';
import type { KeyFacts } from './key-facts.ts';

/** Money that a request can draw on: the caps and the balance, together. What the account's plan pays is in `plans.ts`. */

/** Whose money: the key's own balance where it has one, 0 included, else the account's. */
export type Payer = 'account' | 'key_balance';

/** How `daily_limit` is read. */
export type DailyLimitUnit = 'dollars' | 'requests';

/** One thing that bounds what can be paid; `used` is settled plus held. */
export interface Fund {
  readonly limit: Extract<DenialFacts['limit'], 'daily_limit' | 'monthly_limit' | 'balance'>;
  readonly used: bigint;
  readonly max: bigint;
  /** Absent: it never resets by itself. */
  readonly resetAtMs?: number;
}

const nanoPerDollar = 1_000_000_000n;
/** What is left of a fund; negative where a cap was lowered below what was used. */
export function leftOf(fund: Fund): bigint {
  return fund.max - fund.used;
}

/** What all of them can pay: the tightest decides. At least 0. */
export function leftOfAll(funds: readonly Fund[]): bigint {
  let least: bigint | undefined;
  for (const fund of funds) {
    const left = leftOf(fund);
    if (least === undefined || left < least) least = left;
  }
  return least === undefined || least < 0n ? 0n : least;
}

/** Whose money pays a request of this key that is admitted now. */
export function payerOf(key: KeyFacts): Payer {
  return key.balance === null ? 'account' : 'key_balance';
}

/** Reads the funds of a key. */
export class Funds {
  readonly #unit: DailyLimitUnit;
  readonly #day: Query<[number, number], { spent: bigint; held: bigint }>;
  readonly #days: Query<[number, number, number], { spent: bigint; held: bigint }>;

  constructor(sql: Sql, unit: DailyLimitUnit) {
    this.#unit = unit;
    this.#day = sql.prepare('SELECT spent, held FROM key_day WHERE key_id = ? AND day = ?');
    this.#days = sql.prepare(
      `SELECT coalesce(sum(spent), 0) AS spent, coalesce(sum(held), 0) AS held
         FROM key_day WHERE key_id = ? AND day BETWEEN ? AND ?`,
    );
  }

  /** The caps in the periods of the admission, and the payer's balance, in the order in which they refuse. */
  of(key: KeyFacts, payer: Payer, admittedAtMs: number): Fund[] {
    return [...this.#caps(key, admittedAtMs), balanceOf(key, payer)];
  }

  #caps(key: KeyFacts, admittedAtMs: number): Fund[] {
    const caps: Fund[] = [];
    if (this.#unit === 'dollars' && key.dailyLimit > 0) {
      const day = this.#day.get(key.id, dayOf(admittedAtMs));
      const used = day === undefined ? 0n : day.spent + day.held;
      const max = BigInt(key.dailyLimit) * nanoPerDollar;
      caps.push({ limit: 'daily_limit', used, max, resetAtMs: endOfDayMs(admittedAtMs) });
    }
    if (key.monthlyLimit !== null) {
      const { first, last, endMs } = monthOf(admittedAtMs);
      const days = this.#days.get(key.id, first, last);
      const used = days === undefined ? 0n : days.spent + days.held;
      caps.push({ limit: 'monthly_limit', used, max: key.monthlyLimit, resetAtMs: endMs });
    }
    return caps;
  }
}

function balanceOf(key: KeyFacts, payer: Payer): Fund {
  return payer === 'account'
    ? { limit: 'balance', used: key.accountHeld, max: key.accountBalance }
    : { limit: 'balance', used: key.held, max: key.balance ?? 0n };
}
