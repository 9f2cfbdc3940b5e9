import type { PlanName, PlanPeriodName, Plans } from '../ledger.ts';
import { type PlanTime, planTimeOf } from './calendar.ts';
import type { Query, Sql } from '../../lib/sqlite/database.ts';
import type { Moves } from './moves.ts';

/** A subscription whose period is over. */
interface Due {
  period_id: bigint;
  end_ms: bigint;
  subscription_id: bigint;
  account_id: bigint;
  plan: PlanName;
  period: PlanPeriodName;
  started_at_ms: bigint;
  state: 'active' | 'cancelled';
}

/** What is about to be paid. */
interface Purchase {
  readonly subscriptionId: number;
  readonly accountId: number;
  readonly plan: PlanName;
  readonly period: PlanPeriodName;
  readonly time: PlanTime;
}

/**
 * Starts, renews and ends plans. Nothing runs at the end of a period: the next command, whenever it comes, finds it over and renews it first, so that
 * none sees an old one. Periods that nobody paid in between are left out.
 */
export class Subscriptions {
  readonly #plans: Plans;
  readonly #moves: Moves;
  readonly #account: Query<[number], { balance: bigint; held: bigint }>;
  readonly #living: Query<[number], { id: bigint }>;
  readonly #add: Query<[number, PlanName, PlanPeriodName, number], unknown>;
  readonly #state: Query<['cancelled' | 'ended', number], unknown>;
  readonly #addPeriod: Query<[Record<string, string | number | bigint>], unknown>;
  readonly #endPeriod: Query<[number], unknown>;
  readonly #point: Query<[number | null, number], unknown>;
  readonly #due: Query<[number], Due>;
  readonly #nextEnd: Query<[], { at: bigint | null }>;
  #nextEndMs: number | undefined;

  constructor(sql: Sql, plans: Plans, moves: Moves) {
    this.#plans = plans;
    this.#moves = moves;
    this.#account = sql.prepare('SELECT balance, held FROM account WHERE id = ?');
    this.#living = sql.prepare(`SELECT id FROM subscription WHERE account_id = ? AND state <> 'ended'`);
    this.#add = sql.prepare(
      `INSERT INTO subscription (account_id, plan, period, started_at_ms, state) VALUES (?, ?, ?, ?, 'active')`,
    );
    this.#state = sql.prepare('UPDATE subscription SET state = ? WHERE id = ?');
    this.#addPeriod = sql.prepare(
      `INSERT INTO plan_period (subscription_id, account_id, plan, number, start_ms, end_ms, price, tokens)
       VALUES (@subscriptionId, @accountId, @plan, @number, @startMs, @endMs, @price, @tokens)`,
    );
    this.#endPeriod = sql.prepare('UPDATE plan_period SET live = 0 WHERE id = ?');
    this.#point = sql.prepare('UPDATE account SET period_id = ? WHERE id = ?');
    this.#due = sql.prepare(
      `SELECT p.id AS period_id, p.end_ms, p.subscription_id, p.account_id, s.plan, s.period, s.started_at_ms, s.state
         FROM plan_period p JOIN subscription s ON s.id = p.subscription_id
         WHERE p.live = 1 AND p.end_ms <= ? ORDER BY p.end_ms, p.id`,
    );
    this.#nextEnd = sql.prepare('SELECT min(end_ms) AS at FROM plan_period WHERE live = 1');
  }

  /** Starts a plan and pays its first period; `conflict`: the account has one, `insufficient`: it can't pay. */
  start(
    { accountId, plan, period }: { accountId: number; plan: PlanName; period: PlanPeriodName },
    nowMs: number,
  ): number | 'not_found' | 'insufficient' | 'conflict' {
    if (this.#account.get(accountId) === undefined) return 'not_found';
    if (this.#living.get(accountId) !== undefined) return 'conflict';
    if (!this.#canPay(accountId, this.#plans[plan][period].priceNanoUsd)) return 'insufficient';
    const subscriptionId = Number(this.#add.run(accountId, plan, period, nowMs).lastInsertRowid);
    const time = planTimeOf(nowMs, period, nowMs);
    this.#buy({ subscriptionId, accountId, plan, period, time }, nowMs);
    return accountId;
  }

  /** Lets a plan end with its period. */
  cancel(accountId: number): number | 'not_found' {
    const living = this.#living.get(accountId);
    if (living === undefined) return 'not_found';
    this.#state.run('cancelled', Number(living.id));
    return accountId;
  }

  /** Renews the plans whose period is over by now, or ends them: cancelled ones, and those whose account can't pay. */
  sweep(nowMs: number): void {
    this.#nextEndMs ??= Number(this.#nextEnd.get()?.at ?? Number.POSITIVE_INFINITY);
    if (nowMs < this.#nextEndMs) return;
    for (const due of this.#due.all(nowMs)) this.#renew(due, nowMs);
    this.#nextEndMs = undefined;
  }

  /** Forgets what is in memory, because a batch was undone. */
  clear(): void {
    this.#nextEndMs = undefined;
  }

  #renew(due: Due, nowMs: number): void {
    const { plan, period } = due;
    const accountId = Number(due.account_id);
    const subscriptionId = Number(due.subscription_id);
    this.#endPeriod.run(Number(due.period_id));
    if (due.state === 'active' && this.#canPay(accountId, this.#plans[plan][period].priceNanoUsd)) {
      const time = planTimeOf(Number(due.started_at_ms), period, nowMs);
      this.#buy({ subscriptionId, accountId, plan, period, time }, nowMs);
      return;
    }
    this.#state.run('ended', subscriptionId);
    this.#point.run(null, accountId);
  }

  /** Prices take only what no hold covers. */
  #canPay(accountId: number, price: bigint): boolean {
    const account = this.#account.get(accountId);
    return account !== undefined && account.balance - account.held >= price;
  }

  #buy({ subscriptionId, accountId, plan, period, time }: Purchase, nowMs: number): void {
    const { priceNanoUsd: price, tokens } = this.#plans[plan][period];
    const { lastInsertRowid } = this.#addPeriod.run({ subscriptionId, accountId, plan, ...time, price, tokens });
    const periodId = Number(lastInsertRowid);
    this.#point.run(periodId, accountId);
    this.#moves.planPrice(accountId, periodId, price, nowMs);
    if (this.#nextEndMs !== undefined) this.#nextEndMs = Math.min(this.#nextEndMs, time.endMs);
  }
}
