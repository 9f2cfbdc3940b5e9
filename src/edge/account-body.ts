import type { MessageInitShape } from '@bufbuild/protobuf';
import * as z from 'zod';
import { flag, integerIn } from '../codecs/schema.ts';
import { GatewayError, type Violation } from '../errors/gateway-error.ts';
import type { KeySettingsSchema } from '../gen/tollgate/v1/account_pb.ts';
import { parseJsonDollars } from '../lib/dollars.ts';
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

const settings = z.strictObject(
  {
    label: z.string(labelText).max(labelMax, labelText).optional(),
    daily_limit: integerIn(0, limitMax).nullable().optional(),
    minute_limit: integerIn(0, limitMax).nullable().optional(),
    allowed_models: z.array(z.string('must be a string'), modelList).max(modelsMax, modelList).nullable().optional(),
    balance: z.number(amount).min(0, amount).max(limitMax, amount).nullable().optional(),
    use_subs_first: flag.optional(),
    fallback_to_payg: flag.optional(),
  },
  'must be an object',
);

/** The settings that a body names. Throws `validation_error` with a violation for every wrong or unknown field. */
export function readKeySettings({ value, raw }: JsonBody): MessageInitShape<typeof KeySettingsSchema> {
  const result = settings.safeParse(value);
  if (!result.success) throw invalidBody(result.error.issues.flatMap(issue => violationsOf(issue, value)));
  const { label, daily_limit, minute_limit, allowed_models, balance, use_subs_first, fallback_to_payg } = result.data;
  return {
    ...(label === undefined ? {} : { label }),
    ...(daily_limit === undefined ? {} : { dailyLimit: BigInt(daily_limit ?? 0) }),
    ...(minute_limit === undefined ? {} : { minuteLimit: BigInt(minute_limit ?? 0) }),
    ...(allowed_models === undefined ? {} : modelsOf(allowed_models)),
    ...(balance === undefined ? {} : balance === null ? { noBalance: true } : { balanceNanoUsd: exactBalance(raw) }),
    ...(use_subs_first === undefined ? {} : { useSubsFirst: use_subs_first }),
    ...(fallback_to_payg === undefined ? {} : { fallbackToPayg: fallback_to_payg }),
  };
}

function modelsOf(models: string[] | null): MessageInitShape<typeof KeySettingsSchema> {
  return models === null ? { allowAllModels: true } : { allowedModels: { models } };
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

function violationsOf(issue: z.core.$ZodIssue, body: unknown): Violation[] {
  if (issue.code === 'unrecognized_keys') {
    const allowed = Object.keys(settings.shape).join(', ');
    return issue.keys.map(key =>
      violation([key], `is no field of a key; the fields are ${allowed}`, { type: 'extra_forbidden', body }),
    );
  }
  return [violation(issue.path.map(String), issue.message, { type: issue.code, body })];
}

function violation(
  path: readonly string[],
  message: string,
  { type, body }: { readonly type: string; readonly body: unknown },
): Violation {
  const inputJson = shownJson(valueAt(body, path));
  return { path, message, type, ...(inputJson === undefined ? {} : { inputJson }) };
}

function valueAt(body: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, name) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, name)
        ? (value as Record<string, unknown>)[name]
        : undefined,
    body,
  );
}

/** What was sent, as JSON; nothing where it is too long to be repeated. */
function shownJson(value: unknown): string | undefined {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, shownLengthMax));
  const json = JSON.stringify(value) as string | undefined;
  return json !== undefined && json.length <= shownLengthMax ? json : undefined;
}
