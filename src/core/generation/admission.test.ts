import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ModelSchema } from '../../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import type { Denied } from '../../ledger/ledger.ts';
import { deniedError } from './admission.ts';

const admission = {
  model: create(ModelSchema, { id: 'acme/small:free' }),
  accountId: 7,
  keyId: 3,
  hasOwnBalance: false,
};

function denied(code: Denied['code'], denial: NonNullable<Denied['denial']>) {
  return deniedError({ kind: 'denied', code, windows: [], denial }, admission);
}

test('if a key’s own balance is empty, the tip says that its owner can raise it', () => {
  const denial = { limit: 'balance', unit: 'nano_usd', used: 0n, max: 0n } as const;
  const refusal = deniedError(
    { kind: 'denied', code: 'insufficient_balance', windows: [], denial },
    { ...admission, hasOwnBalance: true },
  );
  expect(refusal.facts.tip).toContain('PATCH /v1/account/keys/3 {"balance": DOLLARS}');
});

test('a monthly limit that is not used up is not reported as used up', () => {
  const cap = { limit: 'monthly_limit', unit: 'nano_usd', used: 0n, max: 100_000n, resetAtMs: 0 } as const;
  expect(denied('spending_limit', cap).message).toBe(
    'The rest of the key’s monthly limit can’t pay for this request: $0.000000 of $0.000100 used or held. It resets at 1970-01-01T00:00:00.000Z.',
  );
});

test('no message suggests raising the free-model limits, which are fixed', () => {
  const window = { limit: 'free_day', unit: 'requests', used: 200, max: 200, resetAtMs: 0 } as const;
  expect(denied('rate_limit', window).facts.tip).toContain('can’t be raised');
});

test('insufficient funds: the message has what is available, what running requests hold and what is needed', () => {
  const denial = { limit: 'balance', unit: 'nano_usd', used: 3_200_000_000n, max: 8_200_000_000n } as const;
  const refused = { kind: 'denied', code: 'insufficient_balance', windows: [], denial } as const;
  expect(deniedError({ ...refused, neededNanoUsd: 34_990_000_000n }, admission).message).toBe(
    'Insufficient funds: $5.00 available ($3.20 held by running requests), $34.99 needed.',
  );
  const untouched = { ...refused, denial: { ...denial, used: 0n, max: 12_345n } };
  expect(deniedError({ ...untouched, neededNanoUsd: 1_000_000n }, admission).message).toBe(
    'Insufficient funds: $0.000012345 available, $0.001 needed.',
  );
  expect(deniedError(untouched, admission).message).toBe('Insufficient funds: $0.000012345 available.');
});

test('the tip for an image request never suggests a plan, because no plan pays for images', () => {
  const refused = { kind: 'denied', code: 'subscription_exhausted', windows: [] } as const;
  const payg = 'PATCH /v1/account/keys/3 {"fallback_to_payg": true}';
  const imageRequest = { ...admission, model: create(ModelSchema, { endpoints: [Endpoint.IMAGE_EDITS] }) };
  expect(deniedError(refused, imageRequest).facts.tip).toBe(
    `Let the key pay as it goes, because no plan pays for images: ${payg}.`,
  );
  expect(deniedError(refused, admission).facts.tip).toBe(
    `Let the key pay as it goes: ${payg}. Or ask the operator for a plan: npx tollgate subscriptions start 7 --plan core|core_pro --period biweekly|monthly.`,
  );
});

test('if the balance is empty, the tip has the operator’s command for this account', () => {
  const balance = { limit: 'balance', unit: 'nano_usd', used: 0n, max: 0n } as const;
  expect(denied('insufficient_balance', balance).facts.tip).toBe(
    'Ask the operator to add credit: npx tollgate credits add 7 DOLLARS.',
  );
});
