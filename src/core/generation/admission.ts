import { type ErrorFacts, GatewayError } from '../../errors/gateway-error.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint, type GenerateRequest, type ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import { isoTime } from '../../lib/clock.ts';
import type { Admitted, Denied, Ledger } from '../../ledger/ledger.ts';
import { estimateFunds } from './funds.ts';

/** A request that is about to be admitted. */
export interface Applicant {
  readonly id: number;
  readonly requestId: string;
  readonly keyId: number;
  readonly accountId: number;
  readonly request: GenerateRequest;
  readonly model: Model;
  readonly tier: ServiceTier;
  /** The most upstream calls that it is made of, each with the whole input. */
  readonly calls: number;
  /** The client is told of it before its answer has ended: the admission must be durable first. */
  readonly isAnsweredEarly: boolean;
}

/** Admits or throws what the ledger denied: nothing goes upstream without passing here. */
export async function admit(ledger: Ledger, applicant: Applicant): Promise<Admitted> {
  const { id, requestId, keyId, accountId, request, model, tier, calls } = applicant;
  const reply = await ledger.admit({
    id,
    requestId,
    key: { id: keyId, accountId },
    model: model.id,
    free: isFree(model.id),
    funds: estimateFunds(request, model, tier, calls),
    ...(applicant.isAnsweredEarly ? { durable: true } : {}),
  });
  if (reply.kind === 'denied')
    throw deniedError(reply, { ...applicant, hasOwnBalance: await hasOwnBalance(ledger, reply, keyId) });
  return reply;
}

/** Whether it was the key's own balance that could not pay. */
export async function hasOwnBalance(
  ledger: Pick<Ledger, 'findKey'>,
  { code }: Denied,
  keyId: number,
): Promise<boolean> {
  if (code !== 'insufficient_balance') return false;
  return typeof (await ledger.findKey(keyId, undefined))?.balance === 'bigint';
}

/** Free models carry the suffix in their id. */
export function isFree(modelId: string): boolean {
  return modelId.endsWith(':free');
}

/** Whose request was denied. */
export interface DeniedApplicant extends Pick<Applicant, 'model' | 'accountId' | 'keyId'> {
  /** The key has money of its own, for which the account's never steps in. */
  readonly hasOwnBalance: boolean;
}

/** What a denial says to the caller. */
export function deniedError(denied: Denied, applicant: DeniedApplicant): GatewayError {
  const facts: ErrorFacts = {
    limits: denied.windows,
    ...(denied.denial === undefined ? {} : { denial: denied.denial }),
    ...(denied.retryAfterMs === undefined ? {} : { retryAfterMs: denied.retryAfterMs }),
    ...(waitsOnlyAMinute(denied) ? { retry: true } : {}),
    ...(denied.code === 'model_not_allowed' ? { param: 'model' } : {}),
    ...tipOf(denied, applicant),
  };
  return new GatewayError(denied.code, deniedMessage(denied, applicant.model.id), facts);
}

/** What to do about this denial, where the code alone does not say it. */
function tipOf(
  { code, denial }: Denied,
  { model, accountId, keyId, hasOwnBalance: own }: DeniedApplicant,
): { tip?: string } {
  if (code === 'insufficient_balance') {
    const credit = `npx tollgate credits add ${accountId} DOLLARS`;
    return {
      tip: own
        ? `This key spends from a balance of its own: raise it, or set it to null to spend from the account, with PATCH /v1/account/keys/${keyId} {"balance": DOLLARS}. Where the account has too little: ${credit}.`
        : `Ask the operator to add credit: ${credit}.`,
    };
  }
  if (denial?.limit === 'monthly_limit') {
    return {
      tip: `Wait for the next month, or ask the operator to raise the limit: npx tollgate keys monthly-limit ${keyId} DOLLARS|none.`,
    };
  }
  if (denial?.limit === 'minute_limit' || denial?.limit === 'daily_limit') {
    return {
      tip: `Wait as long as \`retry-after\` says, or raise the limit: PATCH /v1/account/keys/${keyId} {"${denial.limit}": N}.`,
    };
  }
  if (code === 'subscription_exhausted' && denial === undefined) {
    const payg = `PATCH /v1/account/keys/${keyId} {"fallback_to_payg": true}`;
    const plan = `npx tollgate subscriptions start ${accountId} --plan core|core_pro --period biweekly|monthly`;
    return {
      tip: drawsPictures(model)
        ? `Let the key pay as it goes, because no plan pays for pictures: ${payg}.`
        : `Let the key pay as it goes: ${payg}. Or ask the operator for a plan: ${plan}.`,
    };
  }
  if (denial?.limit === 'free_minute' || denial?.limit === 'free_day') {
    return { tip: 'Wait as long as `retry-after` says, or use the model without `:free`: this limit can’t be raised.' };
  }
  return {};
}

function drawsPictures({ endpoints }: Model): boolean {
  return endpoints.includes(Endpoint.IMAGE_GENERATIONS) || endpoints.includes(Endpoint.IMAGE_EDITS);
}

function waitsOnlyAMinute({ denial }: Denied): boolean {
  return denial?.limit === 'minute_limit' || denial?.limit === 'free_minute';
}

function deniedMessage({ code, denial }: Denied, modelId: string): string {
  switch (code) {
    case 'invalid_api_key':
      return 'The key is not valid: it is unknown, revoked or deleted.';
    case 'key_disabled':
      return 'The key is disabled.';
    case 'permission_denied':
      return 'This key may not generate: use an API key (sk-tg-…).';
    case 'model_not_allowed':
      return `This key may not use ${modelId}.`;
    case 'conflict':
      return 'A request with this id was already made.';
    case 'subscription_exhausted':
      return denial === undefined
        ? `No subscription pays for ${modelId}, and this key does not fall back to pay-as-you-go.`
        : limitMessage(denial);
    default:
      return denial === undefined ? 'The request is over a limit.' : limitMessage(denial);
  }
}

type NamedLimit = Exclude<NonNullable<Denied['denial']>['limit'], 'balance'>;

const limitNames: Readonly<Record<NamedLimit, string>> = {
  minute_limit: 'The key’s requests in 60 seconds are used up',
  daily_limit: 'The key’s daily limit is used up',
  free_minute: 'The account’s free-model requests in 60 seconds are used up',
  free_day: 'The account’s free-model requests of today are used up',
  monthly_limit: 'The key’s monthly limit is used up',
  subscription: 'What is left of the subscription can’t pay for this request',
};

/** Of money there may be some left, and still too little for this request. */
const fundNames: Partial<Readonly<Record<NamedLimit, string>>> = {
  daily_limit: 'What is left of the key’s daily limit can’t pay for this request',
  monthly_limit: 'What is left of the key’s monthly limit can’t pay for this request',
};

function limitMessage(denial: NonNullable<Denied['denial']>): string {
  const amount = (value: number | bigint): string =>
    denial.unit === 'nano_usd' ? `$${(Number(value) / 1e9).toFixed(6)}` : String(value);
  const { limit } = denial;
  if (limit === 'balance') {
    return `The balance of ${amount(denial.max)} can’t pay for this request; ${amount(denial.used)} of it is held for others that run.`;
  }
  const reset = denial.resetAtMs === undefined ? '' : ` It resets at ${isoTime(denial.resetAtMs)}.`;
  const unit = denial.unit === 'nano_usd' ? '' : ` ${denial.unit}`;
  const name = (denial.unit === 'nano_usd' ? fundNames[limit] : undefined) ?? limitNames[limit];
  return `${name}: ${amount(denial.used)} of ${amount(denial.max)}${unit} used or held.${reset}`;
}
