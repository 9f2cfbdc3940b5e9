import type { MessageInitShape } from '@bufbuild/protobuf';
import { GatewayError } from '../errors/gateway-error.ts';
import {
  AnalyticsGranularity,
  AnalyticsGroup,
  type GetAnalyticsRequestSchema,
  type ListActivityRequestSchema,
} from '../gen/tollgate/v1/account_pb.ts';
import { parseIsoTime } from '../lib/iso-time.ts';
import type { Query } from './query.ts';

/**
 * Queries and ids of the account endpoints. What is wrong throws `invalid_request` with a violation that names the parameter; parameters that are not
 * documented are ignored, as clients add their own. Source: decisions §3, §6.
 */

const activityLimit = { preset: 100, max: 1000 };
const offsetMax = 2 ** 32 - 1;
const idMax = BigInt(Number.MAX_SAFE_INTEGER);

const granularities = { hour: AnalyticsGranularity.HOUR, day: AnalyticsGranularity.DAY } as const;
const groups = {
  none: AnalyticsGroup.UNSPECIFIED,
  model: AnalyticsGroup.MODEL,
  api_key: AnalyticsGroup.API_KEY,
} as const;

/** A page of activity as asked for: `limit` and `offset` always say something. */
export type ActivityQuery = MessageInitShape<typeof ListActivityRequestSchema> & {
  readonly limit: number;
  readonly offset: number;
};

/** The page that a query asks for. */
export function readActivityQuery(query: Query): ActivityQuery {
  const keyId = single(query, 'api_key_id');
  return {
    limit: integer(query, 'limit', { min: 1, max: activityLimit.max }) ?? activityLimit.preset,
    offset: integer(query, 'offset', { min: 0, max: offsetMax }) ?? 0,
    model: single(query, 'model') ?? '',
    ...(keyId === undefined ? {} : { apiKeyId: keyOf(keyId) }),
    ...readSpan(query),
  };
}

/** The sums that a query asks for. */
export function readAnalyticsQuery(query: Query): MessageInitShape<typeof GetAnalyticsRequestSchema> {
  return {
    granularity: oneOf(query, 'granularity', granularities) ?? AnalyticsGranularity.DAY,
    groupBy: oneOf(query, 'group_by', groups) ?? AnalyticsGroup.UNSPECIFIED,
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

function keyOf(text: string): bigint {
  if (!/^\d{1,40}$/.test(text) || BigInt(text) < 1n) throw refuse('api_key_id', 'must be the id of a key', text);
  // No key has an id above: such a one has no records either.
  return BigInt(text) > idMax ? idMax : BigInt(text);
}

/** From `start` on and before `end`, to the millisecond: a finer start counts from the millisecond that it lies in, a finer end to that one's end. */
function readSpan(query: Query): { startMs?: bigint; endMs?: bigint } {
  const start = time(query, 'start')?.floorMs;
  const end = time(query, 'end')?.ceilMs;
  if (start !== undefined && end !== undefined && end < start) {
    throw refuse('end', 'must not be before start', single(query, 'end') ?? '');
  }
  return {
    ...(start === undefined ? {} : { startMs: BigInt(start) }),
    ...(end === undefined ? {} : { endMs: BigInt(end) }),
  };
}

function time(query: Query, parameter: string): ReturnType<typeof parseIsoTime> {
  const text = single(query, parameter);
  if (text === undefined) return undefined;
  const read = parseIsoTime(text);
  if (read === undefined) throw refuse(parameter, 'must be an ISO 8601 time, as 2026-11-21T10:00:00Z', text);
  return read;
}

function integer(query: Query, parameter: string, { min, max }: { min: number; max: number }): number | undefined {
  const text = single(query, parameter);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!/^\d{1,16}$/.test(text) || value < min || value > max) {
    throw refuse(parameter, `must be an integer from ${min} to ${max}`, text);
  }
  return value;
}

function oneOf<T>(query: Query, parameter: string, allowed: Readonly<Record<string, T>>): T | undefined {
  const text = single(query, parameter);
  if (text === undefined) return undefined;
  if (!Object.hasOwn(allowed, text)) throw refuse(parameter, `must be one of ${Object.keys(allowed).join(', ')}`, text);
  return allowed[text];
}

function single(query: Query, parameter: string): string | undefined {
  const value = query[parameter];
  if (value === undefined || typeof value === 'string') return value;
  throw refuse(parameter, 'must be sent once', value);
}

function refuse(parameter: string, message: string, input: string | readonly string[]): GatewayError {
  return new GatewayError('invalid_request', `Query parameter ${parameter}: ${message}.`, {
    param: parameter,
    violations: [{ path: [parameter], message, type: 'value_error', inputJson: JSON.stringify(input) }],
  });
}
