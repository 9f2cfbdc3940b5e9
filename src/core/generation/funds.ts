import type { Model, Pricing } from '../../gen/tollgate/v1/catalog_pb.ts';
import { type GenerateRequest, ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import { priceSheet, type PriceSheet } from '../../generation/price.ts';
import { estimateInput } from '../../generation/tokens.ts';
import type { FundsEstimate } from '../../ledger/ledger.ts';

/** Output tokens that a hold is taken and extended for at a time. Source: decisions §6. */
export const sliceTokens = 1024;
/** A request that can't pay for this many output tokens is refused. Source: decisions §6. */
const outputTokensLeast = 16;

/** Price factor of a tier in thousandths. */
export function multiplierOf(tier: ServiceTier): number {
  if (tier === ServiceTier.FLEX) return 500;
  return tier === ServiceTier.PRIORITY ? 2000 : 1000;
}

/** The client's output limit for one candidate, lowered to the model's; undefined where the client set none. */
export function clientLimit(request: GenerateRequest, model: Model): number | undefined {
  const { maxOutputTokens } = request;
  if (maxOutputTokens === undefined) return undefined;
  return Math.min(maxOutputTokens, model.maxOutputTokens ?? maxOutputTokens);
}

/** The most output tokens that a request can be answered with, all candidates together; Infinity where nothing limits them. */
export function outputTokensMost(request: GenerateRequest, model: Model): number {
  const limitOfOne = Math.min(clientLimit(request, model) ?? Infinity, model.maxOutputTokens ?? Infinity);
  return limitOfOne * (request.candidates ?? 1);
}

/** What a request is thought to cost, its input once for each of `calls`; undefined where it costs nothing, whatever it does. */
export function estimateFunds(
  request: GenerateRequest,
  model: Model,
  tier: ServiceTier,
  calls = 1,
): FundsEstimate | undefined {
  const { pricing } = model;
  if (pricing === undefined) throw new Error(`${model.id} has no prices`);
  const inputTokens = estimateInput(request) * calls;
  const sheets = reachableSheets(pricing, inputTokens / calls);
  const inputPico = dearest(
    sheets.flatMap(sheet => [sheet.input, sheet.cacheRead, sheet.cacheWrite5m, sheet.cacheWrite1h]),
  );
  const outputPico = dearest(sheets.map(sheet => sheet.output));
  if (inputPico === 0n && outputPico === 0n) return undefined;
  const multiplier = BigInt(multiplierOf(tier));
  // All candidates share the slice.
  const candidates = request.candidates ?? 1;
  const limit = outputTokensMost(request, model);
  const least = Math.max(outputTokensLeast, candidates, request.reasoning?.budgetTokens ?? 0);
  return {
    inputTokens,
    inputNanoUsd: ceilDivide(BigInt(inputTokens) * inputPico * multiplier, 1_000_000n),
    outputPicoUsd: ceilDivide(outputPico * multiplier, 1000n),
    outputTokensMin: Math.min(limit, least),
    outputTokensWanted: Math.min(limit, Math.max(sliceTokens, least)),
    plan: true,
    freeDaily: tier === ServiceTier.DEFAULT,
  };
}

/** The prices of every threshold that the estimate reaches: the real count may stay below it. */
function reachableSheets(pricing: Pricing, inputTokens: number): PriceSheet[] {
  const reached = pricing.above.filter(step => step.inputTokens < inputTokens);
  return [0, ...reached.map(step => step.inputTokens + 1)].map(tokens => priceSheet(pricing, tokens));
}

function dearest(prices: readonly (bigint | null)[]): bigint {
  return prices.reduce<bigint>((most, price) => (price !== null && price > most ? price : most), 0n);
}

function ceilDivide(value: bigint, by: bigint): bigint {
  return (value + by - 1n) / by;
}
