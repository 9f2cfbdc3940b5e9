import { type ErrorFacts, GatewayError } from '../../errors/gateway-error.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { GenerateRequest, ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import { isoTime } from '../../lib/clock.ts';
import type { Admitted, Denied, Ledger } from '../../store/ledger.ts';
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
}

/** Admits or throws what the ledger denied: nothing goes upstream without passing here. */
export async function admit(ledger: Ledger, applicant: Applicant): Promise<Admitted> {
  const { id, requestId, keyId, request, model, tier, calls } = applicant;
  const reply = await ledger.admit({
    id,
    requestId,
    key: { id: keyId },
    model: model.id,
    free: isFree(model.id),
    funds: estimateFunds(request, model, tier, calls),
  });
  if (reply.kind === 'denied') throw deniedError(reply, applicant);
  return reply;
}

/** Free models carry the suffix in their id. */
export function isFree(modelId: string): boolean {
  return modelId.endsWith(':free');
}

/** What a denial says to the caller. */
export function deniedError(
  denied: Denied,
  { model, accountId }: Pick<Applicant, 'model' | 'accountId'>,
): GatewayError {
  const facts: ErrorFacts = {
    limits: denied.windows,
    ...(denied.denial === undefined ? {} : { denial: denied.denial }),
    ...(denied.retryAfterMs === undefined ? {} : { retryAfterMs: denied.retryAfterMs }),
    ...(waitsOnlyAMinute(denied) ? { retry: true } : {}),
    ...(denied.code === 'model_not_allowed' ? { param: 'model' } : {}),
    ...tipOf(denied, accountId),
  };
  return new GatewayError(denied.code, deniedMessage(denied, model.id), facts);
}

/** What to do about this denial, where the code alone does not say it. */
function tipOf({ code, denial }: Denied, accountId: number): { tip?: string } {
  if (code === 'insufficient_balance') {
    return { tip: `Ask the operator to add credit: npx tollgate credits add ${accountId} DOLLARS.` };
  }
  if (denial?.limit === 'free_minute' || denial?.limit === 'free_day') {
    return { tip: 'Wait as long as `retry-after` says, or use the model without `:free`: this limit can’t be raised.' };
  }
  return {};
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
      return 'The subscription has no tokens left, and this key does not fall back to pay-as-you-go.';
    default:
      return denial === undefined ? 'The request is over a limit.' : limitMessage(denial);
  }
}

const limitNames: Readonly<Record<NonNullable<Denied['denial']>['limit'], string>> = {
  minute_limit: 'The key’s requests in 60 seconds are used up',
  daily_limit: 'The key’s daily limit is used up',
  free_minute: 'The account’s free-model requests in 60 seconds are used up',
  free_day: 'The account’s free-model requests of today are used up',
  monthly_limit: 'The key’s monthly limit is used up',
  balance: 'The balance can’t pay for this request',
  subscription: 'The subscription has no tokens left',
};

/** Of money there may be some left, and still too little for this request. */
const fundNames: Partial<typeof limitNames> = {
  daily_limit: 'What is left of the key’s daily limit can’t pay for this request',
  monthly_limit: 'What is left of the key’s monthly limit can’t pay for this request',
};

function limitMessage(denial: NonNullable<Denied['denial']>): string {
  const amount = (value: number | bigint): string =>
    denial.unit === 'nano_usd' ? `$${(Number(value) / 1e9).toFixed(6)}` : String(value);
  const reset = denial.resetAtMs === undefined ? '' : ` It resets at ${isoTime(denial.resetAtMs)}.`;
  const unit = denial.unit === 'nano_usd' ? '' : ` ${denial.unit}`;
  const name = (denial.unit === 'nano_usd' ? fundNames[denial.limit] : undefined) ?? limitNames[denial.limit];
  return `${name}: ${amount(denial.used)} of ${amount(denial.max)}${unit} used or held.${reset}`;
}
