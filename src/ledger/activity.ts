import type { CostLine } from '../generation/price.ts';

/** Queries of settled requests: which are listed, and how they are summed. */

/** Newest first; absent filters mean any. */
export interface ActivityFilter {
  readonly accountId: number;
  readonly limit: number;
  readonly offset: number;
  readonly model?: string;
  readonly keyId?: number;
  readonly tag?: { readonly name: string; readonly value: string };
  readonly endUser?: string;
  /** A group, including its subgroups. */
  readonly groupId?: number;
  readonly provider?: string;
  /** A path of the public interface. */
  readonly endpoint?: string;
  readonly batchId?: string;
  readonly startMs?: number;
  readonly endMs?: number;
}

/** The values that sums can be grouped by; a tag by its values. */
export type AnalyticsGroup =
  | 'none'
  | 'model'
  | 'api_key'
  | 'provider'
  | 'endpoint'
  | 'group'
  | 'end_user'
  | { readonly tag: string };

/** Which requests are summed: those that pass all of the filters. Absent: any. */
export interface AnalyticsFilter {
  readonly keyId?: number;
  readonly model?: string;
  readonly provider?: string;
  /** A path of the public interface. */
  readonly endpoint?: string;
  readonly endUser?: string;
  /** A group, with those in it. */
  readonly groupId?: number;
  readonly tag?: { readonly name: string; readonly value: string };
}

/** Records admitted from `startMs` on and before `endMs` (undefined: whenever), summed by UTC hours or days. */
export interface AnalyticsQuery extends AnalyticsFilter {
  readonly accountId: number;
  readonly startMs: number;
  readonly endMs: number | undefined;
  readonly granularity: 'hour' | 'day';
  readonly groupBy: AnalyticsGroup;
  /** The groups with the most in the whole time have rows of their own, the others one row together; absent: each has its own. */
  readonly largest?: LargestGroups;
  /** The most rows. */
  readonly limit: number;
  /** The most records that are read one by one, if no stored sums fit; absent: any number. */
  readonly recordsMax?: number;
}

/** So many groups, which have the most of this. */
export interface LargestGroups {
  readonly groups: number;
  readonly of: 'cost' | 'requests' | 'tokens' | 'failed';
}

/** Why there are no sums: more than `limit` rows, or more than `recordsMax` records to read. */
export type AnalyticsRefusal = 'too_many' | 'too_many_records';

/** The sums of one period, or of one group in it. */
export interface AnalyticsRow {
  /** The beginning of the period. */
  readonly periodMs: number;
  /** The model, key, provider, endpoint, group, end user or tag value; null if the query does not group, or the requests have none. */
  readonly group: string | number | null;
  /** True: it is the sum of the groups that are not among the largest. */
  readonly isRest?: true;
  readonly requests: number;
  /** Requests whose state is `upstream_failed`. */
  readonly failed: number;
  readonly costNanoUsd: bigint;
  /** Over the requests whose provider cost is known: that cost, and what they were debited minus that cost. */
  readonly providerCostNanoUsd: bigint;
  readonly marginNanoUsd: bigint;
  readonly input: number;
  readonly cacheRead: number;
  /** With every lifetime. */
  readonly cacheWrite: number;
  readonly output: number;
  /** The sum of all latencies. */
  readonly latencyMs: number;
}

/** A step of the arithmetic and who paid it. */
export interface PaidLine extends CostLine {
  readonly paidBy: 'free' | 'subscription' | 'key_balance' | 'group_balance' | 'account';
}
