import type { MessageInitShape } from '@bufbuild/protobuf';
import * as z from 'zod';
import { exactlyOneOf } from '../codecs/schema.ts';
import type { LimitSettingsSchema, NewLimitSchema } from '../gen/tollgate/v1/account_pb.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { amountMax, exactDollars, idField, readBody, timeField } from './account-schema.ts';
import type { JsonBody } from './json-body.ts';

/** The bodies that make and change limits. `max` is in dollars if the unit is `usd`, else a count. Source: docs/accounting.md "Limits". */

const scopeTypes = ['account', 'group', 'key'] as const;
const units = ['usd', 'requests', 'tokens', 'concurrent'] as const;
const windows = ['minute', 'hour', 'day', 'week', 'month', 'total'] as const;
const modelsMax = 1000;
const nanoPerDollar = 1_000_000_000n;

const allowed = `must be a number from 0 to ${amountMax}`;
const amount = z.number(allowed).min(0, allowed).max(amountMax, allowed);
const modelList = `must be an array of at most ${modelsMax} ids and patterns, or null for all`;

const changes = {
  max: amount.optional(),
  time_zone: z.string('must be an IANA name, such as Europe/Berlin').optional(),
  models: z.array(z.string('must be a string'), modelList).max(modelsMax, modelList).nullable().optional(),
  end_users: exactlyOneOf(['all', 'each']).optional(),
  action: exactlyOneOf(['refuse', 'alert']).optional(),
  raised: z
    .strictObject({ max: amount, until: timeField('') }, 'must be an object, or null')
    .nullable()
    .optional(),
};

/** The fields of a body that makes a limit. */
export const newLimitSchema = z.strictObject(
  {
    scope: z.strictObject({ type: exactlyOneOf(scopeTypes), id: idField.optional() }, 'must be an object'),
    unit: exactlyOneOf(units),
    window: exactlyOneOf(windows).nullable().optional(),
    ...changes,
  },
  'must be an object',
);

/** Reads the new limit in a body. Throws `validation_error` with a violation for every wrong or unknown field. */
export function readNewLimit(body: JsonBody): MessageInitShape<typeof NewLimitSchema> {
  const { scope, unit, window, ...settings } = readBody(newLimitSchema, body, 'a limit');
  if (settings.max === undefined) throw invalid('max', 'is required');
  if (scope.id === undefined && scope.type !== 'account') throw invalid('scope.id', 'is required');
  if (unit !== 'concurrent' && typeof window !== 'string')
    throw invalid('window', `must be one of ${windows.join(', ')}`);
  return {
    scope: scope.type,
    scopeId: scope.id ?? 0n,
    unit,
    window: window ?? '',
    settings: toSettings(body, settings),
  };
}

/** The fields of a body that changes a limit. */
export const limitChangeSchema = z.strictObject(
  // These fields can't be changed, because they decide what the limit counts.
  { ...changes, scope: fixedField(), unit: fixedField(), window: fixedField() },
  'must be an object',
);

function fixedField() {
  return z.never('can’t be changed: make another limit').optional();
}

/** Reads the changes to a limit. Throws `validation_error` with a violation for every wrong or unknown field. */
export function readLimitChange(body: JsonBody): MessageInitShape<typeof LimitSettingsSchema> {
  return toSettings(body, readBody(limitChangeSchema, body, 'a limit that can change'));
}

type Settings = Partial<z.output<typeof limitChangeSchema>>;

function toSettings(body: JsonBody, settings: Settings): MessageInitShape<typeof LimitSettingsSchema> {
  const { max, time_zone, models, end_users, action, raised } = settings;
  return {
    ...(max === undefined ? {} : readAmount(body, ['max'])),
    timeZone: time_zone,
    models: models ? { models } : undefined,
    allModels: models === null,
    endUsers: end_users,
    action,
    raised: raised ? { ...readAmount(body, ['raised', 'max']), untilMs: raised.until } : undefined,
    notRaised: raised === null,
  };
}

/** Reads a number as dollars and, if it is an integer, also as a count. The core uses the one that fits the limit's unit. */
function readAmount(body: JsonBody, path: readonly string[]): { max?: bigint; maxNanoUsd?: bigint } {
  const maxNanoUsd = exactDollars(body, ...path);
  if (maxNanoUsd === undefined) throw invalid(path.join('.'), `must be a number from 0 to ${amountMax}`);
  const isWhole = maxNanoUsd % nanoPerDollar === 0n;
  return { maxNanoUsd, ...(isWhole ? { max: maxNanoUsd / nanoPerDollar } : {}) };
}

function invalid(param: string, message: string): GatewayError {
  const violations = [{ path: param.split('.'), message, type: 'value_error' }];
  return new GatewayError('validation_error', `${param}: ${message}.`, { param, violations });
}
