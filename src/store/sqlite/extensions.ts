import assert from 'node:assert/strict';
import type { ExtendCommand, Extended } from '../ledger.ts';
import { costOfTokens, type Funds, leftOfAll, tokensFor } from './funds.ts';
import type { HoldFacts, Holds } from './holds.ts';
import type { KeyFinder } from './key-facts.ts';

/** Holds more for requests that run: output tokens as far as the funds go, amounts wholly or not at all. */
export class Extensions {
  readonly #keys: KeyFinder;
  readonly #funds: Funds;
  readonly #holds: Holds;

  constructor(keys: KeyFinder, funds: Funds, holds: Holds) {
    this.#keys = keys;
    this.#funds = funds;
    this.#holds = holds;
  }

  /** `extension` names this command: its repeat answers the same and holds nothing more. */
  extend(command: ExtendCommand, extension: number): Extended {
    const hold = this.#holds.find(command.id);
    if (hold === undefined) return { kind: 'not_held', outputTokens: 0, heldNanoUsd: 0n, outputTokensAvailable: 0 };
    const left = this.#left(hold);
    if (hold.extension === extension) {
      return answer('extended', { held: hold.held, left, tokens: hold.tokens, hold }, hold.extendedTokens ?? 0);
    }
    return 'outputTokens' in command
      ? this.#byTokens(hold, command.outputTokens, left, extension)
      : this.#byAmount(hold, command, left, extension);
  }

  #byTokens(hold: HoldFacts, wanted: number, left: bigint, extension: number): Extended {
    if (hold.tokens === null) return answer('extended', { held: hold.held, left, tokens: null, hold }, wanted);
    const granted = Math.min(wanted, tokensFor(left, hold.tokens, hold.outputPicoUsd));
    if (granted <= 0) return answer('denied', { held: hold.held, left, tokens: hold.tokens, hold }, 0);
    const tokens = hold.tokens + granted;
    const by = costOfTokens(tokens, hold.outputPicoUsd) - costOfTokens(hold.tokens, hold.outputPicoUsd);
    this.#holds.extend(hold, { by, tokens, granted, expiresAtMs: hold.expiresAtMs, extension });
    return answer('extended', { held: hold.held + by, left: left - by, tokens, hold }, granted);
  }

  #byAmount(
    hold: HoldFacts,
    command: { readonly nanoUsd: bigint; readonly expiresAtMs?: number },
    left: bigint,
    extension: number,
  ): Extended {
    const by = command.nanoUsd;
    const { tokens, held } = hold;
    if (by < 0n || by > left) return answer('denied', { held, left, tokens, hold }, 0);
    // Only other services' holds expire; the gateway's own live as long as it does.
    const expiresAtMs = hold.expiresAtMs === null ? null : (command.expiresAtMs ?? hold.expiresAtMs);
    this.#holds.extend(hold, { by, tokens, granted: 0, expiresAtMs, extension });
    return { ...answer('extended', { held: held + by, left: left - by, tokens, hold }, 0), ...expiry(expiresAtMs) };
  }

  /** What the funds can still pay, by the present limits in the periods of the admission. */
  #left(hold: HoldFacts): bigint {
    const key = this.#keys.find({ id: hold.keyId });
    assert(key !== undefined, 'keys are never deleted');
    return leftOfAll(this.#funds.of(key, hold.payer, hold.admittedAtMs));
  }
}

function expiry(expiresAtMs: number | null): { expiresAtMs?: number } {
  return expiresAtMs === null ? {} : { expiresAtMs };
}

function answer(
  kind: 'extended' | 'denied',
  after: { held: bigint; left: bigint; tokens: number | null; hold: HoldFacts },
  granted: number,
): Extended {
  const { held, left, tokens, hold } = after;
  return {
    kind,
    outputTokens: granted,
    heldNanoUsd: held,
    outputTokensAvailable:
      tokens === null ? Number.POSITIVE_INFINITY : Math.max(0, tokensFor(left, tokens, hold.outputPicoUsd)),
  };
}
