import type { PaidLine } from '../ledger/activity.ts';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { GatewayError, toGatewayError } from '../errors/gateway-error.ts';
import type {
  ActivityRecordSchema,
  ApiKeySchema,
  CostBucketSchema,
  RequestTimelineSchema,
  KeySettings as SettingsMessage,
} from '../gen/tollgate/v1/account_pb.ts';
import { Payer, RecordState as StateMessage } from '../gen/tollgate/v1/account_pb.ts';
import { UsageSource } from '../gen/tollgate/v1/event_pb.ts';
import { defined } from '../lib/defined.ts';
import { findTagFault } from '../generation/tags.ts';
import { toTierFields } from '../generation/service-tier.ts';
import { toUsage } from '../generation/usage-buckets.ts';
import type { KeyRow, KeySettings, RecordState, RequestTimeline, Tags, UsageRow } from '../ledger/ledger.ts';

/**
 * Converts keys, settings and records between the protobuf API and the ledger. Errors use the field names of the REST interface and the command line.
 */

/** Returns the listed id of the model that a name means. Throws `model_not_found` if there is none. */
export type FindListedId = (model: string) => string;

const labelMax = 200;
const metadataBytesMax = 4096;
const modelsMax = 1_000;
/** The largest limit in dollars: as nano-dollars it must fit the ledger's 64 bits. */
const limitMax = 9_000_000_000n;
/** The end of the year 9999, the last year that ISO 8601 writes with four digits. */
const timeMaxMs = 253_402_300_799_999n;
const idMax = BigInt(Number.MAX_SAFE_INTEGER);

/**
 * Converts an id of the protobuf API to the ledger's. Throws `not_found` for an id that the gateway can't have made. `what` names the object
 * ("API key").
 */
export function readId(id: bigint, what: string): number {
  if (id < 1n || id > idMax) throw notFound(what, id);
  return Number(id);
}

/** Returns the error for an id that does not exist or belongs to another account: callers must not be able to tell which. */
export function notFound(what: string, id: bigint | number | string): GatewayError {
  return new GatewayError('not_found', `There is no ${what} ${id}.`);
}

/** Returns the error for a field whose value is not allowed. `param` is the path of the field, with dots. */
export function invalidField(param: string, message: string, input?: unknown): GatewayError {
  const inputJson = input === undefined ? undefined : JSON.stringify(input);
  return new GatewayError('validation_error', `${param}: ${message}`, {
    param,
    violations: [{ path: param.split('.'), message, type: 'value_error', ...defined({ inputJson }) }],
  });
}

/**
 * Returns the row that the ledger returned. Throws the error for a refusal: no row or `not_found` (the message names `what` and `id`),
 * `no_group`, `closed`, or `insufficient` (`payer` has less money available than requested).
 */
export function requireRow<Row extends object>(
  row: Row | 'not_found' | 'no_group' | 'insufficient' | 'closed' | undefined,
  what: string,
  id: bigint | number | string,
  payer = 'the account',
): Row {
  if (row === undefined || row === 'not_found') throw notFound(what, id);
  if (row === 'closed') throw new GatewayError('conflict', 'The account is closed.');
  if (row === 'no_group') throw new GatewayError('not_found', 'There is no such group.', { param: 'group_id' });
  if (row !== 'insufficient') return row;
  const message = `Insufficient funds: ${payer} has less available than this amount. Money held by running requests is not available.`;
  const tip = 'Read the balances, and ask the operator to add credit: npx tollgate credits add ACCOUNT_ID DOLLARS.';
  throw new GatewayError('validation_error', message, { param: 'balance', tip });
}

/** Returns the text unchanged. Throws `validation_error` if it is blank or has more than `max` characters. */
export function checkText(param: string, text: string, max: number): string {
  if (text.trim() === '' || text.length > max) {
    throw invalidField(param, `must have 1 to ${max} characters, not only white space`, text.slice(0, max));
  }
  return text;
}

/** Checks and converts the settings of a key; names of models become listed ids. Throws `validation_error` for an invalid field. */
export function readSettings(message: SettingsMessage | undefined, findListedId: FindListedId): KeySettings {
  if (message === undefined) return {};
  const { label, dailyLimit, minuteLimit, useSubsFirst, fallbackToPayg } = message;
  if (label !== undefined && label.length > labelMax) {
    throw invalidField('label', `must have at most ${labelMax} characters`, label.slice(0, labelMax));
  }
  return defined({
    label,
    dailyLimit: readLimit('daily_limit', dailyLimit),
    minuteLimit: readLimit('minute_limit', minuteLimit),
    allowedModels: readAllowedModels(message, findListedId),
    balance: readBalance(message),
    useSubsFirst,
    fallbackToPayg,
    expiresAtMs: readExpiry(message),
    groupId: readGroupId(message.groupId, message.noGroup),
    tags: readTags(message.tags),
    metadata: readMetadata(message.metadataJson),
    lowBalance: readLowBalance(message.lowBalanceNanoUsd, message.noLowBalance),
    keepBodies: readKeepBodies(message.keepBodies),
    paused: message.paused,
  });
}

function readLimit(param: string, value: bigint | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (value > limitMax) throw invalidField(param, `must be at most ${limitMax}`, value.toString());
  return Number(value);
}

function readBalance({ noBalance, balanceNanoUsd }: SettingsMessage): KeySettings['balance'] | undefined {
  if (noBalance) return null;
  if (balanceNanoUsd !== undefined && balanceNanoUsd < 0n) throw invalidField('balance', 'must be 0 or more');
  return balanceNanoUsd;
}

/** Returns the balance below which an event is sent; null: no event; undefined: unchanged. */
export function readLowBalance(nanoUsd: bigint | undefined, none: boolean): bigint | null | undefined {
  if (none) return null;
  if (nanoUsd !== undefined && nanoUsd < 0n) throw invalidField('low_balance', 'must be 0 or more');
  return nanoUsd;
}

/** Returns which bodies are kept. Null: the configuration decides; undefined: unchanged. */
function readKeepBodies(text: string | undefined): KeySettings['keepBodies'] | undefined {
  if (text === undefined || text === '') return text === '' ? null : undefined;
  const known = keepBodies.find(each => each === text);
  if (known === undefined) throw invalidField('keep_bodies', `must be one of ${keepBodies.join(', ')}`, text);
  return known;
}

const keepBodies = ['off', 'errors', 'all'] as const;

function readExpiry({ neverExpires, expiresAtMs }: SettingsMessage): KeySettings['expiresAtMs'] | undefined {
  if (neverExpires) return null;
  if (expiresAtMs === undefined) return undefined;
  if (expiresAtMs < 0n || expiresAtMs > timeMaxMs) {
    throw invalidField('expires_at', 'must be a time from 1970 to the year 9999', expiresAtMs.toString());
  }
  return Number(expiresAtMs);
}

function readAllowedModels(
  message: SettingsMessage,
  findListedId: FindListedId,
): KeySettings['allowedModels'] | undefined {
  if (message.allowAllModels) return null;
  const models = message.allowedModels?.models;
  if (models === undefined) return undefined;
  if (models.length > modelsMax) throw invalidField('allowed_models', `must have at most ${modelsMax} entries`);
  return readModelNames('allowed_models', models, findListedId);
}

/** Returns the listed ids of the models in a field, without duplicates. Throws `validation_error` for an entry that names no model. */
export function readModelNames(field: string, models: readonly string[], findListedId: FindListedId): string[] {
  return [...new Set(models.map((model, index) => listedEntry(`${field}.${index}`, model, findListedId)))];
}

function listedEntry(param: string, model: string, findListedId: FindListedId): string {
  try {
    return findListedId(model);
  } catch (thrown) {
    const error = toGatewayError(thrown);
    if (error.code === 'internal') throw error;
    const inputJson = JSON.stringify(model.slice(0, labelMax));
    const violations = [{ path: param.split('.'), message: error.message, type: error.code, inputJson }];
    const facts = { param, tip: error.tip, violations, cause: error };
    throw new GatewayError('validation_error', `${param}: ${error.message}`, facts);
  }
}

/** Returns the id of the group in the settings. Null: no group; undefined: unchanged; 0: an id that no group can have. */
export function readGroupId(id: bigint | undefined, none: boolean): number | null | undefined {
  if (none) return null;
  if (id === undefined) return undefined;
  return id < 1n || id > idMax ? 0 : Number(id);
}

/** Returns the tags of the settings. Throws `validation_error` for invalid tags. */
export function readTags(message: { readonly tags: Readonly<Record<string, string>> } | undefined): Tags | undefined {
  if (message === undefined) return undefined;
  const fault = findTagFault(message.tags);
  if (fault !== undefined) throw invalidField('tags', fault, message.tags);
  return message.tags;
}

function readMetadata(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  if (Buffer.byteLength(text) > metadataBytesMax) throw invalidField('metadata', 'must be JSON of at most 4 KiB');
  const value = parseOrUndefined(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidField('metadata', 'must be an object');
  }
  return JSON.stringify(value);
}

function parseOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Converts a key to its protobuf message. `text` is the full key, which is returned only when the key is created or gets a new secret. */
export function toApiKey(row: KeyRow, text?: string): MessageInitShape<typeof ApiKeySchema> {
  const { balance, lastUsedAtMs, allowedModels, monthlyLimit, expiresAtMs } = row;
  return {
    apiKeyId: BigInt(row.keyId),
    accountId: BigInt(row.accountId),
    key: text ?? row.masked,
    createdAtMs: BigInt(row.createdAtMs),
    label: row.label,
    ...(row.dailyLimit === null ? {} : { dailyLimit: BigInt(row.dailyLimit) }),
    ...(row.minuteLimit === null ? {} : { minuteLimit: BigInt(row.minuteLimit) }),
    usageTodayNanoUsd: row.usageToday,
    usageMinute: BigInt(row.usageMinute),
    useSubsFirst: row.useSubsFirst,
    fallbackToPayg: row.fallbackToPayg,
    disabled: row.disabled,
    ...(balance === null ? {} : { balanceNanoUsd: balance }),
    ...(lastUsedAtMs === undefined ? {} : { lastUsedAtMs: BigInt(lastUsedAtMs) }),
    ...(allowedModels === null ? {} : { allowedModels: { models: [...allowedModels] } }),
    ...(monthlyLimit === undefined ? {} : { monthlyLimitNanoUsd: monthlyLimit }),
    ...(expiresAtMs === undefined ? {} : { expiresAtMs: BigInt(expiresAtMs) }),
    ...(row.groupId === null ? {} : { groupId: BigInt(row.groupId) }),
    tags: { ...row.tags },
    metadataJson: row.metadata,
    ...(row.lowBalance === null ? {} : { lowBalanceNanoUsd: row.lowBalance }),
    keepBodies: row.keepBodies ?? '',
    paused: row.paused,
    revoked: row.revoked,
  };
}

const states: Record<RecordState, StateMessage> = {
  completed: StateMessage.COMPLETED,
  incomplete: StateMessage.INCOMPLETE,
  client_aborted: StateMessage.CLIENT_ABORTED,
  upstream_failed: StateMessage.UPSTREAM_FAILED,
};

const payers: Record<PaidLine['paidBy'], Payer> = {
  free: Payer.FREE,
  subscription: Payer.SUBSCRIPTION,
  key_balance: Payer.KEY_BALANCE,
  group_balance: Payer.GROUP_BALANCE,
  account: Payer.ACCOUNT,
};

/** Converts a settled request to its protobuf message. `lines`: how its cost was calculated; absent: not requested. */
export function toRecord(
  row: UsageRow,
  lines: readonly PaidLine[] = [],
): MessageInitShape<typeof ActivityRecordSchema> {
  const { usage } = row;
  return {
    requestId: row.requestId,
    model: row.model,
    apiKeyId: BigInt(row.keyId),
    createdAtMs: BigInt(row.createdAtMs),
    costNanoUsd: row.costNanoUsd,
    writtenOffNanoUsd: row.writtenOffNanoUsd,
    state: states[row.state],
    usageSource: row.usageSource === 'reported' ? UsageSource.REPORTED : UsageSource.ESTIMATED,
    ...toTierFields(row.serviceTier),
    latencyMs: BigInt(row.latencyMs),
    usage: toUsage(usage),
    buckets: lines.map(toBucket),
    tags: { ...row.tags },
    ...(row.endUser === undefined ? {} : { endUser: row.endUser }),
    batchId: row.batchId ?? '',
    unpriced: [...row.unpriced],
    ...(row.timeline === undefined ? {} : { timeline: toTimeline(row.timeline) }),
  };
}

/** Converts a settled request for the operator: also with its cost at the provider. */
export function toOperatorRecord(
  row: UsageRow,
  lines: readonly PaidLine[] = [],
): MessageInitShape<typeof ActivityRecordSchema> {
  const { providerCostNanoUsd } = row;
  return { ...toRecord(row, lines), ...(providerCostNanoUsd === undefined ? {} : { providerCostNanoUsd }) };
}

function toTimeline({
  firstEventMs,
  attempts,
  extensions,
  ...timeline
}: RequestTimeline): MessageInitShape<typeof RequestTimelineSchema> {
  return {
    ...timeline,
    ...(firstEventMs === null ? {} : { firstEventMs: BigInt(firstEventMs) }),
    attempts: attempts.map(({ startedMs, firstEventMs: first, durationMs, status, ...others }) => ({
      ...others,
      startedMs: BigInt(startedMs),
      durationMs: BigInt(durationMs),
      ...(first === undefined ? {} : { firstEventMs: BigInt(first) }),
      ...(status === undefined ? {} : { status }),
    })),
    extensions: extensions.map(({ atMs, heldNanoUsd }) => ({ atMs: BigInt(atMs), heldNanoUsd })),
  };
}

function toBucket(line: PaidLine): MessageInitShape<typeof CostBucketSchema> {
  return {
    kind: line.kind,
    tokens: BigInt(line.tokens),
    pricePicoUsd: line.pricePicoUsd,
    multiplierPermille: line.multiplierPermille,
    discountPermille: line.discountPermille,
    paidBy: payers[line.paidBy],
  };
}
