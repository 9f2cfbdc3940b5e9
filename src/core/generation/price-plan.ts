import type { Pricing } from '../../gen/tollgate/v1/catalog_pb.ts';
import { priceSheet, type PriceSheet } from '../../generation/price.ts';

/** The highest prices that can apply to a request, in pico-dollars a token. */
export interface HighestPrices {
  readonly inputPico: bigint;
  readonly outputPico: bigint;
}

/** The prices from one threshold on. */
interface Step extends HighestPrices {
  /** They apply to requests with more input tokens than this. */
  readonly above: number;
  readonly sheet: PriceSheet;
}

/** Precomputed from a model's prices: the sheet of each threshold, and the most expensive prices up to it. */
export class PricePlan {
  /** By threshold, the lowest first; the first step applies without any. */
  readonly #steps: readonly Step[];

  constructor(pricing: Pricing) {
    const thresholds = [-1, ...pricing.above.map(step => step.inputTokens)].sort((a, b) => a - b);
    let highest: HighestPrices = { inputPico: 0n, outputPico: 0n };
    this.#steps = thresholds.map(above => {
      const sheet = priceSheet(pricing, above + 1);
      const { input, cacheRead, cacheWrite5m, cacheWrite1h, output } = sheet;
      highest = {
        inputPico: max([highest.inputPico, input, cacheRead, cacheWrite5m, cacheWrite1h]),
        outputPico: max([highest.outputPico, output]),
      };
      return { above, sheet, ...highest };
    });
  }

  /** Returns the highest prices of every threshold that this many input tokens reach: the real count may stay below it. */
  highestPrices(inputTokens: number): HighestPrices {
    return this.#step(inputTokens);
  }

  /** Returns the prices of a request with this many input tokens, cached ones included. */
  sheet(inputTokens: number): PriceSheet {
    return this.#step(inputTokens).sheet;
  }

  #step(inputTokens: number): Step {
    const step = this.#steps.findLast(({ above }) => inputTokens > above);
    if (step === undefined) throw new Error('a request with fewer than no input tokens');
    return step;
  }
}

/** By the prices of the catalogue, which are replaced as a whole on a reload. */
const plans = new WeakMap<Pricing, PricePlan>();

/** Returns the plan of a model's prices, built on first use. */
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
