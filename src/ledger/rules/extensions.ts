import assert from 'node:assert/strict';
import type { ExtendCommand, Extended } from '../ledger.ts';
import { moreOf, type Sources, tokensLeft } from './grants.ts';
import type { HoldFacts, Holds } from './holds.ts';
import type { KeyFinder } from './key-facts.ts';
import { type Payments, sourcesOf } from './payments.ts';

/** Holds more for requests that run: output tokens as far as the funds go, amounts wholly or not at all. */
export class Extensions {
  readonly #keys: KeyFinder;
  readonly #payments: Payments;
  readonly #holds: Holds;

  constructor(keys: KeyFinder, payments: Payments, holds: Holds) {
    this.#keys = keys;
    this.#payments = payments;
    this.#holds = holds;
  }

  /** `extension` names this command: its repeat answers the same and holds nothing more. */
  extend(command: ExtendCommand, extension: number): Extended {
    const hold = this.#holds.find(command.id);
    if (hold === undefined) return { kind: 'not_held', outputTokens: 0, heldNanoUsd: 0n, outputTokensAvailable: 0 };
    const left = this.#left(hold);
    if (hold.extension === extension) return answer('extended', hold, left, hold.extendedTokens ?? 0);
    return 'outputTokens' in command
      ? this.#byTokens(hold, command.outputTokens, left, extension)
      : this.#byAmount(hold, command, left, extension);
  }

  #byTokens(hold: HoldFacts, wanted: number, left: Sources, extension: number): Extended {
    if (hold.tokens === null) return answer('extended', hold, left, wanted);
    const { byPlan, byMoney, nanoUsd } = moreOf(hold, wanted, left);
    const granted = byPlan + byMoney;
    if (granted <= 0) return answer('denied', hold, left, 0);
    const tokens = hold.tokens + granted;
    const { expiresAtMs } = hold;
    this.#holds.extend(hold, { nanoUsd, planTokens: byPlan, tokens, granted, expiresAtMs, extension });
    const after = { ...hold, tokens, held: hold.held + nanoUsd, planOutput: hold.planOutput + byPlan };
    const rest = { ...left, planTokens: left.planTokens - byPlan, nanoUsd: left.nanoUsd - nanoUsd };
    return answer('extended', after, rest, granted);
  }

  #byAmount(
    hold: HoldFacts,
    command: { readonly nanoUsd: bigint; readonly expiresAtMs?: number },
    left: Sources,
    extension: number,
  ): Extended {
    const { nanoUsd } = command;
    const { tokens, held } = hold;
    if (nanoUsd < 0n || nanoUsd > left.nanoUsd) return answer('denied', hold, left, 0);
    // Only other services' holds expire; the gateway's own live as long as it does.
    const expiresAtMs = hold.expiresAtMs === null ? null : (command.expiresAtMs ?? hold.expiresAtMs);
    this.#holds.extend(hold, { nanoUsd, planTokens: 0, tokens, granted: 0, expiresAtMs, extension });
    const after = { ...hold, held: held + nanoUsd };
    return {
      ...answer('extended', after, { ...left, nanoUsd: left.nanoUsd - nanoUsd }, 0),
      ...(expiresAtMs === null ? {} : { expiresAtMs }),
    };
  }

  #left(hold: HoldFacts): Sources {
    const key = this.#keys.find({ id: hold.keyId });
    assert(key !== undefined, 'keys are never deleted');
    return sourcesOf(this.#payments.again(key, hold));
  }
}

function answer(kind: 'extended' | 'denied', hold: HoldFacts, left: Sources, granted: number): Extended {
  return {
    kind,
    outputTokens: granted,
    heldNanoUsd: hold.held,
    outputTokensAvailable: tokensLeft(hold, left),
  };
}
