import assert from 'node:assert/strict';
import type { DenialFacts } from '../../errors/gateway-error.ts';
import type { PlanName, Plans as PlanList, PlanTerms } from '../ledger.ts';
import { dayOf } from './calendar.ts';
import type { Query, Sql } from '../../lib/sqlite/database.ts';
import type { KeyFacts } from './key-facts.ts';

/** A paid period of a plan. */
export interface PeriodFacts {
  readonly id: number;
  readonly accountId: number;
  readonly terms: PlanTerms;
  readonly tokens: number;
  /** Settled plus held. */
  readonly used: number;
  readonly endMs: number;
  readonly subscriptionId: number;
}

interface Row {
  id: bigint;
  account_id: bigint;
  plan: PlanName;
  tokens: bigint;
  used: bigint;
  held: bigint;
  end_ms: bigint;
  subscription_id: bigint;
}

/** Plans as payers: the tokens of paid periods, and free daily requests. An account without a plan costs no read. */
export class Plans {
  readonly #list: PlanList;
  readonly #find: Query<[number], Row>;
  readonly #subscription: Query<[number], { state: 'active' | 'cancelled' | 'ended' }>;
  readonly #touch: Query<[number, number, number], unknown>;
  readonly #day: Query<[number, number], { requests: bigint }>;
  readonly #countDay: Query<[number, number], unknown>;
  readonly #uncountDay: Query<[number, number], unknown>;

  constructor(sql: Sql, list: PlanList) {
    this.#list = list;
    this.#find = sql.prepare(
      'SELECT id, account_id, plan, tokens, used, held, end_ms, subscription_id FROM plan_period WHERE id = ?',
    );
    this.#subscription = sql.prepare('SELECT state FROM subscription WHERE id = ?');
    this.#touch = sql.prepare('UPDATE plan_period SET used = used + ?, held = held + ? WHERE id = ?');
    this.#day = sql.prepare('SELECT requests FROM plan_day WHERE account_id = ? AND day = ?');
    this.#countDay = sql.prepare(
      `INSERT INTO plan_day (account_id, day, requests) VALUES (?, ?, 1)
       ON CONFLICT DO UPDATE SET requests = requests + 1`,
    );
    this.#uncountDay = sql.prepare('UPDATE plan_day SET requests = requests - 1 WHERE account_id = ? AND day = ?');
  }

  /** The live period of a key's account; undefined: it has no plan. */
  of(key: KeyFacts): PeriodFacts | undefined {
    return key.periodId === null ? undefined : this.period(key.periodId);
  }

  /** A period, over or not. */
  period(id: number): PeriodFacts {
    const row = this.#find.get(id);
    assert(row !== undefined, 'periods are never deleted');
    return {
      id,
      accountId: Number(row.account_id),
      terms: this.#list[row.plan],
      tokens: Number(row.tokens),
      used: Number(row.used + row.held),
      endMs: Number(row.end_ms),
      subscriptionId: Number(row.subscription_id),
    };
  }

  /** Free daily requests that the plan still gives on the day of that time. */
  freeLeft({ accountId, terms }: PeriodFacts, atMs: number): number {
    if (terms.freeDailyRequests === 0) return 0;
    const taken = Number(this.#day.get(accountId, dayOf(atMs))?.requests ?? 0n);
    return Math.max(0, terms.freeDailyRequests - taken);
  }

  /** Why the tokens refuse. Without `resetAtMs` where the plan ends with the period: waiting does not help. */
  denial({ tokens, used, endMs, subscriptionId }: PeriodFacts): DenialFacts {
    const denial: DenialFacts = { limit: 'subscription', unit: 'tokens', used, max: tokens };
    return this.#subscription.get(subscriptionId)?.state === 'active' ? { ...denial, resetAtMs: endMs } : denial;
  }

  /** Takes one of them, or gives it back. */
  countFree(accountId: number, atMs: number, by: 1 | -1): void {
    (by === 1 ? this.#countDay : this.#uncountDay).run(accountId, dayOf(atMs));
  }

  /** Tokens of a period that are used or held from now on, or no more where negative. */
  touch(periodId: number, { used, held }: { used: number; held: number }): void {
    if (used !== 0 || held !== 0) this.#touch.run(used, held, periodId);
  }
}

/** Tokens of a period that nobody has used or holds. */
export function planTokensLeft({ tokens, used }: PeriodFacts): number {
  return tokens - used;
}

/** Whether the plan pays requests of that model. */
export function coversModel({ terms }: PeriodFacts, model: string): boolean {
  return terms.models?.includes(model) !== false;
}
