import assert from 'node:assert/strict';
import type { DenialFacts, WindowState } from '../../errors/gateway-error.ts';
import { requestPart } from '../../lib/ids.ts';
import type { AdmitCommand, Admitted, Denied, FundsEstimate, KeyOwner } from '../ledger.ts';
import type { Counter, Hold, Key, Request, Rows } from '../rows.ts';
import { type Context } from './context.ts';
import { choosePayer, type Fund, leftOf } from './funds.ts';
import {
  costOfTokens,
  discounted,
  drawsOnMoney,
  type Extendable,
  type Grant,
  grantOf,
  type Sources,
  tokensLeft,
} from './grants.ts';
import { placeHold } from './holds.ts';
import { choosePayment, countSources, describeShortPlan, keepPayment, type Payment } from './payments.ts';
import { countRequest, findFullWindow, type FullWindow, listWindows, tightestFirst } from './windows.ts';

/** An admission whose key and model are known by their numbers. */
export interface AdmitOrder extends Omit<AdmitCommand, 'key' | 'durable'> {
  readonly owner: KeyOwner;
  readonly modelId: number;
}

const minuteWaitMs = { min: 1000, max: 61_000 };
/** Held for what costs nothing. */
const nothing: Grant = { held: 0n, tokens: null, planHeld: 0, planOutput: 0, firstSpent: false };

/**
 * Decides whether a request may begin. Everything is checked in one fixed order before anything is written, so that a refusal consumes nothing: the key,
 * its models, the minute, the free windows, the day, the month, the money. The same id again is answered as it was.
 */
export function admit(context: Context, order: AdmitOrder, nowMs: number): Admitted | Denied {
  const { rows } = context;
  const { owner, answers = 1 } = order;
  const found = rows.keys.get(owner.id);
  const key = owner.accountId === undefined || found?.accountId === owner.accountId ? found : undefined;
  const hold = rows.holds.get(order.id);
  const known = hold ?? rows.usage.get(order.id);
  if (known !== undefined)
    return admitAgain(context, order, { key, known, firstSpent: hold?.firstSpent === true }, nowMs);
  if (key === undefined || key.state === 'revoked') return { kind: 'denied', code: 'invalid_api_key', windows: [] };

  const windows = listWindows(context, key, order.free, nowMs);
  const denied = (code: Denied['code']): Denied => ({ kind: 'denied', code, windows: tightestFirst(windows) });
  if (key.state === 'disabled') return denied('key_disabled');
  if (key.allowedModels?.includes(order.model) === false) return denied('model_not_allowed');
  const full = findFullWindow(context, key, windows, { answers, nowMs });
  if (full !== undefined) return windowDenial(full, windows, nowMs);
  const payment = choosePayment(context, key, order, nowMs);
  if (payment === undefined) return denied('subscription_exhausted');
  const costsNothing = order.funds === undefined || payment.payers === 'free_request';
  const sources = countSources(payment);
  const grant = costsNothing ? nothing : grantOf(discounted(order.funds, payment.discountPermille), sources);
  if ('lacks' in grant) return refuse(context, { payment, lacks: grant.lacks }, windows, nowMs);

  const placed = makeHold(order, key, { payment, grant }, nowMs);
  countRequest(rows, key, order.free ? answers : 0, nowMs);
  placeHold(rows, placed);
  if (order.expiresAtMs === undefined) raiseCounter(rows, 'last_id', order.id);
  const { planTokens, nanoUsd } = sources;
  const left = { ...sources, planTokens: planTokens - grant.planHeld, nanoUsd: nanoUsd - grant.held };
  return answer(context, { request: placed, key, extendable: placed, left }, nowMs);
}

/** Raises a counter to a value, if it is lower. */
function raiseCounter(rows: Rows, name: Counter['name'], value: number): void {
  if ((rows.counters.get(name)?.value ?? 0) < value) rows.counters.put({ name, value });
}

/** Money is what is short where it pays at all: it is the payer that more can be added to. */
function refuse(
  context: Context,
  { payment, lacks }: { readonly payment: Payment; readonly lacks: bigint },
  windows: readonly WindowState[],
  nowMs: number,
): Denied {
  if (payment.period !== undefined && !drawsOnMoney(payment.payers)) {
    return fundDenial(describeShortPlan(context, payment.period), windows, nowMs);
  }
  const short = payment.funds.find(fund => leftOf(fund) < lacks);
  assert(short !== undefined, 'what lacks money has a fund that is short of it');
  return fundDenial(describeShortFund(short), windows, nowMs);
}

interface Placing {
  readonly payment: Payment;
  readonly grant: Grant;
}

function makeHold(order: AdmitOrder, key: Key, { payment, grant }: Placing, nowMs: number): Hold {
  const { id, requestId, modelId, free, answers = 1, funds, expiresAtMs } = order;
  const { payers, period, discountPermille } = payment;
  const asked = askedAmount(funds);
  assert(asked >= 0n && grant.held >= 0n, 'amounts are not negative');
  return {
    id,
    request: requestPart(id, requestId),
    accountId: key.accountId,
    keyId: key.id,
    modelId,
    free,
    answers,
    payer: choosePayer(key),
    payers,
    period: period?.number ?? null,
    discountPermille,
    admittedAtMs: nowMs,
    asked,
    admitted: grant.held,
    admittedTokens: grant.tokens,
    expiresAtMs: expiresAtMs ?? null,
    held: grant.held,
    tokens: grant.tokens,
    outputPicoUsd: outputPrice(funds, discountPermille),
    planHeld: grant.planHeld,
    planOutput: grant.planOutput,
    firstSpent: grant.firstSpent,
    extension: null,
    extendedTokens: null,
  };
}

interface Known {
  readonly key: Key | undefined;
  readonly known: Request;
  readonly firstSpent: boolean;
}

/** The answer to a repeat: what was granted then, beside what is left now; `conflict` where the id was another request's. */
function admitAgain(
  context: Context,
  order: AdmitOrder,
  { key, known, firstSpent }: Known,
  nowMs: number,
): Admitted | Denied {
  const costsNothing = known.admittedTokens === null && known.payers !== 'free_request';
  const same =
    key !== undefined &&
    known.keyId === key.id &&
    known.modelId === order.modelId &&
    known.free === order.free &&
    known.answers === (order.answers ?? 1) &&
    costsNothing === (order.funds === undefined) &&
    known.asked === askedAmount(order.funds);
  if (!same) return { kind: 'denied', code: 'conflict', windows: [] };
  const { payers, admittedTokens: tokens, discountPermille } = known;
  const outputPicoUsd = outputPrice(order.funds, discountPermille);
  const extendable = { ...nothing, payers, tokens, firstSpent, outputPicoUsd };
  const left = countSources(keepPayment(context, key, known));
  return answer(context, { request: known, key, extendable, left }, nowMs);
}

interface Answered {
  readonly request: Request;
  readonly key: Key;
  readonly extendable: Extendable;
  readonly left: Sources;
}

function answer(context: Context, { request, key, extendable, left }: Answered, nowMs: number): Admitted {
  const { id, accountId, keyId, admitted, admittedTokens, expiresAtMs } = request;
  return {
    kind: 'admitted',
    id,
    accountId,
    keyId,
    heldNanoUsd: admitted,
    outputTokens: admittedTokens ?? Number.POSITIVE_INFINITY,
    outputTokensAvailable: tokensLeft(extendable, left),
    availableNanoUsd: left.nanoUsd,
    windows: tightestFirst(listWindows(context, key, request.free, nowMs)),
    ...(expiresAtMs === null ? {} : { expiresAtMs }),
  };
}

/** What an output token is held for. */
function outputPrice(estimate: FundsEstimate | undefined, discountPermille: number): bigint {
  return estimate === undefined ? 0n : discounted(estimate, discountPermille).outputPicoUsd;
}

/** What was asked for, as one number that a repeat must match. */
function askedAmount(estimate: FundsEstimate | undefined): bigint {
  if (estimate === undefined) return 0n;
  return estimate.inputNanoUsd + costOfTokens(estimate.outputTokensWanted, estimate.outputPicoUsd);
}

function windowDenial(full: FullWindow, windows: readonly WindowState[], nowMs: number): Denied {
  const { limit, max, remaining, count, roomAtMs } = full;
  const minute = limit === 'minute_limit' || limit === 'free_minute';
  const denial = { limit, unit: 'requests', used: max - remaining, max } as const;
  const refused = {
    kind: 'denied',
    code: 'rate_limit',
    ...(count === 1 ? {} : { answers: count }),
    windows: tightestFirst(windows),
  } as const;
  if (roomAtMs === undefined) return { ...refused, denial };
  const waitMs = roomAtMs - nowMs;
  return {
    ...refused,
    denial: { ...denial, resetAtMs: roomAtMs },
    retryAfterMs: minute ? Math.min(Math.max(waitMs, minuteWaitMs.min), minuteWaitMs.max) : waitMs,
  };
}

function describeShortFund({ limit, used, max, resetAtMs }: Fund): DenialFacts {
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
