import type { PlanName, PlanPeriodName, SettleCommand } from '../../src/ledger/ledger.ts';
import type { Order } from './model-payers.ts';

/** What the plain model remembers. */

/** A key. */
export interface ModelKey {
  readonly id: number;
  readonly accountId: number;
  readonly name: string;
  state: 'enabled' | 'disabled' | 'revoked';
  minuteLimit: number;
  dailyLimit: number;
  monthlyLimit: bigint | undefined;
  allowedModels: readonly string[] | null;
  balance: bigint | null;
  useSubsFirst: boolean;
  fallbackToPayg: boolean;
}

/** What was paid for. */
export interface ModelPeriod {
  readonly startMs: number;
  readonly endMs: number;
  readonly tokens: number;
}

/** A plan of an account. */
export interface ModelPlan {
  readonly name: PlanName;
  readonly length: PlanPeriodName;
  readonly startedAtMs: number;
  cancelled: boolean;
  period: ModelPeriod;
}

/** An account. */
export interface ModelAccount {
  balance: bigint;
  plan?: ModelPlan | undefined;
}

/** Who pays. */
export interface Paying {
  readonly order: Order;
  readonly paidBy: 'account' | 'key';
  readonly period: ModelPeriod | undefined;
  readonly discount: number;
}

/** One admission; an id that was voided may be admitted again. */
export interface ModelRequest {
  readonly id: number;
  readonly key: ModelKey;
  readonly model: string;
  readonly free: boolean;
  readonly answers: number;
  readonly order: Order;
  readonly paidBy: 'account' | 'key';
  readonly period: ModelPeriod | undefined;
  readonly discount: number;
  planHeld: number;
  planOutput: number;
  readonly firstSpent: boolean;
  planPaid: number;
  readonly admittedAtMs: number;
  readonly asked: bigint | undefined;
  readonly admitted: bigint;
  readonly price: bigint;
  held: bigint;
  tokens: number;
  readonly admittedTokens: number;
  expiresAtMs: number | undefined;
  state: 'live' | 'settled' | 'voided';
  voidedFor: string;
  settle: SettleCommand | undefined;
  cost: bigint;
  writtenOff: bigint;
}
