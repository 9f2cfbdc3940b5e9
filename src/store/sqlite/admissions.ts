import type { DenialFacts, WindowState } from '../../errors/gateway-error.ts';
import type { AdmitCommand, Admitted, Denied, FundsEstimate } from '../ledger.ts';
import type { Query, Sql } from './database.ts';
import type { Dictionary } from './dictionary.ts';
import { costOfTokens, type Fund, type Funds, leftOf, leftOfAll, payerOf, tokensFor } from './funds.ts';
import type { Holds } from './holds.ts';
import type { KeyFacts, KeyFinder } from './key-facts.ts';
import { tightestFirst, type Windows } from './windows.ts';

const minuteWaitMs = { min: 1000, max: 61_000 };

/** What was admitted under an id: live, or settled. */
interface Known {
  key_id: bigint;
  model_id: bigint;
  free: bigint;
  asked: bigint;
  admitted: bigint;
  admitted_tokens: bigint | null;
  expires_at_ms: bigint | null;
  admitted_at_ms: bigint;
}

/** What admissions stand on. */
export interface AdmissionParts {
  readonly sql: Sql;
  readonly keys: KeyFinder;
  readonly windows: Windows;
  readonly funds: Funds;
  readonly holds: Holds;
  readonly dictionary: Dictionary;
}

/**
 * Decides who may begin. Everything is checked in one fixed order before anything is written, so that a refusal consumes nothing: the
 * key, its models, the minute, the free windows, the day, the month, the money.
 */
export class Admissions {
  readonly #keys: KeyFinder;
  readonly #windows: Windows;
  readonly #funds: Funds;
  readonly #holds: Holds;
  readonly #dictionary: Dictionary;
  readonly #known: Query<[{ id: number }], Known>;

  constructor(parts: AdmissionParts) {
    this.#keys = parts.keys;
    this.#windows = parts.windows;
    this.#funds = parts.funds;
    this.#holds = parts.holds;
    this.#dictionary = parts.dictionary;
    const columns = 'key_id, model_id, free, asked, admitted, admitted_tokens, expires_at_ms';
    this.#known = parts.sql.prepare(
      `SELECT ${columns}, admitted_at_ms FROM hold WHERE id = @id
       UNION ALL SELECT ${columns}, created_at_ms FROM usage WHERE id = @id`,
    );
  }

  /** `fresh`: the id is above every stored one, so it can't be a repeat. */
  admit(command: AdmitCommand, fresh: boolean, nowMs: number): Admitted | Denied {
    const key = this.#keys.find(command.key);
    const known = fresh ? undefined : this.#known.get({ id: command.id });
    if (known !== undefined) return this.#again(command, key, known, nowMs);
    if (key === undefined || key.state === 'revoked') return this.#noKey(command);

    const windows = this.#windows.list(key, command.free, nowMs);
    const denied = (code: Denied['code']): Denied => ({ kind: 'denied', code, windows: tightestFirst(windows) });
    if (key.state === 'disabled') return denied('key_disabled');
    if (key.allowedModels?.includes(command.model) === false) return denied('model_not_allowed');
    for (const window of windows) if (window.remaining === 0) return windowDenial(window, windows, nowMs);
    const funds = this.#funds.of(key, payerOf(key), nowMs);
    if (command.funds === undefined) return this.#place(command, key, { funds, held: 0n, tokens: null }, nowMs);

    const least = leastOf(command.funds);
    // A request that costs next to nothing needs money all the same, and room under every cap.
    const short = funds.find(fund => leftOf(fund) < (least > 0n ? least : 1n));
    if (short !== undefined) return fundDenial(short, windows, nowMs);
    return this.#place(command, key, { funds, ...slice(command.funds, leftOfAll(funds)) }, nowMs);
  }

  #place(
    command: AdmitCommand,
    key: KeyFacts,
    grant: { funds: readonly Fund[]; held: bigint; tokens: number | null },
    nowMs: number,
  ): Admitted {
    const { funds, held, tokens } = grant;
    const outputPicoUsd = command.funds?.outputPicoUsd ?? 0n;
    this.#holds.place({
      id: command.id,
      requestId: command.requestId,
      accountId: key.accountId,
      keyId: key.id,
      modelId: this.#dictionary.model(command.model),
      free: command.free,
      payer: payerOf(key),
      admittedAtMs: nowMs,
      asked: askedOf(command.funds),
      held,
      tokens,
      outputPicoUsd,
      expiresAtMs: command.expiresAtMs ?? null,
    });
    this.#windows.count(key, command.free, held, nowMs);
    const left = leftOfAll(funds) - held;
    return {
      kind: 'admitted',
      id: command.id,
      accountId: key.accountId,
      keyId: key.id,
      heldNanoUsd: held,
      outputTokens: tokens ?? Number.POSITIVE_INFINITY,
      outputTokensAvailable: tokens === null ? Number.POSITIVE_INFINITY : tokensFor(left, tokens, outputPicoUsd),
      availableNanoUsd: left < 0n ? 0n : left,
      windows: tightestFirst(this.#windows.list(key, command.free, nowMs)),
      ...(command.expiresAtMs === undefined ? {} : { expiresAtMs: command.expiresAtMs }),
    };
  }

  /** The answer to a repeat: what was granted then, beside what is left now; `conflict` where the id was another request's. */
  #again(command: AdmitCommand, key: KeyFacts | undefined, known: Known, nowMs: number): Admitted | Denied {
    const same =
      key !== undefined &&
      known.key_id === BigInt(key.id) &&
      known.model_id === BigInt(this.#dictionary.model(command.model)) &&
      (known.free === 1n) === command.free &&
      (known.admitted_tokens === null) === (command.funds === undefined) &&
      known.asked === askedOf(command.funds);
    if (!same) return { kind: 'denied', code: 'conflict', windows: [] };
    const left = leftOfAll(this.#funds.of(key, payerOf(key), Number(known.admitted_at_ms)));
    const tokens = known.admitted_tokens === null ? Number.POSITIVE_INFINITY : Number(known.admitted_tokens);
    const price = command.funds?.outputPicoUsd ?? 0n;
    return {
      kind: 'admitted',
      id: command.id,
      accountId: key.accountId,
      keyId: key.id,
      heldNanoUsd: known.admitted,
      outputTokens: tokens,
      outputTokensAvailable: tokens === Number.POSITIVE_INFINITY ? tokens : tokensFor(left, tokens, price),
      availableNanoUsd: left,
      windows: tightestFirst(this.#windows.list(key, command.free, nowMs)),
      ...(known.expires_at_ms === null ? {} : { expiresAtMs: Number(known.expires_at_ms) }),
    };
  }

  /** A credential that is no living API key: a management key may not generate, anything else is unknown. */
  #noKey(command: AdmitCommand): Denied {
    const state = 'hash' in command.key ? this.#keys.managementKeyState(command.key.hash) : undefined;
    if (state === 'enabled') return { kind: 'denied', code: 'permission_denied', windows: [] };
    return { kind: 'denied', code: state === 'disabled' ? 'key_disabled' : 'invalid_api_key', windows: [] };
  }
}

/** What a request must be able to pay to be admitted. */
function leastOf(estimate: FundsEstimate): bigint {
  return estimate.inputNanoUsd + costOfTokens(estimate.outputTokensMin, estimate.outputPicoUsd);
}

/** The first slice of output that the funds pay, and what is held for it and the input. `left` pays the least at least. */
function slice(estimate: FundsEstimate, left: bigint): { held: bigint; tokens: number } {
  const { inputNanoUsd, outputPicoUsd, outputTokensMin, outputTokensWanted } = estimate;
  const paid = tokensFor(left - inputNanoUsd, 0, outputPicoUsd);
  const tokens = Math.max(outputTokensMin, Math.min(outputTokensWanted, paid));
  return { held: inputNanoUsd + costOfTokens(tokens, outputPicoUsd), tokens };
}

/** What was asked for, as one number that a repeat must match. */
function askedOf(estimate: FundsEstimate | undefined): bigint {
  if (estimate === undefined) return 0n;
  return estimate.inputNanoUsd + costOfTokens(estimate.outputTokensWanted, estimate.outputPicoUsd);
}

function windowDenial(window: WindowState, windows: readonly WindowState[], nowMs: number): Denied {
  const { limit, max, remaining, resetAtMs } = window;
  const minute = limit === 'minute_limit' || limit === 'free_minute';
  const waitMs = resetAtMs - nowMs;
  return {
    kind: 'denied',
    code: 'rate_limit',
    denial: { limit, unit: 'requests', used: max - remaining, max, resetAtMs },
    retryAfterMs: minute ? Math.min(Math.max(waitMs, minuteWaitMs.min), minuteWaitMs.max) : waitMs,
    windows: tightestFirst(windows),
  };
}

function fundDenial(fund: Fund, windows: readonly WindowState[], nowMs: number): Denied {
  const { limit, used, max, resetAtMs } = fund;
  const denial: DenialFacts = { limit, unit: 'nano_usd', used, max };
  return {
    kind: 'denied',
    code: limit === 'balance' ? 'insufficient_balance' : 'spending_limit',
    denial: resetAtMs === undefined ? denial : { ...denial, resetAtMs },
    ...(resetAtMs === undefined ? {} : { retryAfterMs: resetAtMs - nowMs }),
    windows: tightestFirst(windows),
  };
}
