import type { Step, StepResult } from '../../lib/postgres/connection.ts';

/** Thrown if a rule reads something that the batch has not loaded. The engine loads it and runs the rule again, which is safe because rules have no side effects. */
export class MissingRow extends Error {
  override readonly name = 'MissingRow';
  readonly need: Need;

  constructor(need: Need) {
    super('a row is not loaded');
    this.need = need;
  }
}

/** The rows to load, and how. */
export interface Need {
  readonly steps: readonly Step[];
  /** Called with the result of each step. */
  readonly onResults: (results: readonly StepResult[]) => void;
  /** `changes`: the steps must see the changes of earlier commands, which are written first. `apart`: the steps run outside the batch's transaction and are committed by themselves. */
  readonly when?: 'changes' | 'apart';
}

/** Thrown if a rule needs a row of an account that the batch has not locked. The batch then begins again and locks that account too. */
export class UnlockedAccount extends Error {
  override readonly name = 'UnlockedAccount';
  readonly accountId: number;

  constructor(accountId: number) {
    super(`account ${accountId} is not locked`);
    this.accountId = accountId;
  }
}
