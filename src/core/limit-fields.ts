import type { MessageInitShape } from '@bufbuild/protobuf';
import '../lib/temporal.ts';
import type {
  LimitRaiseSettings,
  LimitSchema,
  LimitSettings as SettingsMessage,
  NewLimit as NewLimitMessage,
} from '../gen/tollgate/v1/account_pb.ts';
import { defined } from '../lib/defined.ts';
import type { LimitChange, LimitRow, LimitSettings, LimitUnit, NewLimit } from '../ledger/ledger.ts';
import { invalidField, type FindListedId, readModelPatterns } from './account-fields.ts';

/**
 * Converts limits between the protobuf API and the ledger. Errors use the field names of the REST interface and the command line.
 */

const scopes = ['account', 'group', 'key'] as const;
const units = ['usd', 'requests', 'tokens', 'concurrent'] as const;
const windows = ['minute', 'hour', 'day', 'week', 'month', 'total'] as const;
const endUsers = ['all', 'each'] as const;
const actions = ['refuse', 'alert'] as const;

/** The largest maximum, for nano-dollars and counts: sums with it still fit a signed 64-bit number. */
const maxMost = 9_000_000_000_000_000_000n;
const patternsMax = 1_000;

/** Reads and checks the fields of a new limit. `account`: the account that it will belong to. */
export function readNewLimit(
  message: NewLimitMessage | undefined,
  {
    accountId,
    locked,
    findListedId,
  }: { readonly accountId: number; readonly locked: boolean; readonly findListedId: FindListedId },
): NewLimit {
  if (message === undefined) throw invalidField('scope', 'is required');
  const scope = readChoice('scope.type', message.scope, scopes);
  const unit = readChoice('unit', message.unit, units);
  if (unit === 'concurrent' && message.window !== '') {
    throw invalidField('window', 'must be null: running requests have no window', message.window);
  }
  const window = unit === 'concurrent' ? null : readChoice('window', message.window, windows);
  const { max, ...settings } = readLimitChange(message.settings, unit, findListedId);
  if (max === undefined) throw invalidField('max', 'is required');
  const preset = { timeZone: 'UTC', models: null, endUsers: 'all', action: 'refuse', raised: null } as const;
  const scopeId = scope === 'account' && message.scopeId === 0n ? accountId : readScopeId(message.scopeId);
  return { ...preset, ...settings, max, accountId, scope, scopeId, unit, window, locked };
}

/** Returns the id of a scope; 0, which the ledger refuses as unknown, for an id that no key or group can have. */
function readScopeId(id: bigint): number {
  return id < 1n || id > BigInt(Number.MAX_SAFE_INTEGER) ? 0 : Number(id);
}

/** Reads and checks those fields of a limit that the caller has set. `unit`: the limit's unit. */
export function readLimitChange(
  message: SettingsMessage | undefined,
  unit: LimitUnit,
  findListedId: FindListedId,
): LimitChange {
  if (message === undefined) return {};
  const { timeZone, endUsers: users, action } = message;
  return defined({
    max: readMax('max', message, unit),
    timeZone: timeZone === undefined ? undefined : readTimeZone(timeZone),
    models: readModels(message, findListedId),
    endUsers: users === undefined ? undefined : readChoice('end_users', users, endUsers),
    action: action === undefined ? undefined : readChoice('action', action, actions),
    raised: readRaise(message, unit),
  });
}

function readChoice<const Names extends readonly string[]>(param: string, text: string, names: Names): Names[number] {
  const found = names.find(name => name === text);
  if (found === undefined) throw invalidField(param, `must be one of ${names.join(', ')}`, text);
  return found;
}

/** Returns the maximum in the limit's unit; undefined if none was given. */
function readMax(
  param: string,
  { max: count, maxNanoUsd }: { readonly max?: bigint | undefined; readonly maxNanoUsd?: bigint | undefined },
  unit: LimitUnit,
): bigint | undefined {
  const max = unit === 'usd' ? maxNanoUsd : count;
  if (max === undefined && maxNanoUsd !== undefined)
    throw invalidField(param, 'must be an integer', Number(maxNanoUsd) / 1e9);
  if (max === undefined && count !== undefined) throw invalidField(param, 'must be in nano-dollars', count.toString());
  if (max !== undefined && (max < 0n || max > maxMost)) throw invalidField(param, 'must be 0 or more', max.toString());
  return max;
}

/** Returns the name of a time zone in its usual case. Throws for anything else; an offset is refused too, because it does not say when clocks change. */
function readTimeZone(text: string): string {
  try {
    // Both are used: Intl refuses texts that only Temporal accepts, such as a time with a zone, but gives some zones older names.
    const isName = /^[A-Za-z]/.test(text) && new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions();
    if (isName) return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(text).timeZoneId;
  } catch {
    // Refused below, like any text that is not the name of a zone.
  }
  throw invalidField('time_zone', 'must be an IANA name, such as Europe/Berlin', text);
}

function readModels(message: SettingsMessage, findListedId: FindListedId): LimitSettings['models'] | undefined {
  if (message.allModels) return null;
  const models = message.models?.models;
  if (models === undefined) return undefined;
  if (models.length > patternsMax) throw invalidField('models', `must have at most ${patternsMax} entries`);
  return readModelPatterns('models', models, findListedId);
}

function readRaise({ raised, notRaised }: SettingsMessage, unit: LimitUnit): LimitSettings['raised'] | undefined {
  if (notRaised) return null;
  if (raised === undefined) return undefined;
  const max = readMax('raised.max', raised, unit);
  if (max === undefined) throw invalidField('raised.max', 'is required');
  return { max, untilMs: readUntil(raised) };
}

function readUntil({ untilMs }: LimitRaiseSettings): number {
  if (untilMs < 0n || untilMs > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw invalidField('raised.until', 'must be a time', untilMs.toString());
  }
  return Number(untilMs);
}

/** Converts a limit to its protobuf message. */
export function toLimit(row: LimitRow): MessageInitShape<typeof LimitSchema> {
  const { models, raised, resetsAtMs } = row;
  return {
    limitId: BigInt(row.limitId),
    accountId: BigInt(row.accountId),
    scope: row.scope,
    scopeId: BigInt(row.scopeId),
    unit: row.unit,
    window: row.window ?? '',
    timeZone: row.timeZone,
    max: row.max,
    endUsers: row.endUsers,
    action: row.action,
    locked: row.locked,
    used: row.used,
    held: row.held,
    remaining: row.remaining,
    createdAtMs: BigInt(row.createdAtMs),
    ...(models === null ? {} : { models: { models: [...models] } }),
    ...(raised === null ? {} : { raised: { max: raised.max, untilMs: BigInt(raised.untilMs) } }),
    ...(resetsAtMs === null ? {} : { resetsAtMs: BigInt(resetsAtMs) }),
  };
}
