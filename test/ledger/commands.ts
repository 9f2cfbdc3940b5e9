/** Commands of the ledger's tests, apart from `fixture.ts`, so that the processes that tests kill load little. */
import { createHash } from 'node:crypto';
import type { PriceSheet } from '../../src/generation/price.ts';
import type { AdmitCommand, FundsEstimate, SettleCommand, UsageBuckets } from '../../src/ledger/ledger.ts';
import type { Plans } from '../../src/ledger/plans.ts';

/** One dollar in nano-dollars. */
export const dollar = 1_000_000_000n;

/** The plans on sale. */
export const plans: Plans = {
  core: {
    biweekly: { priceNanoUsd: 6_990_000_000n, tokens: 15_000_000 },
    monthly: { priceNanoUsd: 15_990_000_000n, tokens: 35_000_000 },
    freeDailyRequests: 50,
    discountPermille: 0,
    models: null,
  },
  core_pro: {
    biweekly: { priceNanoUsd: 12_990_000_000n, tokens: 28_000_000 },
    monthly: { priceNanoUsd: 34_990_000_000n, tokens: 80_000_000 },
    freeDailyRequests: 150,
    discountPermille: 50,
    models: null,
  },
};

/** Returns the hash of a key from its name. */
export function makeHash(name: string): Uint8Array {
  return createHash('sha256').update(name).digest();
}

/** 1 dollar per million input tokens and 4 dollars per million output tokens, as pico-dollars per token. */
export const sheet: PriceSheet = {
  input: 1_000_000n,
  cacheRead: null,
  cacheWrite5m: null,
  cacheWrite1h: null,
  output: 4_000_000n,
  image: null,
};

export const noUsage: UsageBuckets = {
  input: 0,
  cacheRead: 0,
  cacheWrite5m: 0,
  cacheWrite1h: 0,
  output: 0,
  reasoning: 0,
  images: 0,
};

/** Returns the estimated cost of a request at the prices of `sheet`. */
export function estimate(change: Partial<FundsEstimate> = {}): FundsEstimate {
  return {
    inputTokens: 100,
    inputNanoUsd: 100_000n,
    outputPicoUsd: 4_000_000n,
    outputTokensMin: 16,
    outputTokensWanted: 1024,
    plan: true,
    ...change,
  };
}

/** Returns an estimate of an exact amount without output. */
export function amount(nanoUsd: bigint): FundsEstimate {
  return {
    inputTokens: 0,
    inputNanoUsd: nanoUsd,
    outputPicoUsd: 0n,
    outputTokensMin: 0,
    outputTokensWanted: 0,
    plan: false,
  };
}

/** Returns a command that admits a request with the key named `key`. */
export function makeAdmitCommand(id: number, change: Partial<AdmitCommand> = {}, key = 'key'): AdmitCommand {
  return {
    id,
    requestId: `req_${id}`,
    key: { hash: makeHash(key) },
    model: 'acme/large',
    free: false,
    funds: estimate(),
    ...change,
  };
}

/** Returns a command that settles a whole answer with 100 input and `output` output tokens at the prices of `sheet`. */
export function makeSettleCommand(id: number, output: number, change: Partial<SettleCommand> = {}): SettleCommand {
  return {
    id,
    state: 'completed',
    usage: { ...noUsage, input: 100, output },
    usageSource: 'reported',
    serviceTier: 'default',
    latencyMs: 250,
    firstEventMs: 50,
    provider: 'local',
    attempts: 1,
    prices: sheet,
    multiplierPermille: 1000,
    ...change,
  };
}

/** Returns a command that settles a request at a cost of exactly `nanoUsd`. */
export function settleAmount(id: number, nanoUsd: bigint, change: Partial<SettleCommand> = {}): SettleCommand {
  return makeSettleCommand(id, 0, { usage: noUsage, costNanoUsd: nanoUsd, ...change });
}
