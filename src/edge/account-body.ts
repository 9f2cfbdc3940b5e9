import type { MessageInitShape } from '@bufbuild/protobuf';
import * as z from 'zod';
import { flag, integerIn } from '../codecs/schema.ts';
import { GatewayError, type Violation } from '../errors/gateway-error.ts';
import type { KeySettingsSchema } from '../gen/tollgate/v1/account_pb.ts';
import { parseJsonDollars } from '../lib/dollars.ts';
import { parseIsoTime } from '../lib/iso-time.ts';
import type { JsonBody } from './json-body.ts';

/** The body that makes or changes an API key. Fields that are absent stay as they are; null lifts a limit. Source: service.md, "Account endpoints". */

const limitMax = 9_000_000_000;
const labelMax = 200;
const modelsMax = 1000;
/** Longer values are cut where a violation repeats them. */
const shownLengthMax = 200;

const labelText = `must be a string of at most ${labelMax} characters`;
const modelList = `must be an array of at most ${modelsMax} model ids, or null for all`;
const amount = `must be a number of dollars from 0 to ${limitMax}, or null for the account’s balance`;

const expiry = 'must be a time as ISO 8601 writes it ("2026-12-31T23:59:59Z"), or null for never';

function readExpiry(text: string, context: z.RefinementCtx): bigint {
  const time = parseIsoTime(text);
  if (time !== undefined) return BigInt(time.floorMs);
  context.addIssue({ code: 'custom', message: expiry, input: text });
  return z.NEVER;
}

const limit = integerIn(0, limitMax)
  .nullable()
  .transform(max => BigInt(max ?? 0))
  .optional();

const settings = z.strictObject(
  {
    label: z.string(labelText).max(labelMax, labelText).optional(),
    daily_limit: limit,
    minute_limit: limit,
    allowed_models: z.array(z.string('must be a string'), modelList).max(modelsMax, modelList).nullable().optional(),
    balance: z.number(amount).min(0, amount).max(limitMax, amount).nullable().optional(),
    use_subs_first: flag.optional(),
    fallback_to_payg: flag.optional(),
    expires_at: z.string(expiry).transform(readExpiry).nullable().optional(),
  },
  'must be an object',
);

/** The settings that a body names. Throws `validation_error` with a violation for every wrong or unknown field. */
export function readKeySettings({ value, raw }: JsonBody): MessageInitShape<typeof KeySettingsSchema> {
  const result = settings.safeParse(value, { reportInput: true });
  if (!result.success) throw invalidBody(result.error.issues.flatMap(toViolations));
  const { label, daily_limit, minute_limit, allowed_models, balance, use_subs_first, fallback_to_payg, expires_at } =
    result.data;
  return {
    label,
    dailyLimit: daily_limit,
    minuteLimit: minute_limit,
    allowedModels: allowed_models ? { models: allowed_models } : undefined,
    allowAllModels: allowed_models === null,
    balanceNanoUsd: typeof balance === 'number' ? exactBalance(raw) : undefined,
    noBalance: balance === null,
    useSubsFirst: use_subs_first,
    fallbackToPayg: fallback_to_payg,
    expiresAtMs: expires_at ?? undefined,
    neverExpires: expires_at === null,
  };
}

/** The amount as it was written: a double has lost the nano-dollars of a large one. */
function exactBalance(raw: Buffer): bigint {
  let nanoUsd: bigint | undefined;
  // The body holds no objects but itself, so that no other member has this name.
  JSON.parse(raw.toString('utf8'), (name: string, value: unknown, context?: { readonly source?: string }) => {
    if (name === 'balance' && typeof value === 'number') nanoUsd = parseJsonDollars(context?.source ?? String(value));
    return value;
  });
  if (nanoUsd === undefined) throw new Error('the balance passed the schema and is no number');
  return nanoUsd;
}

function invalidBody(violations: readonly Violation[]): GatewayError {
  const [first = { path: [], message: 'is not valid' }] = violations;
  const param = first.path.join('.');
  const message = param === '' ? `The body ${first.message}.` : `${param}: ${first.message}.`;
  return new GatewayError('validation_error', message, { ...(param === '' ? {} : { param }), violations });
}

function toViolations(issue: z.core.$ZodIssue): Violation[] {
  if (issue.code === 'unrecognized_keys') {
    const message = `is no field of a key; the fields are ${Object.keys(settings.shape).join(', ')}`;
    return issue.keys.map(key => ({
      path: [key],
      message,
      type: 'extra_forbidden',
      ...shownInput(issue.input?.[key]),
    }));
  }
  const path = issue.path.map(String);
  return [{ path, message: issue.message, type: issue.code, ...shownInput(issue.input) }];
}

/** Returns what was sent as JSON; nothing if it is too long to be repeated. */
function shownInput(value: unknown): Pick<Violation, 'inputJson'> {
  if (typeof value === 'string') return { inputJson: JSON.stringify(value.slice(0, shownLengthMax)) };
  const inputJson = JSON.stringify(value) as string | undefined;
  return inputJson === undefined || inputJson.length > shownLengthMax ? {} : { inputJson };
}
