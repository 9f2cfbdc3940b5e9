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
const groups: Readonly<Partial<Record<AnalyticsGroup, AnalyticsQuery['groupBy']>>> = {
  [AnalyticsGroup.UNSPECIFIED]: 'none',
  [AnalyticsGroup.MODEL]: 'model',
  [AnalyticsGroup.API_KEY]: 'api_key',
};

/** Reads the sums that a caller asked for. Throws `validation_error` where the span is turned round, `invalid_request` where there are too many sums. */
export async function readAnalytics(
  ledger: Pick<Ledger, 'analytics'>,
  accountId: number,
  { request, nowMs }: { request: GetAnalyticsRequest; nowMs: number },
): Promise<MessageInitShape<typeof GetAnalyticsResponseSchema>> {
  const rows = await ledger.analytics(queryOf(request, accountId, nowMs));
  if (rows === 'too_many') {
    const message = `the series would have more than ${seriesMax} entries`;
    throw new GatewayError('invalid_request', `start: ${message}.`, {
      param: 'start',
      violations: [{ path: ['start'], message, type: 'too_long' }],
      tip: 'Ask for a shorter time, for days instead of hours, or for fewer groups.',
    });
  }
  return { metrics: toSums(rows), series: rows.map(periodOf) };
}

function queryOf(request: GetAnalyticsRequest, accountId: number, nowMs: number): AnalyticsQuery {
  const endMs = request.endMs === undefined ? undefined : Number(request.endMs);
  const startMs = request.startMs === undefined ? (endMs ?? nowMs) - presetDays * dayMs : Number(request.startMs);
  if (endMs !== undefined && endMs < startMs) throw invalidField('end', 'must not be before start');
  const granularity = granularities[request.granularity];
  if (granularity === undefined) throw invalidField('granularity', 'must be hour or day');
  const groupBy = groups[request.groupBy];
  if (groupBy === undefined) throw invalidField('group_by', 'must be none, model or api_key');
  return { accountId, startMs, endMs, granularity, groupBy, limit: seriesMax };
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

function periodOf(row: AnalyticsRow): MessageInitShape<typeof AnalyticsPeriodSchema> {
  const period = { timestampMs: BigInt(row.periodMs), sums: toSums([row]) };
  if (row.group === null) return period;
  if (typeof row.group === 'string') return { ...period, group: { case: 'model', value: row.group } };
  return { ...period, group: { case: 'apiKeyId', value: BigInt(row.group) } };
}
