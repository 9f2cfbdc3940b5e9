/** The facts of a running request, for the dashboard. */
export interface RunningFacts {
  readonly requestId: string;
  /** The listed id of the model. */
  readonly model: string;
  readonly accountId: number;
  readonly keyId: number;
  readonly createdAtMs: number;
  readonly heldNanoUsd: bigint;
  /** An estimate of the output tokens so far, which is more likely too high than too low. */
  readonly outputTokens: number;
  /** The provider that answers; '' until one does. */
  readonly provider: string;
  readonly attempts: number;
}
