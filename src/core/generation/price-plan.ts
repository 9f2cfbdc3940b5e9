import type { Pricing } from '../../gen/tollgate/v1/catalog_pb.ts';
import { type CacheWrites, cacheWrites, priceSheet, type PriceSheet } from '../../generation/price.ts';

/** The highest prices that can apply to a request, in pico-dollars per token. */
export interface HighestPrices {
  readonly inputPico: bigint;
  readonly outputPico: bigint;
}

/** The same for all requests: the highest price of input depends on what they write to a cache. */
interface PriceBounds {
  readonly input: Readonly<Record<CacheWrites, bigint>>;
  readonly outputPico: bigint;
}

/** The prices above one threshold. */
interface Step extends PriceBounds {
  /** They apply to requests with more input tokens than this. */
  readonly above: number;
  /** By what a request asks to write to a cache. */
  readonly sheets: Readonly<Record<CacheWrites, PriceSheet>>;
}

/** A model's prices, prepared: for each threshold the prices above it, and the highest prices of that and all lower thresholds. */
export class PricePlan {
  /** Sorted by threshold, the lowest first. The first step is that of requests below all thresholds; its `above` is -1. */
  readonly #steps: readonly Step[];

  constructor(pricing: Pricing) {
    const thresholds = [-1, ...pricing.above.map(step => step.inputTokens)].sort((a, b) => a - b);
    let highest: PriceBounds = { input: byWrites(() => 0n), outputPico: 0n };
    this.#steps = thresholds.map(above => {
      const sheets = byWrites(writes => priceSheet(pricing, above + 1, writes));
      const before = highest.input;
      let shorter = 0n;
      const input = byWrites(writes => {
        shorter = max([before[writes], shorter, ...listInput(sheets[writes], writes)]);
        return shorter;
      });
      highest = { input, outputPico: max([highest.outputPico, sheets.none.output]) };
      return { above, sheets, ...highest };
    });
  }

  /** Returns the highest prices of all thresholds up to `inputTokens`. That number is an upper bound: the real count may not reach the last threshold, so lower thresholds count too. `writes`: what the request asks to write to a cache. */
  highestPrices(inputTokens: number, writes: CacheWrites): HighestPrices {
    const { input, outputPico } = this.#step(inputTokens);
    return { inputPico: input[writes], outputPico };
  }

  /** Returns the prices of a request with this many input tokens, cached ones included. `writes`: what it asks to write to a cache. */
  sheet(inputTokens: number, writes: CacheWrites = 'none'): PriceSheet {
    return this.#step(inputTokens).sheets[writes];
  }

  #step(inputTokens: number): Step {
    const step = this.#steps.findLast(({ above }) => inputTokens > above);
    if (step === undefined) throw new Error(`negative number of input tokens: ${inputTokens}`);
    return step;
  }
}

/** Returns a value for each lifetime, from the shortest to the longest. */
function byWrites<T>(make: (writes: CacheWrites) => T): Readonly<Record<CacheWrites, T>> {
  return Object.fromEntries(cacheWrites.map(writes => [writes, make(writes)])) as Record<CacheWrites, T>;
}

/** Returns the prices that a token of input can have. */
function listInput(
  { input, cacheRead, cacheWrite5m, cacheWrite1h }: PriceSheet,
  writes: CacheWrites,
): (bigint | null)[] {
  if (writes === 'none') return [input, cacheRead];
  return writes === 'hour' || writes === 'mixed_hour' ? [cacheWrite5m, cacheWrite1h] : [cacheWrite5m];
}

/** The plans, by the `Pricing` that they were made from. A reload replaces all `Pricing` objects, so their plans are dropped with them. */
const plans = new WeakMap<Pricing, PricePlan>();

/** Returns the plan of a model's prices, which is made at the first call. */
export function pricePlan(pricing: Pricing): PricePlan {
  let plan = plans.get(pricing);
  if (plan === undefined) {
    plan = new PricePlan(pricing);
    plans.set(pricing, plan);
  }
  return plan;
}

function max(prices: readonly (bigint | null)[]): bigint {
  return prices.reduce<bigint>((highest, price) => (price !== null && price > highest ? price : highest), 0n);
}
