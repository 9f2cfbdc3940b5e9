import type { CostLine } from '../generation/price.ts';

/** Queries for settled requests: lists and sums. */

/** Selects records, newest first. An absent field selects all. */
export interface ActivityFilter {
  readonly accountId: number;
  readonly limit: number;
  readonly offset: number;
  readonly model?: string;
  readonly keyId?: number;
  readonly tag?: { readonly name: string; readonly value: string };
  readonly endUser?: string;
  /** A group; includes its subgroups. */
  readonly groupId?: number;
  readonly provider?: string;
  /** A path of the public interface. */
  readonly endpoint?: string;
  readonly batchId?: string;
  readonly startMs?: number;
  readonly endMs?: number;
}

/** The fields by which sums can be grouped; `tag`: the values of one tag. */
export type AnalyticsGroup =
  | 'none'
  | 'model'
  | 'api_key'
  | 'provider'
  | 'endpoint'
  | 'group'
  | 'end_user'
  | { readonly tag: string };

/** Selects the requests to sum: a request must match all given fields. */
export interface AnalyticsFilter {
  readonly keyId?: number;
  readonly model?: string;
  readonly provider?: string;
  /** A path of the public interface. */
  readonly endpoint?: string;
  readonly endUser?: string;
  /** A group; includes its subgroups. */
  readonly groupId?: number;
  readonly tag?: { readonly name: string; readonly value: string };
}

/** Sums by UTC hour or day over the records that were admitted from `startMs` on and before `endMs`. An undefined time is no bound. */
export interface AnalyticsQuery extends AnalyticsFilter {
  readonly accountId: number;
  readonly startMs: number;
  readonly endMs: number | undefined;
  readonly granularity: 'hour' | 'day';
  readonly groupBy: AnalyticsGroup;
  /** Only these groups get rows of their own; all others are summed as one (`isRest`). Absent: each group has its own. */
  readonly largest?: LargestGroups;
  /** The most rows to return. */
  readonly limit: number;
  /** The most records to read one by one if the stored sums do not answer the query; absent: any number. */
  readonly recordsMax?: number;
}

/** The groups with the highest sums over the whole time span: how many, and which sum decides. */
export interface LargestGroups {
  readonly groups: number;
  readonly of: 'cost' | 'requests' | 'tokens' | 'failed';
}

/** Why no sums are returned: there are more than `limit` rows, or more than `recordsMax` records would have to be read. */
export type AnalyticsRefusal = 'too_many' | 'too_many_records';

/** The sums of one period, or of one value of the grouping in it. */
export interface AnalyticsRow {
  /** The beginning of the period. */
  readonly periodMs: number;
  /** The model, key, provider, endpoint, group, end user or tag value; null if the query does not group, or the requests have none. */
  readonly group: string | number | null;
  /** True if the row sums the groups that are not among the largest. */
  readonly isRest?: true;
  readonly requests: number;
  /** Requests whose state is `upstream_failed`. */
  readonly failed: number;
  readonly costNanoUsd: bigint;
  /** Summed over the requests whose provider cost is known: this cost, and the debited amount minus this cost. */
  readonly providerCostNanoUsd: bigint;
  readonly marginNanoUsd: bigint;
  readonly input: number;
  readonly cacheRead: number;
  /** Cache writes of all lifetimes. */
  readonly cacheWrite: number;
  readonly output: number;
  /** The sum of all latencies. */
  readonly latencyMs: number;
}

/** One line of the calculation of a cost, and who paid for it. */
export interface PaidLine extends CostLine {
  readonly paidBy: 'free' | 'subscription' | 'key_balance' | 'group_balance' | 'account';
}
