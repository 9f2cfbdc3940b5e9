import type { MessageInitShape } from '@bufbuild/protobuf';
import { GatewayError } from '../errors/gateway-error.ts';
import {
  AnalyticsGranularity,
  AnalyticsGroup,
  type AnalyticsPeriodSchema,
  type GetAnalyticsRequest,
  type GetAnalyticsResponseSchema,
  type UsageSumsSchema,
} from '../gen/tollgate/v1/account_pb.ts';
import { findTagFault } from '../generation/tags.ts';
import type { AnalyticsQuery, AnalyticsRow, Ledger } from '../ledger/ledger.ts';
import { invalidField } from './account-fields.ts';

/** Sums of an account's settled requests. Source: decisions §6. */

const dayMs = 86_400_000;
const presetDays = 30;
/** The most sums that one answer has: a year of hours, or a month of days for hundreds of keys. */
const seriesMax = 20_000;

// A peer's newer value is in neither.
const granularities: Readonly<Partial<Record<AnalyticsGranularity, AnalyticsQuery['granularity']>>> = {
  [AnalyticsGranularity.UNSPECIFIED]: 'day',
  [AnalyticsGranularity.DAY]: 'day',
  [AnalyticsGranularity.HOUR]: 'hour',
};
const groups: Readonly<Partial<Record<AnalyticsGroup, Exclude<AnalyticsQuery['groupBy'], object>>>> = {
  [AnalyticsGroup.UNSPECIFIED]: 'none',
  [AnalyticsGroup.MODEL]: 'model',
  [AnalyticsGroup.API_KEY]: 'api_key',
  [AnalyticsGroup.PROVIDER]: 'provider',
  [AnalyticsGroup.ENDPOINT]: 'endpoint',
  [AnalyticsGroup.GROUP]: 'group',
  [AnalyticsGroup.END_USER]: 'end_user',
};

/** Reads the sums that a caller asked for. Throws `validation_error` where the span is turned round, `invalid_request` where there are too many sums. */
export async function readAnalytics(
  ledger: Pick<Ledger, 'analytics'>,
  of: Pick<AnalyticsQuery, 'accountId' | 'keyId'>,
  { request, nowMs }: { request: GetAnalyticsRequest; nowMs: number },
): Promise<MessageInitShape<typeof GetAnalyticsResponseSchema>> {
  const query = queryOf(request, of, nowMs);
  const rows = await ledger.analytics(query);
  if (rows === 'too_many') {
    const message = `the series would have more than ${seriesMax} entries`;
    throw new GatewayError('invalid_request', `start: ${message}.`, {
      param: 'start',
      violations: [{ path: ['start'], message, type: 'too_long' }],
      tip: 'Ask for a shorter time, for days instead of hours, or for fewer groups.',
    });
  }
  return { metrics: toSums(rows), series: rows.map(row => periodOf(row, query.groupBy)) };
}

function queryOf(
  request: GetAnalyticsRequest,
  of: Pick<AnalyticsQuery, 'accountId' | 'keyId'>,
  nowMs: number,
): AnalyticsQuery {
  const endMs = request.endMs === undefined ? undefined : Number(request.endMs);
  const startMs = request.startMs === undefined ? (endMs ?? nowMs) - presetDays * dayMs : Number(request.startMs);
  if (endMs !== undefined && endMs < startMs) throw invalidField('end', 'must not be before start');
  const granularity = granularities[request.granularity];
  if (granularity === undefined) throw invalidField('granularity', 'must be hour or day');
  const groupBy = request.groupBy === AnalyticsGroup.TAG ? { tag: readTagName(request.tag) } : groups[request.groupBy];
  if (groupBy === undefined) {
    throw invalidField('group_by', 'must be none, model, api_key, provider, endpoint, group, end_user or tag:NAME');
  }
  return { ...of, startMs, endMs, granularity, groupBy, limit: seriesMax };
}

/** Adds the rows up. */
function toSums(rows: readonly AnalyticsRow[]): MessageInitShape<typeof UsageSumsSchema> {
  const sum = (field: Exclude<keyof AnalyticsRow, 'periodMs' | 'group' | 'costNanoUsd'>): bigint =>
    BigInt(rows.reduce((total, row) => total + row[field], 0));
  return {
    requests: sum('requests'),
    failedRequests: sum('failed'),
    costNanoUsd: rows.reduce((total, row) => total + row.costNanoUsd, 0n),
    inputTokens: sum('input'),
    outputTokens: sum('output'),
    cacheWriteTokens: sum('cacheWrite'),
    cacheReadTokens: sum('cacheRead'),
    latencyMs: sum('latencyMs'),
  };
}

function readTagName(name: string): string {
  if (findTagFault({ [name]: '' }) === undefined) return name;
  throw invalidField('group_by', 'tag: must be followed by a tag’s name', name);
}

type Group = NonNullable<MessageInitShape<typeof AnalyticsPeriodSchema>['group']>;

function periodOf(
  row: AnalyticsRow,
  groupBy: AnalyticsQuery['groupBy'],
): MessageInitShape<typeof AnalyticsPeriodSchema> {
  const period = { timestampMs: BigInt(row.periodMs), sums: toSums([row]) };
  return row.group === null ? period : { ...period, group: toGroup(row.group, groupBy) };
}

function toGroup(group: string | number, groupBy: AnalyticsQuery['groupBy']): Group {
  const value = String(group);
  if (typeof groupBy === 'object') return { case: 'tagValue', value };
  switch (groupBy) {
    case 'api_key':
      return { case: 'apiKeyId', value: BigInt(group) };
    case 'group':
      return { case: 'groupId', value: BigInt(group) };
    case 'provider':
    case 'endpoint':
    case 'model':
      return { case: groupBy, value };
    case 'end_user':
      return { case: 'endUser', value };
    case 'none':
      return { case: undefined };
  }
}
