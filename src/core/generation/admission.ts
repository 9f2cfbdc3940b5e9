import { GatewayError } from '../../errors/gateway-error.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { isImageEndpoint, endpointPath } from '../../generation/endpoints.ts';
import { isoTime } from '../../lib/clock.ts';
import { dollarsText } from '../../lib/dollars.ts';
import { defined } from '../../lib/defined.ts';
import type { AdmitCommand, Denied, Ledger } from '../../ledger/ledger.ts';
import { readAttribution } from '../attribution.ts';
import { type BatchTerms, estimateFunds, estimateText, type MeasuredInput } from './funds.ts';

/** A checked request, before it is admitted. */
export interface AdmissionRequest {
  readonly id: number;
  readonly requestId: string;
  readonly keyId: number;
  readonly accountId: number;
  readonly request: GenerateRequest;
  readonly model: Model;
  /** The name of the service tier. */
  readonly tier: string;
  readonly measured: MeasuredInput;
  /** The batch that the request is an item of; undefined: none. */
  readonly batch?: AppliedBatch | undefined;
  /** True if the admission must be durable before it is reported, because the client learns of it before the request ends. */
  readonly durable?: boolean | undefined;
}

/** A batch, and the terms of its items. */
export interface AppliedBatch extends BatchTerms {
  readonly id: string;
}

/** Returns the ledger's command that admits a request. Nothing may be sent upstream before it. */
export function toAdmitCommand(admission: AdmissionRequest): AdmitCommand {
  const { id, requestId, keyId, accountId, request, model, tier, measured, durable, batch } = admission;
  return {
    id,
    requestId,
    key: { id: keyId, accountId },
    model: model.id,
    free: isFree(model.id),
    funds: estimateFunds(request, model, batch ?? tier, measured),
    text: estimateText(request, model, measured),
    requests: request.candidates ?? 1,
    endpoint: endpointPath(request.endpoint),
    ...readAttribution(request.attribution, request.safetyIdentifier, request.user),
    ...(durable === true ? { durable } : {}),
    ...(batch === undefined ? {} : { batchId: batch.id }),
  };
}

/** How much more a request's estimate may need than there is, so that an exact count may still fit. The quick estimate is at most about three times the count. */
const estimateMost = 3;

/** Returns whether a request that was denied for funds or a limit of tokens may fit if its input is counted exactly. */
export function mayFit({ denial }: Denied, { request, model, tier, measured, batch }: AdmissionRequest): boolean {
  if (denial === undefined) return false;
  const left = (Number(denial.max) - Number(denial.used)) * estimateMost;
  if (denial.unit === 'tokens') return left >= measured.inputTokens * measured.calls;
  const funds = estimateFunds(request, model, batch ?? tier, measured);
  return denial.unit === 'nano_usd' && funds !== undefined && left >= Number(funds.inputNanoUsd);
}

/** Returns true if a model is free: its id ends in `:free`. */
export function isFree(modelId: string): boolean {
  return modelId.endsWith(':free');
}

/** A request that the ledger has denied. */
export interface DeniedRequest extends Pick<AdmissionRequest, 'model' | 'accountId' | 'keyId'> {
  /** True if the key has its own balance, and therefore does not spend from the account. */
  readonly hasOwnBalance: boolean;
}

/**
 * Returns the client's error for a denied request. Reads the key only if the error depends on whether the key has its own balance.
 */
export async function refusal(
  ledger: Pick<Ledger, 'findKey'>,
  denied: Denied,
  admission: Omit<DeniedRequest, 'hasOwnBalance'>,
): Promise<GatewayError> {
  const { code } = denied;
  const key = code === 'insufficient_balance' ? await ledger.findKey(admission.keyId, undefined) : undefined;
  return deniedError(denied, { ...admission, hasOwnBalance: typeof key?.balance === 'bigint' });
}

/** Converts a denial to the client's error. */
export function deniedError(denied: Denied, admission: DeniedRequest): GatewayError {
  const { code, denial, retryAfterMs, windows } = denied;
  return new GatewayError(code, deniedMessage(denied, admission.model.id), {
    limits: windows,
    ...defined({ denial, retryAfterMs, tip: chooseTip(denied, admission) }),
    ...mayRetry(denial),
    ...(code === 'model_not_allowed' ? { param: 'model' } : {}),
  });
}

/** Returns the error for a key whose limits allow no request at all at the moment. */
export function limitsExhausted({ code, denial, retryAfterMs, windows }: Denied, keyId: number): GatewayError {
  const message = denial === undefined ? 'The request is over a limit.' : limitMessage(denial);
  const tip = denial === undefined ? undefined : limitTip(denial, keyId);
  return new GatewayError(code, message, {
    limits: windows,
    ...defined({ denial, retryAfterMs, tip }),
    ...mayRetry(denial),
  });
}

/** Marks denials that a client may retry automatically, because it only has to wait for a minute window or a slot. */
function mayRetry(denial: Denial | undefined): { readonly retry?: true } {
  return denial?.row?.window === 'minute' || denial?.unit === 'concurrent' ? { retry: true } : {};
}

/** Returns a tip for this denial; undefined if the tip of its error code is good enough. */
function chooseTip({ code, denial }: Denied, admission: DeniedRequest): string | undefined {
  const { model, accountId, keyId } = admission;
  if (code === 'insufficient_balance') {
    const credit = `npx tollgate credits add ${accountId} DOLLARS`;
    return admission.hasOwnBalance
      ? `This key has its own balance: raise it, or set it to null to spend from the account, with PATCH /v1/account/keys/${keyId} {"balance": DOLLARS}. If the account has too little: ${credit}.`
      : `Ask the operator to add credit: ${credit}.`;
  }
  if (code === 'subscription_exhausted' && denial === undefined) {
    const payg = `PATCH /v1/account/keys/${keyId} {"fallback_to_payg": true}`;
    const plan = `npx tollgate subscriptions start ${accountId} --plan core|core_pro --period biweekly|monthly`;
    return model.endpoints.some(isImageEndpoint)
      ? `Let the key pay as it goes, because no plan pays for images: ${payg}.`
      : `Let the key pay as it goes: ${payg}. Or ask the operator for a plan: ${plan}.`;
  }
  return denial === undefined ? undefined : limitTip(denial, keyId);
}

/** Returns a tip for the limit that was reached. */
function limitTip(denial: Denial, keyId: number): string | undefined {
  switch (denial.limit) {
    case 'monthly_limit':
      return `Wait for the next month, or ask the operator to raise the limit: npx tollgate keys monthly-limit ${keyId} DOLLARS|none.`;
    case 'minute_limit':
    case 'daily_limit':
      return `Wait for the time in \`retry-after\`, or raise the limit: PATCH /v1/account/keys/${keyId} {"${denial.limit}": N}.`;
    case 'free_minute':
    case 'free_day':
      return 'Wait for the time in `retry-after`, or use the model without `:free`: this limit can’t be raised.';
    case 'limit':
      return `Wait until it resets, or raise the limit: PATCH /v1/account/limits/${denial.row?.id ?? ''} {"max": N}. Only the operator can raise a locked one.`;
    default:
      return undefined;
  }
}

function deniedMessage({ code, denial, neededNanoUsd }: Denied, modelId: string): string {
  const messages: Partial<Record<Denied['code'], string>> = {
    invalid_api_key: 'The key is not valid: it is unknown, revoked, deleted or expired.',
    key_disabled: 'The key is disabled.',
    account_suspended: 'The account is suspended.',
    permission_denied: 'This key may not generate: use an API key (sk-tg-…).',
    model_not_allowed: `This key may not use ${modelId}.`,
    conflict: 'A request with this id was already made.',
  };
  const message = messages[code];
  if (message !== undefined) return message;
  if (denial !== undefined) return limitMessage(denial, neededNanoUsd);
  return code === 'subscription_exhausted'
    ? `No subscription pays for ${modelId}, and this key does not fall back to pay-as-you-go.`
    : 'The request is over a limit.';
}

type Denial = NonNullable<Denied['denial']>;
type NamedLimit = Exclude<Denial['limit'], 'balance'>;

const limitNames: Readonly<Record<NamedLimit, string>> = {
  minute_limit: 'The key’s requests in 60 seconds are used up',
  daily_limit: 'The key’s daily limit is used up',
  free_minute: 'The account’s free-model requests in 60 seconds are used up',
  free_day: 'The account’s free-model requests of today are used up',
  monthly_limit: 'The key’s monthly limit is used up',
  subscription: 'The rest of the subscription can’t pay for this request',
  limit: 'A limit leaves no room for this request',
};

/** Messages for limits in dollars that are not used up, but have too little left for this request. */
const fundNames: Partial<Readonly<Record<NamedLimit, string>>> = {
  daily_limit: 'The rest of the key’s daily limit can’t pay for this request',
  monthly_limit: 'The rest of the key’s monthly limit can’t pay for this request',
  limit: 'The rest of a limit can’t pay for this request',
};

/** "Insufficient funds: $5.00 available ($3.20 held by running requests), $34.99 needed." */
function fundsMessage({ used, max }: Denial, neededNanoUsd: bigint | undefined): string {
  const left = BigInt(max) - BigInt(used);
  const held = used > 0 ? ` (${moneyText(BigInt(used))} held by running requests)` : '';
  const needed = neededNanoUsd === undefined ? '' : `, ${moneyText(neededNanoUsd)} needed`;
  return `Insufficient funds: ${moneyText(left > 0n ? left : 0n)} available${held}${needed}.`;
}

/** Returns an amount as "$5.00", with as many decimals as it needs, at least two. */
function moneyText(nanoUsd: bigint): string {
  const [whole = '', fraction = ''] = dollarsText(nanoUsd).split('.');
  return `$${whole}.${fraction.padEnd(2, '0')}`;
}

function limitMessage(denial: Denial, neededNanoUsd?: bigint): string {
  const { limit, unit, used, max, resetAtMs, row } = denial;
  if (limit === 'balance') return fundsMessage(denial, neededNanoUsd);
  const isMoney = unit === 'nano_usd';
  const amount = (value: number | bigint): string => (isMoney ? `$${(Number(value) / 1e9).toFixed(6)}` : String(value));
  const reset = resetAtMs === undefined ? '' : ` It resets at ${isoTime(resetAtMs)}.`;
  const name = (isMoney ? fundNames[limit] : undefined) ?? limitNames[limit];
  const which = row === undefined ? '' : ` (${nameLimit(row, isMoney ? 'usd' : unit)})`;
  return `${name}${which}: ${amount(used)} of ${amount(max)}${isMoney ? '' : ` ${unit}`} used or held.${reset}`;
}

/** Returns a description of a limit, for example "limit 12 of key 3, tokens a day". */
function nameLimit({ id, scope, scopeId, window }: NonNullable<Denial['row']>, unit: string): string {
  const per = window === null || window === 'total' ? (window ?? 'at once') : `a ${window}`;
  return `limit ${id} of ${scope} ${scopeId}, ${unit} ${per}`;
}
