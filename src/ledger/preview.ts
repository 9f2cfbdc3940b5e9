import type { Denied } from './ledger.ts';

/** A payer of a request. */
export interface NextPayer {
  readonly payer: 'free' | 'subscription' | 'key_balance' | 'group_balance' | 'account';
  /** If a group's balance pays. */
  readonly groupId?: number;
  /** If money pays: the balance outside holds. */
  readonly leftNanoUsd?: bigint;
  /** If a plan pays. */
  readonly leftTokens?: number;
  /** When a plan begins a new period. */
  readonly resetsAtMs?: number;
}

/** The result that an admission would have. */
export interface AdmissionPreview {
  /** Why it would be refused; absent: it would be admitted. */
  readonly denied?: Denied;
  /** In paying order; empty: no one can pay. */
  readonly payers: readonly NextPayer[];
  /** The limits that bind it, in the order in which they refuse. */
  readonly limitIds: readonly number[];
  /** The amount that would be held first. */
  readonly heldNanoUsd: bigint;
  /** Output tokens that this would pay; null: it costs nothing. */
  readonly outputTokens: number | null;
}
