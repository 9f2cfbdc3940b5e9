import type { Denied } from './ledger.ts';

/** A payer of a request. */
export interface NextPayer {
  readonly payer: 'free' | 'subscription' | 'key_balance' | 'group_balance' | 'account';
  /** Present if a group's balance pays. */
  readonly groupId?: number;
  /** Present if money pays: the part of the balance that is not held. */
  readonly leftNanoUsd?: bigint;
  /** Present if a plan pays. */
  readonly leftTokens?: number;
  /** Present if a plan pays: when its next period begins. */
  readonly resetsAtMs?: number;
}

/** The decision that an admission would make. */
export interface AdmissionPreview {
  /** Why the request would be refused; absent: it would be admitted. */
  readonly denied?: Denied;
  /** The payers, in the order in which they pay; empty if no one can pay. */
  readonly payers: readonly NextPayer[];
  /** The limits that apply to the request, in the order in which they are checked. */
  readonly limitIds: readonly number[];
  /** The amount that would be held first. */
  readonly heldNanoUsd: bigint;
  /** Output tokens that this amount would pay for; null: the request costs nothing. */
  readonly outputTokens: number | null;
}
