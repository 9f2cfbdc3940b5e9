import type { MessageInitShape } from '@bufbuild/protobuf';
import * as z from 'zod';
import { flag, integerIn } from '../codecs/schema.ts';
import type { KeySettingsSchema } from '../gen/tollgate/v1/account_pb.ts';
import { amountMax, exactDollars, idField, lowBalanceField, readBody, tagsField, timeField } from './account-schema.ts';
import type { JsonBody } from './json-body.ts';

/** The body that makes or changes an API key. Fields that are absent stay as they are; null lifts a limit. Source: docs/interfaces/account.md "Keys". */

const labelMax = 200;
const modelsMax = 1000;
const metadataBytesMax = 4096;
const overlapMaxSeconds = 30 * 86_400;

const labelText = `must be a string of at most ${labelMax} characters`;
const modelList = `must be an array of at most ${modelsMax} model ids, or null for all`;
const amount = `must be a number of dollars from 0 to ${amountMax}, or null for the account’s balance`;
const metadata = 'must be an object of at most 4 KiB';

const limit = integerIn(0, amountMax)
  .nullable()
  .transform(max => BigInt(max ?? 0))
  .optional();

/** The fields of a body that makes or changes an API key. */
export const keySettingsSchema = z.strictObject(
  {
    label: z.string(labelText).max(labelMax, labelText).optional(),
    daily_limit: limit,
    minute_limit: limit,
    allowed_models: z.array(z.string('must be a string'), modelList).max(modelsMax, modelList).nullable().optional(),
    balance: z.number(amount).min(0, amount).max(amountMax, amount).nullable().optional(),
    use_subs_first: flag.optional(),
    fallback_to_payg: flag.optional(),
    expires_at: timeField(', or null for never').nullable().optional(),
    group_id: idField.nullable().optional(),
    low_balance: lowBalanceField,
    keep_bodies: z.enum(['off', 'errors', 'all'], 'must be off, errors, all, or null').nullable().optional(),
    paused: flag.optional(),
    tags: tagsField.nullable().optional(),
    metadata: z
      .record(z.string(), z.unknown(), metadata)
      .transform(value => JSON.stringify(value))
      .refine(text => Buffer.byteLength(text) <= metadataBytesMax, metadata)
      .nullable()
      .optional(),
  },
  'must be an object',
);

/** Reads the settings in a body. Throws `validation_error` with a violation for every wrong or unknown field. */
export function readKeySettings(body: JsonBody): MessageInitShape<typeof KeySettingsSchema> {
  const read = readBody(keySettingsSchema, body, 'a key');
  const { label, daily_limit, minute_limit, allowed_models, balance, use_subs_first, fallback_to_payg, expires_at } =
    read;
  const { group_id, tags, metadata: metadataJson, low_balance: low, keep_bodies, paused } = read;
  return {
    label,
    dailyLimit: daily_limit,
    minuteLimit: minute_limit,
    allowedModels: allowed_models ? { models: allowed_models } : undefined,
    allowAllModels: allowed_models === null,
    balanceNanoUsd: typeof balance === 'number' ? exactDollars(body, 'balance') : undefined,
    noBalance: balance === null,
    useSubsFirst: use_subs_first,
    fallbackToPayg: fallback_to_payg,
    expiresAtMs: expires_at ?? undefined,
    neverExpires: expires_at === null,
    groupId: group_id ?? undefined,
    noGroup: group_id === null,
    lowBalanceNanoUsd: typeof low === 'number' ? exactDollars(body, 'low_balance') : undefined,
    noLowBalance: low === null,
    keepBodies: keep_bodies === null ? '' : keep_bodies,
    paused,
    tags: tags === null ? { tags: {} } : tags,
    metadataJson: metadataJson === null ? '{}' : metadataJson,
  };
}

/** The fields of a body that rotates a key. */
export const rotationSchema = z.strictObject(
  { overlap_seconds: integerIn(0, overlapMaxSeconds).optional() },
  'must be an object',
);

/** Reads how long a replaced secret stays valid, in seconds. Throws `validation_error` if the value is out of bounds. */
export function readRotation(body: JsonBody): { overlapSeconds: number } {
  return { overlapSeconds: readBody(rotationSchema, body, 'a rotation').overlap_seconds ?? 0 };
}
