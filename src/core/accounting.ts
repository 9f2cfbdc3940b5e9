import { create } from '@bufbuild/protobuf';
import { GatewayError } from '../errors/gateway-error.ts';
import type { AccountingService } from '../gen/tollgate/v1/accounting_pb.ts';
import { ModelSchema } from '../gen/tollgate/v1/catalog_pb.ts';
import type { PriceSheet } from '../generation/price.ts';
import { toBuckets } from '../generation/usage-buckets.ts';
import type { Clock } from '../lib/clock.ts';
import { publicRequestId } from '../lib/ids.ts';
import type { PushedService } from '../lib/pushed-service.ts';
import type { Denied, Ledger } from '../ledger/ledger.ts';
import { checkText, readId, invalidField } from './account-fields.ts';
import { servicesOnly } from './credential.ts';
import { deniedError } from './generation/admission.ts';
import { fixedFunds } from './generation/funds.ts';
import { limitState } from './limit-state.ts';
import type { ServiceTokens } from './service-tokens.ts';

interface AccountingOptions {
  readonly ledger: Ledger;
  readonly tokens: ServiceTokens;
  readonly clock: Clock;
}

const modelMax = 200;
/** The highest id that another service may use. Higher ids are those of the gateway's own requests (they begin with 41 bits of milliseconds since 1970), which no other service may settle or void. */
const idMax = 2n ** 52n - 1n;
const hourMs = 3_600_000n;
/** The longest time that a hold may last until it is settled or extended. */
const expiresInMsMax = 30n * 24n * hourMs;

/** Prices that are not used: services report their own costs. */
const noPrices: PriceSheet = {
  input: null,
  cacheRead: null,
  cacheWrite5m: null,
  cacheWrite1h: null,
  output: null,
  image: null,
};

/**
 * AccountingService: metering for other services, which do their own work. The caller chooses the ids; if a call is repeated with the same id, the result of the first one is returned. Errors of refused admissions have `ErrorFacts`; an id without a hold
 * (unknown, settled, voided or expired) is `not_found`.
 */
export function accountingService(options: AccountingOptions): PushedService<typeof AccountingService> {
  const { ledger, clock } = options;
  const methods: PushedService<typeof AccountingService> = {
    async admit(request) {
      const id = workId(request.id);
      const model = checkText('model', request.model, modelMax);
      const amount = notNegative('amount', request.amountNanoUsd);
      const keyId = readId(request.apiKeyId, 'API key');
      const expiresAtMs = expiry(clock, request.expiresInMs ?? hourMs);
      const reply = await ledger.admit({
        id,
        requestId: publicRequestId(id),
        key: { id: keyId },
        model,
        free: false,
        funds: fixedFunds(amount),
        expiresAtMs,
      });
      if (reply.kind === 'denied') throw await deniedWork(ledger, reply, { keyId, model });
      return {
        heldNanoUsd: reply.heldNanoUsd,
        availableNanoUsd: reply.availableNanoUsd,
        limits: reply.windows.map(limitState),
        // If the call is a repetition, the reply has the expiry of the first one.
        expiresAtMs: BigInt(reply.expiresAtMs ?? expiresAtMs),
      };
    },
    async extend(request) {
      const id = workId(request.id);
      const nanoUsd = notNegative('amount', request.amountNanoUsd);
      const expiresAtMs = request.expiresInMs === undefined ? undefined : expiry(clock, request.expiresInMs);
      const reply = await ledger.extend({ id, nanoUsd, ...(expiresAtMs === undefined ? {} : { expiresAtMs }) });
      if (reply.kind === 'not_held') throw notHeld(id);
      if (reply.kind === 'denied') {
        throw new GatewayError(
          'insufficient_balance',
          `The balance does not cover this extension of the hold for ${id}.`,
        );
      }
      return { heldNanoUsd: reply.heldNanoUsd };
    },
    async settle(request) {
      const id = workId(request.id);
      const reply = await ledger.settle({
        ...settleFacts,
        id,
        usage: toBuckets(request.usage ?? {}),
        latencyMs: Number(request.latencyMs),
        costNanoUsd: notNegative('cost', request.costNanoUsd),
      });
      if (reply.kind === 'not_held') throw notHeld(id);
      if (reply.kind === 'conflict') {
        throw new GatewayError('conflict', `${id} is settled with another cost.`, { param: 'cost' });
      }
      return { costNanoUsd: reply.costNanoUsd, writtenOffNanoUsd: reply.writtenOffNanoUsd };
    },
    async void(request) {
      const id = workId(request.id);
      if ((await ledger.void(id, 'cancelled')) === 'not_held') throw notHeld(id);
      return {};
    },
  };
  return servicesOnly(methods, options, () => 'metering');
}

const settleFacts = {
  state: 'completed',
  usageSource: 'reported',
  serviceTier: 'default',
  firstEventMs: undefined,
  provider: '',
  attempts: 0,
  prices: noPrices,
  multiplierPermille: 1000,
} as const;

/**
 * Returns the error of a refused admission, as the account's client would get it. If the key is refused, the error has the field `api_key_id`, because it is about the account's key, not about the service's credential.
 */
async function deniedWork(
  ledger: Ledger,
  denied: Denied,
  { keyId, model }: { keyId: number; model: string },
): Promise<GatewayError> {
  const key = await ledger.findKey(keyId, undefined);
  const error = deniedError(denied, {
    model: create(ModelSchema, { id: model }),
    accountId: key?.accountId ?? 0,
    keyId,
    hasOwnBalance: typeof key?.balance === 'bigint',
  });
  if (denied.code !== 'invalid_api_key' && denied.code !== 'key_disabled') return error;
  return new GatewayError(error.code, error.message, { ...error.facts, param: 'api_key_id' });
}

function workId(id: bigint): number {
  if (id < 1n || id > idMax) throw invalidField('id', `must be 1 to ${idMax}`, id.toString());
  return Number(id);
}

function notNegative(param: string, nanoUsd: bigint): bigint {
  if (nanoUsd < 0n) throw invalidField(param, 'must be 0 or more', nanoUsd.toString());
  return nanoUsd;
}

function expiry(clock: Clock, expiresInMs: bigint): number {
  if (expiresInMs < 1n || expiresInMs > expiresInMsMax) {
    throw invalidField('expires_in_ms', `must be 1 to ${expiresInMsMax}`, expiresInMs.toString());
  }
  return clock.now() + Number(expiresInMs);
}

function notHeld(id: number): GatewayError {
  return new GatewayError(
    'not_found',
    `There is no hold for ${id}: it was never admitted, or it was settled or voided, or has expired.`,
    {
      param: 'id',
    },
  );
}
