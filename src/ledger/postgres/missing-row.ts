import type { Step, StepResult } from '../../lib/postgres/connection.ts';

/** Something that a rule needs and that the batch has not loaded. The engine loads it and runs the rule again, which is safe because rules are pure. */
export class MissingRow extends Error {
  override readonly name = 'MissingRow';
  readonly need: Need;

  constructor(need: Need) {
    super('a row is not loaded');
    this.need = need;
  }
}

/** How something is loaded. */
export interface Need {
  readonly steps: readonly Step[];
  /** Takes what each step returned. */
  readonly take: (results: readonly StepResult[]) => void;
  /** `changes`: sees what the commands before have changed, which must be written first. `apart`: committed by itself, outside the batch's transaction. */
  readonly when?: 'changes' | 'apart';
}

/** A rule needs a row of an account that the batch has not locked: the batch must begin again with that lock. */
export class UnlockedAccount extends Error {
  override readonly name = 'UnlockedAccount';
  readonly accountId: number;

  constructor(accountId: number) {
    super(`account ${accountId} is not locked`);
    this.accountId = accountId;
  }
}
