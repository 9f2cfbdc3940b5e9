import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type NextPaymentSchema, Payer } from '../gen/tollgate/v1/account_pb.ts';
import type { Model } from '../gen/tollgate/v1/catalog_pb.ts';
import { GenerateRequestSchema } from '../gen/tollgate/v1/request_pb.ts';
import { isTextEndpoint } from '../generation/endpoints.ts';
import type { AdmissionPreview, Ledger, NextPayer } from '../ledger/ledger.ts';
import { requireRow, readId, invalidField } from './account-fields.ts';
import { refusal, toAdmitCommand } from './generation/admission.ts';
import { toLimit } from './limit-fields.ts';
import { standardTier } from '../generation/service-tier.ts';

/** The dependencies of a dry run of an admission. */
export interface NextPaymentDependencies {
  readonly ledger: Ledger;
  /** Returns the model with that name; for '' the first one. Throws `model_not_found`. */
  readonly findModel: (name: string) => Model;
}

/** The request whose admission is tried. `accountId` undefined: the key may belong to any account (for the operator). */
export interface NextRequest {
  readonly accountId: number | undefined;
  readonly apiKeyId: bigint;
  /** The name of the model; '': the first model of the catalogue. */
  readonly model: string;
  /** The number of input tokens; 0: a default. */
  readonly inputTokens: number;
}

const inputTokensUsual = 1_000;
const inputTokensMax = 10_000_000;

/**
 * Returns who would pay for a key's next request and which limits apply to it, by a dry run of its admission. Throws `not_found`,
 * `model_not_found` and `validation_error`.
 */
export async function readNextPayment(
  { ledger, findModel }: NextPaymentDependencies,
  next: NextRequest,
): Promise<MessageInitShape<typeof NextPaymentSchema>> {
  const keyId = readId(next.apiKeyId, 'API key');
  const { accountId } = requireRow(await ledger.findKey(keyId, next.accountId), 'API key', keyId);
  const model = findModel(next.model);
  const endpoint = model.endpoints.find(isTextEndpoint);
  if (endpoint === undefined) throw invalidField('model', 'must be a model that generates text', next.model);
  const { inputTokens: given } = next;
  if (given > inputTokensMax) throw invalidField('input_tokens', `must be at most ${inputTokensMax}`, given);
  const inputTokens = given === 0 ? inputTokensUsual : given;
  const request = create(GenerateRequestSchema, { model: model.id, endpoint });
  const measured = { inputTokens, calls: 1 };
  const admission = { id: 0, requestId: '', keyId, accountId, request, model, tier: standardTier, measured };
  const command = { ...toAdmitCommand(admission), key: { id: keyId, accountId } };
  const preview = requireRow(await ledger.preview(command), 'API key', keyId);
  // The rows of the ledger's reader have the limits' reset times, and also limits of concurrent requests.
  const rows = new Map((await ledger.listLimits({ accountId })).map(row => [row.limitId, row]));
  return {
    apiKeyId: BigInt(keyId),
    model: model.id,
    inputTokens,
    ...(await describeRefusal(ledger, preview, { model, accountId, keyId })),
    payers: preview.payers.map(toPayer),
    limits: preview.limitIds.flatMap(id => {
      const row = rows.get(id);
      return row === undefined ? [] : [toLimit(row)];
    }),
    heldNanoUsd: preview.heldNanoUsd,
    ...(preview.outputTokens === null ? {} : { outputTokens: BigInt(preview.outputTokens) }),
  };
}

async function describeRefusal(
  ledger: Ledger,
  { denied }: AdmissionPreview,
  admission: { readonly model: Model; readonly accountId: number; readonly keyId: number },
): Promise<Pick<MessageInitShape<typeof NextPaymentSchema>, 'admitted' | 'refusal' | 'message' | 'tip'>> {
  if (denied === undefined) return { admitted: true };
  const { code, message, tip } = await refusal(ledger, denied, admission);
  const refusingLimitId = denied.denial?.row?.id;
  return {
    admitted: false,
    refusal: code,
    message,
    tip,
    ...(refusingLimitId === undefined ? {} : { refusingLimitId: BigInt(refusingLimitId) }),
  };
}

const payers: Readonly<Record<NextPayer['payer'], Payer>> = {
  free: Payer.FREE,
  subscription: Payer.SUBSCRIPTION,
  key_balance: Payer.KEY_BALANCE,
  group_balance: Payer.GROUP_BALANCE,
  account: Payer.ACCOUNT,
};

function toPayer({ payer, groupId, leftNanoUsd, leftTokens, resetsAtMs }: NextPayer) {
  return {
    payer: payers[payer],
    groupId: BigInt(groupId ?? 0),
    ...(leftNanoUsd === undefined ? {} : { leftNanoUsd }),
    ...(leftTokens === undefined ? {} : { leftTokens: BigInt(leftTokens) }),
    ...(resetsAtMs === undefined ? {} : { resetsAtMs: BigInt(resetsAtMs) }),
  };
}
