import { GatewayError } from '../errors/gateway-error.ts';
import { AnalyticsGranularity, AnalyticsGroup, AnalyticsMeasure } from '../gen/tollgate/v1/account_pb.ts';
import { findTagFault } from '../generation/tags.ts';
import { parseIsoTime } from '../lib/iso-time.ts';
import { type Query, readInteger, readName, readText, refuse } from './query.ts';

/** Reads the queries and ids of the account endpoints. Source: docs/interfaces/account.md "Errors", "Activity". */

const pageLimit = { preset: 100, min: 1, max: 1000 };
const offsetMax = 2 ** 32 - 1;
const idMax = BigInt(Number.MAX_SAFE_INTEGER);
const groups = {
  none: AnalyticsGroup.UNSPECIFIED,
  model: AnalyticsGroup.MODEL,
  api_key: AnalyticsGroup.API_KEY,
  provider: AnalyticsGroup.PROVIDER,
  endpoint: AnalyticsGroup.ENDPOINT,
  group: AnalyticsGroup.GROUP,
  end_user: AnalyticsGroup.END_USER,
} as const;
const groupNames = Object.keys(groups) as (keyof typeof groups)[];
const tagPrefix = 'tag:';
const groupsMost = 1000;
const measures = {
  cost: AnalyticsMeasure.UNSPECIFIED,
  requests: AnalyticsMeasure.REQUESTS,
  tokens: AnalyticsMeasure.TOKENS,
  failed_requests: AnalyticsMeasure.FAILED,
} as const;
const measureNames = Object.keys(measures) as (keyof typeof measures)[];

/** Reads the requested part of a list from a query. */
export function readListPage(query: Query): { readonly limit: number; readonly offset: number } {
  return {
    limit: readInteger(query, 'limit', pageLimit) ?? pageLimit.preset,
    offset: readInteger(query, 'offset', { min: 0, max: offsetMax }) ?? 0,
  };
}

/** Reads the requested page of keys. */
export function readKeysQuery(query: Query) {
  return {
    ...readListPage(query),
    label: readText(query, 'q') ?? '',
    groupId: readIdFilter(query, 'group_id', 'group'),
  };
}

/** Reads the request whose payment is previewed. */
export function readNextQuery(query: Query) {
  return {
    model: readText(query, 'model') ?? '',
    inputTokens: readInteger(query, 'input_tokens', { min: 1, max: 10_000_000 }) ?? 0,
  };
}

/** Reads the requested limits. */
export function readLimitsQuery(query: Query) {
  const scope = readName(query, 'scope', ['account', 'group', 'key']) ?? '';
  const scopeId = readIdFilter(query, 'id', 'scope');
  if (scope === '' && scopeId !== 0n) throw refuse(query, 'scope', 'is required with id: account, group or key');
  return { scope, scopeId };
}

/** Reads the requested page. */
export function readPageQuery(query: Query) {
  return {
    ...readListPage(query),
    ...readSpan(query),
  };
}

/** Reads the requested page of a webhook's events. */
export function readDeliveriesQuery(query: Query) {
  return {
    ...readListPage(query),
    state: readName(query, 'state', ['pending', 'delivered', 'failed']) ?? '',
  };
}

/** Reads the requested page of activity. */
export function readActivityQuery(query: Query) {
  return {
    ...readPageQuery(query),
    ...readRequestFilter(query),
    batchId: readText(query, 'batch_id') ?? '',
  };
}

function readRequestFilter(query: Query) {
  return {
    model: readText(query, 'model') ?? '',
    apiKeyId: readIdFilter(query, 'api_key_id', 'key'),
    groupId: readIdFilter(query, 'group_id', 'group'),
    tag: readTagFilter(query),
    endUser: readText(query, 'end_user') ?? '',
    provider: readText(query, 'provider') ?? '',
    endpoint: readText(query, 'endpoint') ?? '',
  };
}

/** Reads the requested sums. */
export function readAnalyticsQuery(query: Query) {
  const isHourly = readName(query, 'granularity', ['hour', 'day']) === 'hour';
  return {
    granularity: isHourly ? AnalyticsGranularity.HOUR : AnalyticsGranularity.DAY,
    ...readGroupBy(query),
    ...readSpan(query),
    filter: readRequestFilter(query),
    groupsMax: readInteger(query, 'groups_max', { min: 1, max: groupsMost }) ?? 0,
    most: measures[readName(query, 'most', measureNames) ?? 'cost'],
  };
}

function readGroupBy(query: Query): { groupBy: AnalyticsGroup; tag: string } {
  const text = readText(query, 'group_by') ?? 'none';
  if (!text.startsWith(tagPrefix)) {
    const name = groupNames.find(each => each === text);
    if (name === undefined) throw refuse(query, 'group_by', `must be one of ${groupNames.join(', ')} or tag:NAME`);
    return { groupBy: groups[name], tag: '' };
  }
  const tag = text.slice(tagPrefix.length);
  if (findTagFault({ [tag]: '' }) !== undefined)
    throw refuse(query, 'group_by', 'must have the name of a tag after tag:');
  return { groupBy: AnalyticsGroup.TAG, tag };
}

function readTagFilter(query: Query): string {
  const text = readText(query, 'tag');
  if (text === undefined) return '';
  const at = text.indexOf(':');
  const isTag = at > 0 && findTagFault({ [text.slice(0, at)]: text.slice(at + 1) }) === undefined;
  if (!isTag) throw refuse(query, 'tag', 'must be a name and a value, as team:search');
  return text;
}

/**
 * Reads the id in a path; `name` is what it identifies ("key"). The core refuses integers that no id can have. Throws `invalid_request` if
 * it is not an integer.
 */
export function readPathId(text: string, name: string): bigint {
  if (text === '') throw new GatewayError('not_found', 'No such path, or not with this method.');
  if (!/^-?\d{1,40}$/.test(text)) {
    throw new GatewayError('invalid_request', `The ${name}’s id in the path must be an integer.`, {
      param: `${name}_id`,
    });
  }
  const id = BigInt(text);
  return id > idMax || id < 0n ? 0n : id;
}

/** Returns the id that the list is filtered by; 0: no filter. */
function readIdFilter(query: Query, parameter: string, name: string): bigint {
  const text = readText(query, parameter);
  if (text === undefined) return 0n;
  if (!/^\d{1,40}$/.test(text) || BigInt(text) < 1n) throw refuse(query, parameter, `must be the id of a ${name}`);
  // No id is above the maximum, so the filter finds nothing.
  return BigInt(text) > idMax ? idMax : BigInt(text);
}

/** Reads `start` (included) and `end` (excluded) as milliseconds. If they have more digits, the start is rounded down and the end up. */
function readSpan(query: Query): { startMs: bigint | undefined; endMs: bigint | undefined } {
  const startMs = readTime(query, 'start', 'floorMs');
  const endMs = readTime(query, 'end', 'ceilMs');
  if (startMs === undefined || endMs === undefined || endMs >= startMs) return { startMs, endMs };
  throw refuse(query, 'end', 'must not be before start');
}

function readTime(query: Query, parameter: string, bound: 'floorMs' | 'ceilMs'): bigint | undefined {
  const text = readText(query, parameter);
  if (text === undefined) return undefined;
  const time = parseIsoTime(text);
  if (time !== undefined) return BigInt(time[bound]);
  throw refuse(query, parameter, 'must be an ISO 8601 time, as 2026-11-21T10:00:00Z');
}
