import type { AnalyticsPeriod, UsageSums } from '../../../gen/tollgate/v1/account_pb.ts';
import type { Bar } from '../parts/bars.tsx';
import { periodText } from '../data/time.ts';
import { type Measure, shownGroups, type Span } from './search.ts';

/** Sums over requests. `cost` in nano-dollars; `latencyMs` is also a sum, not a mean. */
export interface Totals {
  readonly cost: bigint;
  readonly requests: bigint;
  readonly failed: bigint;
  readonly tokens: bigint;
  readonly latencyMs: bigint;
}

const nothing: Totals = { cost: 0n, requests: 0n, failed: 0n, tokens: 0n, latencyMs: 0n };
const hourMs = 3_600_000;

/** Returns the value that a period's requests have in common, for example the model or the key's id; '(none)' if it is empty or 0. */
export function groupName({ group }: AnalyticsPeriod): string {
  const value = group.value === undefined ? '' : String(group.value);
  return value === '' || value === '0' ? '(none)' : value;
}

/** Adds up periods. */
export function addUp(series: readonly AnalyticsPeriod[]): Totals {
  return series.reduce((sum, { sums }) => (sums === undefined ? sum : plus(sum, sums)), nothing);
}

function plus(sum: Totals, sums: UsageSums): Totals {
  return {
    cost: sum.cost + sums.costNanoUsd,
    requests: sum.requests + sums.requests,
    failed: sum.failed + sums.failedRequests,
    tokens: sum.tokens + sums.inputTokens + sums.outputTokens + sums.cacheReadTokens + sums.cacheWriteTokens,
    latencyMs: sum.latencyMs + sums.latencyMs,
  };
}

/** Returns the value of a measure, in nano-dollars, requests, tokens or ms. The mean latency is 0 if there are no requests. */
export function measured(measure: Measure, totals: Totals): bigint {
  if (measure === 'spend') return totals.cost;
  if (measure === 'requests') return totals.requests;
  if (measure === 'tokens') return totals.tokens;
  if (measure === 'errors') return totals.failed;
  return totals.requests === 0n ? 0n : totals.latencyMs / totals.requests;
}

/** A chart of a span, with its empty periods. Each of the largest groups has a colour, and all others share one. A mean has a single series, because means can't be stacked. */
export interface Chart {
  readonly bars: readonly Bar[];
  readonly series: readonly string[];
}

/** Returns the chart of a measure. */
export function toChart(series: readonly AnalyticsPeriod[], span: Span, measure: Measure): Chart {
  const names = measure === 'latency' ? ['all'] : largest(series, measure);
  // `shownGroups` is the index of the series that all other groups share.
  const seriesIndex = (period: AnalyticsPeriod): number => {
    if (measure === 'latency') return 0;
    const index = period.rest ? -1 : names.indexOf(groupName(period));
    return index === -1 ? shownGroups : index;
  };
  const steps = Array.from({ length: Math.round((span.endMs - span.startMs) / span.stepMs) }, (_, step) => {
    const startMs = span.startMs + step * span.stepMs;
    const own = series.filter(({ timestampMs }) => Number(timestampMs) === startMs);
    const parts = [...Map.groupBy(own, seriesIndex)].map(([color, periods]) => ({
      series: color,
      value: measured(measure, addUp(periods)),
    }));
    return { label: periodText(startMs, span.stepMs === hourMs), parts: parts.toSorted((a, b) => a.series - b.series) };
  });
  const hasRest = series.some(period => seriesIndex(period) === shownGroups);
  return { bars: steps, series: hasRest ? [...names, 'other'] : names };
}

/** Returns the names of the largest groups, largest first. */
function largest(series: readonly AnalyticsPeriod[], measure: Measure): string[] {
  const own = series.filter(({ rest }) => !rest);
  const sums = [...Map.groupBy(own, groupName)].map(([name, periods]) => ({
    name,
    value: measured(measure, addUp(periods)),
  }));
  const sorted = sums.toSorted((a, b) => (a.value < b.value ? 1 : a.value > b.value ? -1 : a.name < b.name ? -1 : 1));
  return sorted.slice(0, shownGroups).map(({ name }) => name);
}

/** Formats the value of the previous period and the change since: "before: 120 (+12.5 %)". */
export function compared(now: bigint, before: bigint, format: (value: bigint) => string): string {
  if (before === 0n) return 'before: none';
  const permille = Number(((now - before) * 1000n) / before);
  const change = permille === 0 ? '±0 %' : `${permille > 0 ? '+' : '−'}${Math.abs(permille / 10).toFixed(1)} %`;
  return `before: ${format(before)} (${change})`;
}

/** Returns the height of a bar. */
export function sumBar({ parts }: Bar): bigint {
  return parts.reduce((sum, { value }) => sum + value, 0n);
}
