import type { Denied } from './ledger.ts';

/** Who would pay a request. */
export interface NextPayer {
  readonly payer: 'free' | 'subscription' | 'key_balance' | 'group_balance' | 'account';
  /** Of a group's balance. */
  readonly groupId?: number;
  /** Of money: what no hold covers. */
  readonly leftNanoUsd?: bigint;
  /** Of a plan. */
  readonly leftTokens?: number;
  /** When a plan begins a new period. */
  readonly resetsAtMs?: number;
}

/** What an admission would decide. */
export interface AdmissionPreview {
  /** Why it would be refused; absent: it would be admitted. */
  readonly denied?: Denied;
  /** In the order in which they pay; empty: nobody may. */
  readonly payers: readonly NextPayer[];
  /** The limits that bind it, in the order in which they refuse. */
  readonly limitIds: readonly number[];
  /** What would be held at first. */
  readonly heldNanoUsd: bigint;
  /** Output tokens that this would pay; null: it costs nothing. */
  readonly outputTokens: number | null;
}
