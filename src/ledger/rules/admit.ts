import assert from 'node:assert/strict';
import type { DenialFacts, WindowState } from '../../errors/gateway-error.ts';
import { requestPart } from '../../lib/ids.ts';
import type {
  AdmissionPreview,
  AdmitCommand,
  Admitted,
  Denied,
  FundsEstimate,
  KeyOwner,
  NextPayer,
} from '../ledger.ts';
import type { Counter, Hold, Key, Request, Rows } from '../rows.ts';
import { type Context, findOwner } from './context.ts';
import { choosePayer, findPayer, type Fund, amountLeft, listFunds } from './funds.ts';
import {
  priceTokens,
  discounted,
  drawsOnMoney,
  type Extendable,
  type Grant,
  computeGrant,
  type Sources,
  tokensLeft,
} from './grants.ts';
import { mergeTags, pathFrom } from './groups.ts';
import { countRequest, hasExpired, placeHold } from './holds.ts';
import { bindLimits, bindRequest } from './bind-limits.ts';
import { listEach } from './joint-limits.ts';
import type { BoundLimit } from './limits.ts';
import { choosePayment, countSources, describeShortPlan, keepPayment, type Payment } from './payments.ts';
import { sliceSize } from './slices.ts';
import { findRefusal, listWindows, sortByOrder, tokenRoom } from './windows.ts';

/** An admission whose key, model and end user are given by their ids. */
export interface ResolvedAdmit extends Omit<AdmitCommand, 'key' | 'durable' | 'endUser' | 'endpoint' | 'batchId'> {
  readonly owner: KeyOwner;
  readonly modelId: number;
  readonly endUserId: number | null;
  readonly batchId: number | null;
  readonly endpointId: number;
}

/** The grant for a request that costs nothing. */
const nothing: Grant = { held: 0n, tokens: null, planHeld: 0, planOutput: 0, firstSpent: false };

/**
 * Decides whether a request may begin, and places its hold. Checks the key, its models, the limits except those of money, and then the money,
 * always in this order. Writes nothing before all checks have passed, so a refused request is not counted. A repeated id gets the first reply.
 */
export function admit(context: Context, admission: ResolvedAdmit, nowMs: number): Admitted | Denied {
  const { rows } = context;
  const { owner } = admission;
  const found = rows.keys.get(owner.id);
  const key = owner.accountId === undefined || found?.accountId === owner.accountId ? found : undefined;
  const hold = rows.holds.get(admission.id);
  const known = hold ?? rows.usage.get(admission.id);
  if (known !== undefined)
    return admitAgain(context, admission, { key, known, firstSpent: hold?.firstSpent === true }, nowMs);
  if (key === undefined || key.state === 'revoked' || hasExpired(key, nowMs)) {
    return { kind: 'denied', code: 'invalid_api_key', windows: [] };
  }

  const decision = decide(context, admission, key, nowMs);
  if ('kind' in decision) return decision;
  const { admissible, payment, grant } = decision;
  const placed = makeHold(rows, admissible, { payment, grant }, nowMs);
  countRequest(rows, key.id, nowMs);
  placeHold(rows, placed, admissible.bound, nowMs);
  if (admission.expiresAtMs === undefined) raiseCounter(rows, 'last_id', admission.id);
  const sources = countSources(payment);
  const { planTokens, nanoUsd } = sources;
  const left = { ...sources, planTokens: planTokens - grant.planHeld, nanoUsd: nanoUsd - grant.held };
  return answer({ request: placed, extendable: placed, left, bound: admissible.bound }, nowMs);
}

interface Decision extends Paid {
  readonly grant: Grant;
}

/** Returns who pays for a new request of a valid key, and how much is held; or why the request is refused. Writes nothing. */
function decide(context: Context, admission: ResolvedAdmit, key: Key, nowMs: number): Decision | Denied {
  const { rows } = context;
  const admissible = toAdmissible(rows, admission, key, nowMs);
  const { bound, groups } = admissible;
  const windows = (): WindowState[] => listWindows(bound, groups, nowMs);
  const denied = (code: Denied['code']): Denied => ({ kind: 'denied', code, windows: windows() });
  if (key.state === 'disabled' || key.paused) return denied('key_disabled');
  if (findOwner(rows, key).suspended !== null) return denied('account_suspended');
  if (key.allowedModels?.includes(admission.model) === false) return denied('model_not_allowed');
  const refusal = findRefusal(bound, admissible, nowMs);
  if (refusal !== undefined) return { kind: 'denied', ...refusal, windows: windows() };
  const payment = choosePayment(context, key, admissible, nowMs);
  if (payment === undefined) return denied('subscription_exhausted');
  const grant = chooseGrant(rows, { admissible, payment }, nowMs);
  if ('lacks' in grant) return refuse(context, { admissible, payment, lacks: grant.lacks, windows: windows() }, nowMs);
  return { admissible, payment, grant };
}

/** Returns what an admission would decide now, and writes nothing. Returns undefined if there is no such key. */
export function previewAdmission(
  context: Context,
  admission: ResolvedAdmit,
  nowMs: number,
): AdmissionPreview | undefined {
  const { rows } = context;
  const key = rows.keys.get(admission.owner.id);
  if (key === undefined || key.state === 'revoked') return undefined;
  const admissible = toAdmissible(rows, admission, key, nowMs);
  const { bound, groups } = admissible;
  const decision: Decision | Denied = hasExpired(key, nowMs)
    ? { kind: 'denied', code: 'invalid_api_key', windows: [] }
    : decide(context, admission, key, nowMs);
  const payment = choosePayment(context, key, admissible, nowMs);
  const limits = sortByOrder(listEach(bound), groups).map(({ limit }) => limit);
  return {
    // Money is checked last.
    limitIds: [...limits.filter(({ unit }) => unit !== 'usd'), ...limits.filter(({ unit }) => unit === 'usd')].map(
      ({ id }) => id,
    ),
    payers: payment === undefined ? [] : listPayers(rows, admissible, payment),
    ...('kind' in decision
      ? { denied: decision, heldNanoUsd: 0n, outputTokens: 0 }
      : { heldNanoUsd: decision.grant.held, outputTokens: decision.grant.tokens }),
  };
}

/** Returns who would pay, in the order in which they pay. */
function listPayers(rows: Rows, { key, groups, funds }: AdmissibleRequest, { payers, period }: Payment): NextPayer[] {
  if (funds === undefined) return [{ payer: 'free' }];
  if (payers === 'free_request') return [{ payer: 'free' }];
  const payerFields = choosePayer(rows, key, groups);
  const { balance, held } = findPayer(rows, key, payerFields);
  const money: NextPayer = {
    payer: payerFields.payer,
    leftNanoUsd: (balance ?? 0n) - held,
    ...(payerFields.payerGroup !== null && { groupId: payerFields.payerGroup }),
  };
  if (period === undefined) return [money];
  const plan: NextPayer = {
    payer: 'subscription',
    leftTokens: period.tokens - period.used - period.held,
    resetsAtMs: period.endMs,
  };
  if (payers === 'plan') return [plan];
  return payers === 'plan_money' ? [plan, money] : [money, plan];
}

/** A request whose key allows it, with the limits that apply to it. */
interface AdmissibleRequest {
  readonly admission: ResolvedAdmit;
  readonly key: Key;
  readonly model: string;
  readonly funds: FundsEstimate | undefined;
  /** How many requests it counts as if the model is free or a free daily request pays. */
  readonly requests: number;
  readonly groups: readonly number[];
  readonly bound: readonly BoundLimit[];
  readonly need: { readonly requests: bigint; readonly tokens: bigint };
}

function toAdmissible(rows: Rows, admission: ResolvedAdmit, key: Key, nowMs: number): AdmissibleRequest {
  const { model, funds, endUserId, text, requests = 1 } = admission;
  const groups = pathFrom(rows, key.groupId);
  const request = { accountId: key.accountId, keyId: key.id, model, endUserId, groups, admittedAtMs: nowMs };
  const tokens = text === undefined ? 0 : text.inputTokens + text.outputTokensMin;
  const need = { requests: BigInt(admission.free ? requests : 1), tokens: BigInt(tokens) };
  return { admission, key, model, funds, requests, groups, bound: bindLimits(rows, request, nowMs), need };
}

interface Paid {
  readonly admissible: AdmissibleRequest;
  readonly payment: Payment;
}

/**
 * Returns the first hold, which leaves room for the other running requests, or how much money is missing. The payers and the token
 * limits bound the hold.
 */
function chooseGrant(rows: Rows, { admissible, payment }: Paid, nowMs: number): Grant | { readonly lacks: bigint } {
  const { admission, key, bound } = admissible;
  const { funds, text } = admission;
  const room = text === undefined ? Number.POSITIVE_INFINITY : tokenRoom(bound, nowMs, nowMs) - text.inputTokens;
  const { running } = findPayer(rows, key, choosePayer(rows, key, admissible.groups));
  if (funds === undefined || payment.payers === 'free_request') {
    if (text === undefined || room === Number.POSITIVE_INFINITY) return nothing;
    const slice = sliceSize(text.outputTokensWanted, { most: room, input: text.inputTokens, running });
    return { ...nothing, tokens: Math.max(slice, text.outputTokensMin) };
  }
  const estimate = discounted(funds, payment.discountPermille);
  const sources = countSources(payment);
  const whole = computeGrant({ ...estimate, outputTokensWanted: Math.min(estimate.outputTokensWanted, room) }, sources);
  if ('lacks' in whole) return whole;
  const { planTokens, nanoUsd } = sources;
  const left = { ...sources, planTokens: planTokens - whole.planHeld, nanoUsd: nanoUsd - whole.held };
  const { payers } = payment;
  const rest = tokensLeft({ ...whole, payers, outputPicoUsd: estimate.outputPicoUsd }, left);
  const tokens = whole.tokens ?? 0;
  const ofFunds = sliceSize(tokens, { most: tokens + rest, input: inputAsOutput(estimate, payment), running });
  const ofRoom = sliceSize(tokens, { most: room, input: text?.inputTokens ?? 0, running });
  const slice = Math.max(Math.min(ofFunds, ofRoom), estimate.outputTokensMin);
  return slice < tokens ? computeGrant({ ...estimate, outputTokensWanted: slice }, sources) : whole;
}

/** Returns how many output tokens cost as much as the input, for the payer that pays first. */
function inputAsOutput({ inputTokens, inputNanoUsd, outputPicoUsd }: FundsEstimate, { payers }: Payment): number {
  if (payers !== 'money') return inputTokens;
  return outputPicoUsd === 0n ? 0 : Number((inputNanoUsd * 1000n) / outputPicoUsd);
}

/** Sets a counter to `value` if it is lower. */
function raiseCounter(rows: Rows, name: Counter['name'], value: number): void {
  if ((rows.counters.get(name)?.value ?? 0) < value) rows.counters.put({ name, value });
}

interface Refusal extends Paid {
  readonly lacks: bigint;
  readonly windows: readonly WindowState[];
}

/** Returns the denial for a request that its payers can't pay for. If money may pay, it says that money is short, because the balance can be topped up. */
function refuse(context: Context, { admissible, payment, lacks, windows }: Refusal, nowMs: number): Denied {
  if (payment.period !== undefined && !drawsOnMoney(payment.payers)) {
    return fundDenial(describeShortPlan(context, payment.period), windows, nowMs);
  }
  const { key, groups, bound } = admissible;
  const payerFields = choosePayer(context.rows, key, groups);
  const paying = { payerFields, groups, bound: listEach(bound), admittedAtMs: nowMs };
  const funds = listFunds(context.rows, key, paying, nowMs);
  const short = funds.find(fund => amountLeft(fund) < lacks);
  assert(short !== undefined, 'if money is missing, one of the funds is short');
  const denied = fundDenial(describeShortFund(short), windows, nowMs);
  return short.limit === 'balance' ? { ...denied, neededNanoUsd: lacks } : denied;
}

interface Placing {
  readonly payment: Payment;
  readonly grant: Grant;
}

function makeHold(
  rows: Rows,
  { admission, key, groups, requests }: AdmissibleRequest,
  { payment, grant }: Placing,
  nowMs: number,
): Hold {
  const { id, requestId, modelId, free, funds, text, expiresAtMs, endUserId } = admission;
  const { payers, period, discountPermille } = payment;
  const requested = requestedAmount(funds);
  assert(requested >= 0n && grant.held >= 0n, 'amounts are not negative');
  return {
    id,
    request: requestPart(id, requestId),
    accountId: key.accountId,
    keyId: key.id,
    modelId,
    free,
    text: text !== undefined,
    requests: free || payers === 'free_request' ? requests : 1,
    endUserId,
    groups,
    tagsId: rows.tagsNumber(mergeTags(rows, key, groups, admission.tags)),
    endpointId: admission.endpointId,
    batchId: admission.batchId,
    ...choosePayer(rows, key, groups),
    payers,
    period: period?.number ?? null,
    discountPermille,
    admittedAtMs: nowMs,
    requested,
    admitted: grant.held,
    admittedTokens: grant.tokens,
    expiresAtMs: expiresAtMs ?? null,
    held: grant.held,
    inputTokens: text?.inputTokens ?? 0,
    tokens: grant.tokens,
    outputPicoUsd: outputPrice(funds, payment),
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

/** Returns the reply to a repeated admission: the original grant, and what is left now, at the repeat's price of output, as only the amount of the first is kept. A `conflict` if the id belongs to another request. */
function admitAgain(
  context: Context,
  admission: ResolvedAdmit,
  { key, known, firstSpent }: Known,
  nowMs: number,
): Admitted | Denied {
  assert(!isOther(known, admission), 'two requests have one id');
  const same =
    key !== undefined &&
    known.keyId === key.id &&
    known.modelId === admission.modelId &&
    known.free === admission.free &&
    known.requested === requestedAmount(admission.funds);
  if (!same) return { kind: 'denied', code: 'conflict', windows: [] };
  const { payers, admittedTokens: tokens } = known;
  const extendable = { ...nothing, payers, tokens, firstSpent, outputPicoUsd: outputPrice(admission.funds, known) };
  const bound = bindRequest(context.rows, known, nowMs);
  const left = countSources(keepPayment(context, key, { request: known, bound }, nowMs));
  const now = bindRequest(context.rows, { ...known, admittedAtMs: nowMs }, nowMs);
  return {
    ...answer({ request: known, extendable, left, bound }, nowMs),
    windows: listWindows(now, known.groups, nowMs),
  };
}

/**
 * Returns true if a known request of the gateway is not the one to be admitted: their random parts differ. Requests of other services are not
 * compared, because a repeat gets a new random part.
 */
function isOther({ request, expiresAtMs }: Request, admission: ResolvedAdmit): boolean {
  const part = requestPart(admission.id, admission.requestId);
  if (expiresAtMs !== null || admission.expiresAtMs !== undefined) return false;
  return typeof request === 'bigint' && typeof part === 'bigint' && request !== part;
}

interface Answered {
  readonly request: Request;
  readonly extendable: Extendable;
  readonly left: Sources;
  readonly bound: readonly BoundLimit[];
}

function answer({ request, extendable, left, bound }: Answered, nowMs: number): Admitted {
  const { id, accountId, keyId, admitted, admittedTokens, admittedAtMs, expiresAtMs } = request;
  const room = request.text ? tokenRoom(bound, admittedAtMs, nowMs) : Number.POSITIVE_INFINITY;
  return {
    kind: 'admitted',
    id,
    accountId,
    keyId,
    heldNanoUsd: admitted,
    outputTokens: admittedTokens ?? Number.POSITIVE_INFINITY,
    outputTokensAvailable:
      extendable.tokens === null ? Number.POSITIVE_INFINITY : Math.min(tokensLeft(extendable, left), room),
    availableNanoUsd: left.nanoUsd,
    windows: listWindows(bound, request.groups, nowMs),
    ...(expiresAtMs === null ? {} : { expiresAtMs }),
  };
}

/** Returns the price of a held output token. */
function outputPrice(
  estimate: FundsEstimate | undefined,
  { payers, discountPermille }: Pick<Request, 'payers' | 'discountPermille'>,
): bigint {
  if (estimate === undefined || payers === 'free_request') return 0n;
  return discounted(estimate, discountPermille).outputPicoUsd;
}

/** Returns the requested amount as one number: a repeated admission must have the same. */
function requestedAmount(estimate: FundsEstimate | undefined): bigint {
  if (estimate === undefined) return 0n;
  const { inputNanoUsd, toolsNanoUsd = 0n, outputTokensWanted, outputPicoUsd } = estimate;
  return inputNanoUsd + toolsNanoUsd + priceTokens(outputTokensWanted, outputPicoUsd);
}

function describeShortFund({ limit, row, used, max, resetAtMs }: Fund): DenialFacts {
  return {
    limit,
    unit: 'nano_usd',
    used,
    max,
    ...(row === undefined ? {} : { row }),
    ...(resetAtMs === undefined ? {} : { resetAtMs }),
  };
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
    windows,
  };
}
