import type { UsageBuckets } from '../ledger.ts';
import type { SumChange } from '../rows.ts';
import { codes, encode } from './codes.ts';

/** The columns of a sum, in the order of `sumUp`. */
export const sumColumns = [
  'account_id',
  'period',
  'grouped',
  'number',
  'group_id',
  'requests',
  'failed',
  'input',
  'cache_read',
  'cache_write_5m',
  'cache_write_1h',
  'output',
  'reasoning',
  'images',
  'cost',
  'written_off',
  'latency_ms',
  'provider_cost',
  'margin',
] as const;
/** How many of the columns identify a sum. */
export const sumKeyCount = 5;

const numberMax = 2 ** 21;
const groupedMax = 8;

/** The sums of a record's counts. */
interface Counts extends Record<keyof UsageBuckets, number> {
  requests: number;
  failed: number;
  latencyMs: number;
}

/** The amounts that a batch adds to one sum. */
interface Raise {
  readonly sum: SumChange;
  readonly counts: Counts;
  cost: bigint;
  writtenOff: bigint;
  /** Over the records with a known provider cost. */
  providerCost: bigint;
  /** Their debits minus that cost. */
  margin: bigint;
}

/** Returns the total of changes: each sum once, as values of `sumColumns`. */
export function sumUp(changes: readonly SumChange[]): (number | bigint)[][] {
  return groupChanges(changes).map(({ sum, counts, cost, writtenOff, providerCost, margin }) => {
    const { requests, failed, input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images, latencyMs } =
      counts;
    const place = [encode(codes.period, sum.period), encode(codes.grouped, sum.grouped), sum.number, sum.valueId];
    const tokens = [input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images];
    const money = [cost, writtenOff, latencyMs, providerCost, margin];
    return [sum.accountId, ...place, requests, failed, ...tokens, ...money];
  });
}

function groupChanges(changes: readonly SumChange[]): Raise[] {
  const raises: Raise[] = [];
  const known = new Map<number, Map<number, Raise>>();
  for (const sum of changes) {
    const kind = encode(codes.period, sum.period) * groupedMax + encode(codes.grouped, sum.grouped);
    const place = (sum.accountId * 2 * groupedMax + kind) * numberMax + sum.number;
    const groups = known.get(place) ?? new Map<number, Raise>();
    if (groups.size === 0) known.set(place, groups);
    let raise = groups.get(sum.valueId);
    if (raise === undefined) {
      const money = { cost: 0n, writtenOff: 0n, providerCost: 0n, margin: 0n };
      raise = { sum, counts: noCounts(), ...money };
      groups.set(sum.valueId, raise);
      raises.push(raise);
    }
    addTo(raise, sum);
  }
  return raises;
}

function noCounts(): Counts {
  const tokens = { input: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0, output: 0, reasoning: 0, images: 0 };
  return { ...tokens, requests: 0, failed: 0, latencyMs: 0 };
}

function addTo(raise: Raise, { usage }: SumChange): void {
  const { input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images, latencyMs } = usage;
  const { counts } = raise;
  counts.requests += 1;
  if (usage.state === 'upstream_failed') counts.failed += 1;
  counts.input += input;
  counts.cacheRead += cacheRead;
  counts.cacheWrite5m += cacheWrite5m;
  counts.cacheWrite1h += cacheWrite1h;
  counts.output += output;
  counts.reasoning += reasoning;
  counts.images += images;
  counts.latencyMs += latencyMs;
  raise.cost += usage.cost;
  raise.writtenOff += usage.writtenOff;
  if (usage.providerCost === null) return;
  raise.providerCost += usage.providerCost;
  raise.margin += usage.cost - usage.providerCost;
}
