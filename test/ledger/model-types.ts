import type { SettleCommand, TextEstimate } from '../../src/ledger/ledger.ts';
import type { PlanName, PlanPeriodName } from '../../src/ledger/plans.ts';
import type { Order } from './model-payers.ts';

/** The state of the reference model. */

/** A key. */
export interface ModelKey {
  readonly id: number;
  readonly accountId: number;
  readonly name: string;
  state: 'enabled' | 'disabled' | 'revoked';
  allowedModels: readonly string[] | null;
  balance: bigint | null;
  groupId: number | null;
  useSubsFirst: boolean;
  fallbackToPayg: boolean;
  expiresAtMs: number | null;
}

/** A group: its keys and groups share limits, and possibly a balance. */
export interface ModelGroup {
  readonly id: number;
  readonly accountId: number;
  parent: number | null;
  balance: bigint | null;
  removed: boolean;
}

/** Whose money pays: the account's, the key's, or that of the group with this id. */
export type PaidBy = 'account' | 'key' | number;

/** A period of a plan that was paid for. */
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

/** How a request is paid. */
export interface Paying {
  readonly order: Order;
  readonly paidBy: PaidBy;
  readonly period: ModelPeriod | undefined;
  readonly discount: number;
}

/** An admission. An id that was voided may be admitted again. */
export interface ModelRequest {
  readonly id: number;
  readonly key: ModelKey;
  readonly model: string;
  readonly free: boolean;
  readonly text: TextEstimate | undefined;
  /** If it is free, how many requests it counts as. */
  readonly requests: number;
  readonly endUser: string | undefined;
  /** The key's group at admission, and the groups above it. */
  readonly groups: readonly number[];
  readonly order: Order;
  readonly paidBy: PaidBy;
  readonly period: ModelPeriod | undefined;
  readonly discount: number;
  planHeld: number;
  planOutput: number;
  readonly firstSpent: boolean;
  planPaid: number;
  readonly admittedAtMs: number;
  readonly requested: bigint;
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
