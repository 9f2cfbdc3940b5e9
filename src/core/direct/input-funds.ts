import { noUsage } from '../../generation/usage-buckets.ts';
import type { PriceSheet } from '../../generation/price.ts';
import type { UsedUp } from '../admitted-run.ts';
import type { DirectEstimate } from './direct-kind.ts';

/** A request that is charged for its input alone. */
interface PricedInput {
  /** The input tokens, as the gateway counts them. */
  readonly inputTokens: number;
  readonly prices: PriceSheet;
  /** The price factor of a batch, in thousandths; absent: 1000. */
  readonly multiplierPermille?: number;
}

/** Returns the most that a request can use: its input. */
export function estimateInput({ inputTokens, prices, multiplierPermille = 1000 }: PricedInput): DirectEstimate {
  const text = { inputTokens, outputTokensMin: 0, outputTokensWanted: 0 };
  const picoUsd = prices.input ?? 0n;
  if (picoUsd === 0n) return { text, funds: undefined };
  const inputNanoUsd = (BigInt(inputTokens) * picoUsd * BigInt(multiplierPermille) + 999_999n) / 1_000_000n;
  // A plan's free daily requests cover only requests at the standard price.
  const freeDaily = multiplierPermille === 1000;
  return { text, funds: { ...text, inputNanoUsd, outputPicoUsd: 0n, plan: true, freeDaily } };
}

/** Returns the usage of an answer: the input tokens that the upstream reported, else `counted`, the gateway's count. A report of 0, or of more than `most`, which the model can't have read, is ignored. */
export function countInput(reported: number | undefined, counted: number, most: number): UsedUp {
  const isReported = reported !== undefined && reported > 0 && reported <= most;
  return {
    state: 'completed',
    usage: { ...noUsage, input: isReported ? reported : counted },
    usageSource: isReported ? 'reported' : 'estimated',
    ...(reported !== undefined &&
      reported > most && { doubt: { member: 'input_tokens', reported, believed: counted } }),
  };
}
