/** Why a hold was voided. */
export type VoidReason = 'rejected' | 'gateway_failure' | 'cancelled' | 'restarted' | 'expired';

export interface VoidedHoldRow {
  readonly id: number;
  readonly accountId: number;
  readonly keyId: number;
  readonly model: string;
  readonly heldNanoUsd: bigint;
  readonly admittedAtMs: number;
  readonly voidedAtMs: number;
  readonly reason: Extract<VoidReason, 'restarted' | 'expired'>;
}
