import type { MessageInitShape } from '@bufbuild/protobuf';
import { GatewayError } from '../errors/gateway-error.ts';
import {
  AnalyticsGranularity,
  AnalyticsGroup,
  AnalyticsMeasure,
  type AnalyticsPeriodSchema,
  type GetAnalyticsRequest,
  type GetAnalyticsResponseSchema,
  type UsageSumsSchema,
} from '../gen/tollgate/v1/account_pb.ts';
import { findTagFault } from '../generation/tags.ts';
import type { AnalyticsQuery, AnalyticsRefusal, AnalyticsRow, LargestGroups, Ledger } from '../ledger/ledger.ts';
import { ownTurn } from '../lib/own-turn.ts';
import { invalidField } from './account-fields.ts';
import { readRequestFilter } from './request-filter.ts';

/** Sums of an account's settled requests. Source: docs/accounting.md "Records". */

const dayMs = 86_400_000;
const presetDays = 30;
/** The most sums of one response: enough for a year of hours, or a month of days for hundreds of keys. */
const seriesMax = 20_000;
/** From this many sums on, an answer gets a turn of the event loop of its own. */
const manySums = 50;
/** The most records that are summed one by one, which takes seconds in which other queries wait. */
const recordsMax = 2_000_000;

// A value that only a newer client knows is in neither table, and is refused.
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

const measures: Readonly<Partial<Record<AnalyticsMeasure, LargestGroups['of']>>> = {
  [AnalyticsMeasure.UNSPECIFIED]: 'cost',
  [AnalyticsMeasure.REQUESTS]: 'requests',
  [AnalyticsMeasure.TOKENS]: 'tokens',
  [AnalyticsMeasure.FAILED]: 'failed',
};

/** The sums that a caller requested. `showsMargin`: the caller is the operator and also sees the providers' charges. */
interface RequestedSums {
  readonly request: GetAnalyticsRequest;
  readonly nowMs: number;
  readonly showsMargin?: true;
}

/**
 * Returns the sums that a caller requested. Throws `validation_error` if a field is invalid, for example if `end` is before `start`, and `invalid_request` if there would be too many sums, or too many records to read for them.
 */
export async function readAnalytics(
  ledger: Pick<Ledger, 'analytics'>,
  of: Pick<AnalyticsQuery, 'accountId' | 'keyId'>,
  { request, nowMs, showsMargin }: RequestedSums,
): Promise<MessageInitShape<typeof GetAnalyticsResponseSchema>> {
  const query = toQuery(request, of, nowMs);
  const rows = await ledger.analytics(query);
  if (typeof rows === 'string') throw tooMuch(rows);
  // The sums take milliseconds, and those of several callers can come together from the reader's thread.
  if (rows.length > manySums) await ownTurn();
  const toRequestedSums = showsMargin === true ? toOperatorSums : toSums;
  return {
    metrics: toRequestedSums(rows),
    series: rows.map(row => toPeriod(row, query.groupBy, toRequestedSums([row]))),
  };
}

function tooMuch(refusal: AnalyticsRefusal): GatewayError {
  const isLong = refusal === 'too_many';
  const message = isLong
    ? `the series would have more than ${seriesMax} entries`
    : `more than ${recordsMax} requests would be read one by one`;
  return new GatewayError('invalid_request', `start: ${message}.`, {
    param: 'start',
    violations: [{ path: ['start'], message, type: 'too_long' }],
    tip: isLong
      ? 'Request a shorter time, days instead of hours, or fewer groups.'
      : 'Request a shorter time, or use one filter and no other grouping.',
  });
}

function toQuery(
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
  // `of` comes after the filter, so that the caller can't select other accounts or keys.
  return {
    ...(request.filter && readRequestFilter(request.filter)),
    ...of,
    startMs,
    endMs,
    granularity,
    groupBy,
    ...(request.groupsMax > 0 && { largest: { groups: request.groupsMax, of: readMeasure(request.most) } }),
    limit: seriesMax,
    recordsMax,
  };
}

function readMeasure(most: AnalyticsMeasure): LargestGroups['of'] {
  const of = measures[most];
  if (of === undefined) throw invalidField('most', 'must be cost, requests, tokens or failed_requests');
  return of;
}

/** Adds the rows up. */
function toSums(rows: readonly AnalyticsRow[]): MessageInitShape<typeof UsageSumsSchema> {
  const [only] = rows;
  if (only !== undefined && rows.length === 1) return toRowSums(only);
  const sum = (field: Exclude<keyof AnalyticsRow, 'periodMs' | 'group' | 'isRest' | MoneySum>): bigint =>
    BigInt(rows.reduce((total, row) => total + row[field], 0));
  return {
    requests: sum('requests'),
    failedRequests: sum('failed'),
    costNanoUsd: sumMoney(rows, 'costNanoUsd'),
    inputTokens: sum('input'),
    outputTokens: sum('output'),
    cacheWriteTokens: sum('cacheWrite'),
    cacheReadTokens: sum('cacheRead'),
    latencyMs: sum('latencyMs'),
  };
}

/** Returns the sums of one row. There can be thousands of rows. */
function toRowSums(row: AnalyticsRow): MessageInitShape<typeof UsageSumsSchema> {
  return {
    requests: BigInt(row.requests),
    failedRequests: BigInt(row.failed),
    costNanoUsd: row.costNanoUsd,
    inputTokens: BigInt(row.input),
    outputTokens: BigInt(row.output),
    cacheWriteTokens: BigInt(row.cacheWrite),
    cacheReadTokens: BigInt(row.cacheRead),
    latencyMs: BigInt(row.latencyMs),
  };
}

type MoneySum = 'costNanoUsd' | 'providerCostNanoUsd' | 'marginNanoUsd';

function sumMoney(rows: readonly AnalyticsRow[], field: MoneySum): bigint {
  return rows.reduce((total, row) => total + row[field], 0n);
}

/** Adds the rows up, with the providers' charges. */
function toOperatorSums(rows: readonly AnalyticsRow[]): MessageInitShape<typeof UsageSumsSchema> {
  return {
    ...toSums(rows),
    providerCostNanoUsd: sumMoney(rows, 'providerCostNanoUsd'),
    marginNanoUsd: sumMoney(rows, 'marginNanoUsd'),
  };
}

function readTagName(name: string): string {
  if (findTagFault({ [name]: '' }) === undefined) return name;
  throw invalidField('group_by', 'tag: must be followed by a tag’s name', name);
}

type Group = NonNullable<MessageInitShape<typeof AnalyticsPeriodSchema>['group']>;

function toPeriod(
  row: AnalyticsRow,
  groupBy: AnalyticsQuery['groupBy'],
  sums: MessageInitShape<typeof UsageSumsSchema>,
): MessageInitShape<typeof AnalyticsPeriodSchema> {
  const period = { timestampMs: BigInt(row.periodMs), sums, rest: row.isRest === true };
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
