import assert from 'node:assert/strict';
import type { DenialFacts, WindowState } from '../../errors/gateway-error.ts';
import type { AdmitCommand, Admitted, Denied, FundsEstimate } from '../ledger.ts';
import type { Query, Sql } from '../../lib/sqlite/database.ts';
import type { Dictionary } from '../sqlite/dictionary.ts';
import { type Fund, leftOf, type Payer, payerOf } from './funds.ts';
import {
  costOfTokens,
  discounted,
  drawsOnMoney,
  type Extendable,
  type Grant,
  grantOf,
  type Payers,
  tokensLeft,
} from './grants.ts';
import type { Holds, NewHold } from './holds.ts';
import type { KeyFacts, KeyFinder } from './key-facts.ts';
import { type Paying, type Payment, type Payments, sourcesOf } from './payments.ts';
import type { Plans } from './plans.ts';
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
  payers: Payers;
  payer: Payer;
  period_id: bigint | null;
  discount_permille: bigint;
  first_spent: bigint;
  admitted_at_ms: bigint;
}

/** What admissions stand on. */
export interface AdmissionParts {
  readonly sql: Sql;
  readonly keys: KeyFinder;
  readonly windows: Windows;
  readonly payments: Payments;
  readonly plans: Plans;
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
  readonly #payments: Payments;
  readonly #plans: Plans;
  readonly #holds: Holds;
  readonly #dictionary: Dictionary;
  readonly #known: Query<[{ id: number }], Known>;

  constructor(parts: AdmissionParts) {
    this.#keys = parts.keys;
    this.#windows = parts.windows;
    this.#payments = parts.payments;
    this.#plans = parts.plans;
    this.#holds = parts.holds;
    this.#dictionary = parts.dictionary;
    const columns = `key_id, model_id, free, asked, admitted, admitted_tokens, expires_at_ms, payers, payer, period_id,
      discount_permille`;
    this.#known = parts.sql.prepare(
      `SELECT ${columns}, first_spent, admitted_at_ms FROM hold WHERE id = @id
       UNION ALL SELECT ${columns}, 0, created_at_ms FROM usage WHERE id = @id`,
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
    const payment = this.#payments.of(key, command, nowMs);
    if (payment === undefined) return denied('subscription_exhausted');
    if (command.funds === undefined || payment.payers === 'free_request') {
      return this.#place(command, key, { payment, grant: nothing }, nowMs);
    }
    const grant = grantOf(discounted(command.funds, payment.discountPermille), sourcesOf(payment));
    if ('lacks' in grant) return this.#refuse(payment, grant.lacks, windows, nowMs);
    return this.#place(command, key, { payment, grant }, nowMs);
  }

  /** Money is what is short where it pays at all: it is the payer that more can be added to. */
  #refuse(payment: Payment, lacks: bigint, windows: readonly WindowState[], nowMs: number): Denied {
    if (payment.period !== undefined && !drawsOnMoney(payment.payers)) {
      return fundDenial(this.#plans.denial(payment.period), windows, nowMs);
    }
    const short = payment.funds.find(fund => leftOf(fund) < lacks);
    assert(short !== undefined, 'what lacks money has a fund that is short of it');
    return fundDenial(denialOf(short), windows, nowMs);
  }

  #place(command: AdmitCommand, key: KeyFacts, { payment, grant }: Placing, nowMs: number): Admitted {
    const { payers, period, discountPermille } = payment;
    const hold: NewHold = {
      ...grant,
      id: command.id,
      requestId: command.requestId,
      accountId: key.accountId,
      keyId: key.id,
      modelId: this.#dictionary.model(command.model),
      free: command.free,
      payer: payerOf(key),
      payers,
      periodId: period?.id ?? null,
      discountPermille,
      admittedAtMs: nowMs,
      asked: askedOf(command.funds),
      outputPicoUsd: outputPriceOf(command.funds, discountPermille),
      expiresAtMs: command.expiresAtMs ?? null,
    };
    this.#holds.place(hold);
    this.#windows.count(key, command.free, grant.held, nowMs);
    const before = sourcesOf(payment);
    const left = { ...before, planTokens: before.planTokens - grant.planHeld, nanoUsd: before.nanoUsd - grant.held };
    return {
      kind: 'admitted',
      id: command.id,
      accountId: key.accountId,
      keyId: key.id,
      heldNanoUsd: grant.held,
      outputTokens: grant.tokens ?? Number.POSITIVE_INFINITY,
      outputTokensAvailable: tokensLeft(hold, left),
      availableNanoUsd: left.nanoUsd,
      windows: tightestFirst(this.#windows.list(key, command.free, nowMs)),
      ...(command.expiresAtMs === undefined ? {} : { expiresAtMs: command.expiresAtMs }),
    };
  }

  /** The answer to a repeat: what was granted then, beside what is left now; `conflict` where the id was another request's. */
  #again(command: AdmitCommand, key: KeyFacts | undefined, known: Known, nowMs: number): Admitted | Denied {
    const costsNothing = known.admitted_tokens === null && known.payers !== 'free_request';
    const same =
      key !== undefined &&
      known.key_id === BigInt(key.id) &&
      known.model_id === BigInt(this.#dictionary.model(command.model)) &&
      (known.free === 1n) === command.free &&
      costsNothing === (command.funds === undefined) &&
      known.asked === askedOf(command.funds);
    if (!same) return { kind: 'denied', code: 'conflict', windows: [] };
    const paying = payingOf(known);
    const left = sourcesOf(this.#payments.again(key, paying));
    const tokens = known.admitted_tokens === null ? null : Number(known.admitted_tokens);
    const hold: Extendable = {
      ...nothing,
      payers: paying.payers,
      tokens,
      firstSpent: known.first_spent === 1n,
      outputPicoUsd: outputPriceOf(command.funds, paying.discountPermille),
    };
    return {
      kind: 'admitted',
      id: command.id,
      accountId: key.accountId,
      keyId: key.id,
      heldNanoUsd: known.admitted,
      outputTokens: tokens ?? Number.POSITIVE_INFINITY,
      outputTokensAvailable: tokensLeft(hold, left),
      availableNanoUsd: left.nanoUsd,
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

interface Placing {
  readonly payment: Payment;
  readonly grant: Grant;
}

/** Held for what costs nothing. */
const nothing: Grant = { held: 0n, tokens: null, planHeld: 0, planOutput: 0, firstSpent: false };

function payingOf(known: Known): Paying {
  return {
    payers: known.payers,
    payer: known.payer,
    periodId: known.period_id === null ? null : Number(known.period_id),
    admittedAtMs: Number(known.admitted_at_ms),
    discountPermille: Number(known.discount_permille),
  };
}

/** What an output token is held for. */
function outputPriceOf(estimate: FundsEstimate | undefined, discountPermille: number): bigint {
  return estimate === undefined ? 0n : discounted(estimate, discountPermille).outputPicoUsd;
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

function denialOf({ limit, used, max, resetAtMs }: Fund): DenialFacts {
  return { limit, unit: 'nano_usd', used, max, ...(resetAtMs === undefined ? {} : { resetAtMs }) };
}

const fundCodes: Partial<Record<DenialFacts['limit'], Denied['code']>> = {
  balance: 'insufficient_balance',
  subscription: 'subscription_exhausted',
};

function fundDenial(denial: DenialFacts, windows: readonly WindowState[], nowMs: number): Denied {
  const { limit, resetAtMs } = denial;
  return {
    kind: 'denied',
    code: fundCodes[limit] ?? 'spending_limit',
    denial,
    ...(resetAtMs === undefined ? {} : { retryAfterMs: resetAtMs - nowMs }),
    windows: tightestFirst(windows),
  };
}
