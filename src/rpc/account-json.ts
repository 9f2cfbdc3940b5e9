import {
  type ActivityRecord,
  type AnalyticsPeriod,
  type CostBucket,
  type GetAnalyticsResponse,
  type GetOwnKeyResponse,
  type NextPayment,
  type OwnAccount,
  type RequestTimeline,
  Payer,
  RecordState,
  type UsageSums,
} from '../gen/tollgate/v1/account_pb.ts';
import { UsageSource } from '../gen/tollgate/v1/event_pb.ts';
import { ServiceTier } from '../gen/tollgate/v1/request_pb.ts';
import { isoTime } from '../lib/clock.ts';
import { decimalText, jsonDollars as dollars } from '../lib/dollars.ts';
import { limitJson } from './resources.ts';

/** Converts the account, records and sums to the JSON of the REST interface: the fields of docs/accounting.md "Records", dollars as exact JSON numbers, times in ISO 8601. */

const states: Readonly<Record<RecordState, string>> = {
  [RecordState.UNSPECIFIED]: '',
  [RecordState.COMPLETED]: 'completed',
  [RecordState.INCOMPLETE]: 'incomplete',
  [RecordState.CLIENT_ABORTED]: 'client_aborted',
  [RecordState.UPSTREAM_FAILED]: 'upstream_failed',
};
const payers: Readonly<Record<Payer, string>> = {
  [Payer.UNSPECIFIED]: '',
  [Payer.FREE]: 'free',
  [Payer.SUBSCRIPTION]: 'subscription',
  [Payer.KEY_BALANCE]: 'key_balance',
  [Payer.GROUP_BALANCE]: 'group_balance',
  [Payer.ACCOUNT]: 'account',
};

function tierText({ serviceTier: tier, tierName }: ActivityRecord): string {
  if (tierName !== undefined) return tierName;
  if (tier === ServiceTier.FLEX) return 'flex';
  return tier === ServiceTier.PRIORITY ? 'priority' : 'default';
}

/** Returns an activity record. `input_tokens` are the uncached tokens, as in the Messages interface. */
export function recordJson(record: ActivityRecord): object {
  const { usage } = record;
  return {
    request_id: record.requestId,
    model: record.model,
    api_key_id: Number(record.apiKeyId),
    cost: dollars(record.costNanoUsd),
    created_at: isoTime(record.createdAtMs),
    state: states[record.state],
    service_tier: tierText(record),
    input_tokens: usage?.inputTokens ?? 0,
    output_tokens: usage?.outputTokens ?? 0,
    cache_creation_input_tokens: (usage?.cacheWrite5mTokens ?? 0) + (usage?.cacheWrite1hTokens ?? 0),
    cache_read_input_tokens: usage?.cacheReadTokens ?? 0,
    end_user: record.endUser ?? null,
    batch_id: record.batchId === '' ? null : record.batchId,
    tags: record.tags,
    unpriced: record.unpriced,
  };
}

/** Returns a record with the calculation of its cost: the exact sum of the costs of its buckets, rounded once, is `cost` plus `written_off`. */
export function arithmeticJson(record: ActivityRecord): object {
  return {
    ...recordJson(record),
    written_off: dollars(record.writtenOffNanoUsd),
    usage_source: record.usageSource === UsageSource.REPORTED ? 'reported' : 'estimated',
    latency_ms: Number(record.latencyMs),
    buckets: record.buckets.map(bucketJson),
    reasoning_tokens: record.usage?.reasoningTokens ?? 0,
    timeline: timelineJson(record.timeline),
  };
}

/** Returns the timeline of a request: its attempts and the growth of its hold. */
function timelineJson(timeline: RequestTimeline | undefined): object | null {
  if (timeline === undefined) return null;
  return {
    held_at_admission: dollars(timeline.admittedNanoUsd),
    first_event_ms: timeline.firstEventMs === undefined ? null : Number(timeline.firstEventMs),
    provider: timeline.provider,
    attempt_count: timeline.attemptCount,
    attempts: timeline.attempts.map(each => ({
      provider: each.provider,
      model: each.model,
      reason: each.reason === '' ? null : each.reason,
      started_ms: Number(each.startedMs),
      first_event_ms: each.firstEventMs === undefined ? null : Number(each.firstEventMs),
      duration_ms: Number(each.durationMs),
      result: each.result,
      status: each.status ?? null,
    })),
    extensions: timeline.extensions.map(({ atMs, heldNanoUsd }) => ({
      at_ms: Number(atMs),
      held: dollars(heldNanoUsd),
    })),
  };
}

/** The kinds of buckets that are priced per million tokens; all others are priced per piece or per call. */
const tokenKinds: ReadonlySet<string> = new Set(['input', 'cache_read', 'cache_write_5m', 'cache_write_1h', 'output']);

function bucketJson(bucket: CostBucket): object {
  const { kind, tokens, pricePicoUsd, multiplierPermille, discountPermille, paidBy } = bucket;
  const factor = BigInt(multiplierPermille) * BigInt(1000 - discountPermille);
  return {
    kind,
    tokens: Number(tokens),
    price: JSON.rawJSON(decimalText(pricePicoUsd, tokenKinds.has(kind) ? 6 : 12)),
    multiplier: multiplierPermille / 1000,
    discount: discountPermille / 1000,
    cost: JSON.rawJSON(decimalText(tokens * pricePicoUsd * factor, 18)),
    paid_by: payers[paidBy],
  };
}

/** Returns the sums of analytics. */
export function analyticsJson({ metrics, series }: GetAnalyticsResponse): object {
  return { metrics: sumsJson(metrics), series: series.map(periodJson) };
}

function periodJson({ timestampMs, group, sums, rest }: AnalyticsPeriod): object {
  const divided = typeof group.value === 'bigint' ? Number(group.value) : (group.value ?? null);
  const ofGroup = group.case === 'groupId' ? { group_id: divided } : {};
  return { timestamp: isoTime(timestampMs), group: divided, ...ofGroup, ...(rest && { rest }), ...sumsJson(sums) };
}

/** Returns what the holder of a key may see of it. */
export function ownKeyJson(key: GetOwnKeyResponse): object {
  return {
    api_key_id: Number(key.apiKeyId),
    key: key.key,
    label: key.label,
    group: key.group ?? null,
    expires_at: key.expiresAtMs === undefined ? null : isoTime(key.expiresAtMs),
    allowed_models: key.allowedModels?.models ?? null,
    limits: key.limits.map(limitJson),
    pays_from: payers[key.paysFrom] || null,
    spend_today: dollars(key.spendTodayNanoUsd),
    spend_month: dollars(key.spendMonthNanoUsd),
  };
}

/** Returns which limits apply to a key's next request, and who would pay for it. */
export function nextPaymentJson(payment: NextPayment): object {
  const { refusal, message, tip, outputTokens, refusingLimitId } = payment;
  return {
    api_key_id: Number(payment.apiKeyId),
    model: payment.model,
    input_tokens: payment.inputTokens,
    admitted: payment.admitted,
    refusal: payment.admitted
      ? null
      : { code: refusal, message, tip: tip === '' ? null : tip, limit_id: Number(refusingLimitId) || null },
    payers: payment.payers.map(({ payer, groupId, leftNanoUsd, leftTokens, resetsAtMs }) => ({
      payer: payers[payer],
      group_id: groupId === 0n ? null : Number(groupId),
      left: leftNanoUsd === undefined ? null : dollars(leftNanoUsd),
      left_tokens: leftTokens === undefined ? null : Number(leftTokens),
      resets_at: resetsAtMs === undefined ? null : isoTime(resetsAtMs),
    })),
    limits: payment.limits.map(limitJson),
    held: dollars(payment.heldNanoUsd),
    output_tokens: outputTokens === undefined ? null : Number(outputTokens),
  };
}

function sumsJson(sums: UsageSums | undefined): object {
  const requests = Number(sums?.requests ?? 0n);
  return {
    requests,
    failed_requests: Number(sums?.failedRequests ?? 0n),
    cost: dollars(sums?.costNanoUsd ?? 0n),
    input_tokens: Number(sums?.inputTokens ?? 0n),
    output_tokens: Number(sums?.outputTokens ?? 0n),
    cache_creation_input_tokens: Number(sums?.cacheWriteTokens ?? 0n),
    cache_read_input_tokens: Number(sums?.cacheReadTokens ?? 0n),
    average_latency_ms: requests === 0 ? 0 : Math.round((Number(sums?.latencyMs ?? 0n) / requests) * 1000) / 1000,
  };
}

/** Returns the caller's account, with amounts in dollars. `low_balance`: an event is sent when the balance falls below it; null: no event. */
export function ownAccountJson(account: OwnAccount) {
  const { lowBalanceNanoUsd: low } = account;
  return {
    account_id: Number(account.accountId),
    name: account.name,
    balance: dollars(account.balanceNanoUsd),
    low_balance: low === undefined ? null : dollars(low),
    created_at: isoTime(account.createdAtMs),
  };
}
