import { GatewayError } from '../errors/gateway-error.ts';
import { AnalyticsGranularity, AnalyticsGroup } from '../gen/tollgate/v1/account_pb.ts';
import { parseIsoTime } from '../lib/iso-time.ts';
import { type Query, readInteger, readName, readText, refuse } from './query.ts';

/** Queries and ids of the account endpoints. Source: decisions §3, §6. */

const activityLimit = { preset: 100, min: 1, max: 1000 };
const offsetMax = 2 ** 32 - 1;
const idMax = BigInt(Number.MAX_SAFE_INTEGER);
const groups = {
  none: AnalyticsGroup.UNSPECIFIED,
  model: AnalyticsGroup.MODEL,
  api_key: AnalyticsGroup.API_KEY,
} as const;

/** Returns the page of activity that a query asks for. */
export function readActivityQuery(query: Query) {
  return {
    limit: readInteger(query, 'limit', activityLimit) ?? activityLimit.preset,
    offset: readInteger(query, 'offset', { min: 0, max: offsetMax }) ?? 0,
    model: readText(query, 'model') ?? '',
    apiKeyId: readKeyFilter(query),
    ...readSpan(query),
  };
}

/** Returns the sums that a query asks for. */
export function readAnalyticsQuery(query: Query) {
  const isHourly = readName(query, 'granularity', ['hour', 'day']) === 'hour';
  return {
    granularity: isHourly ? AnalyticsGranularity.HOUR : AnalyticsGranularity.DAY,
    groupBy: groups[readName(query, 'group_by', ['none', 'model', 'api_key']) ?? 'none'],
    ...readSpan(query),
  };
}

/** The key that a path names; an integer that no key can have is the contract's to refuse. Throws `invalid_request` for what is no integer. */
export function readKeyId(text: string): bigint {
  if (text === '') throw new GatewayError('not_found', 'No such path, or not with this method.');
  if (!/^-?\d{1,40}$/.test(text)) {
    throw new GatewayError('invalid_request', 'The key’s id in the path must be an integer.', { param: 'key_id' });
  }
  const id = BigInt(text);
  return id > idMax || id < 0n ? 0n : id;
}

/** Returns the key whose records are wanted; 0 for those of all. */
function readKeyFilter(query: Query): bigint {
  const text = readText(query, 'api_key_id');
  if (text === undefined) return 0n;
  if (!/^\d{1,40}$/.test(text) || BigInt(text) < 1n) throw refuse(query, 'api_key_id', 'must be the id of a key');
  // No key has an id above: such a one has no records either.
  return BigInt(text) > idMax ? idMax : BigInt(text);
}

/** From `start` on and before `end`, to the millisecond: a finer start counts from the millisecond that it lies in, a finer end to that one's end. */
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
