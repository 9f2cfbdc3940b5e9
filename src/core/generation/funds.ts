import type { Model, Pricing } from '../../gen/tollgate/v1/catalog_pb.ts';
import { type GenerateRequest, ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import { holdToolCalls, readToolTerms } from '../../generation/tool-terms.ts';
import { type InputBounds, measureInput } from '../../generation/tokens.ts';
import type { FundsEstimate, TextEstimate } from '../../ledger/ledger.ts';
import { pricePlan } from './price-plan.ts';

/** The step in which output tokens are held. Source: docs/accounting.md "Holds". */
export const sliceTokens = 1024;
/** A request that can't pay for this many output tokens is refused. Source: docs/accounting.md "Holds". */
const outputTokensLeast = 16;

/** Price factor of a tier in thousandths. */
export function toMultiplier(tier: ServiceTier): number {
  if (tier === ServiceTier.FLEX) return 500;
  return tier === ServiceTier.PRIORITY ? 2000 : 1000;
}

/** The terms of an item of a batch. */
export interface BatchTerms {
  readonly tier: ServiceTier;
  /** Replaces the tier's factor, in thousandths. */
  readonly multiplierPermille: number;
}

/**
 * Returns the terms of batch items: sent at the flex tier if the model has one, whatever tier they name. Source:
 * docs/interfaces/files-and-batches.md "How items run".
 */
export function readBatchTerms({ pricing, serviceTiers }: Pick<Model, 'pricing' | 'serviceTiers'>): BatchTerms {
  const tier = serviceTiers.includes(ServiceTier.FLEX) ? ServiceTier.FLEX : ServiceTier.DEFAULT;
  return { tier, multiplierPermille: pricing?.batchPermille ?? toMultiplier(tier) };
}

/** Returns the client's output limit for one candidate, capped at the model's; undefined if the client set none. */
export function clientLimit(request: GenerateRequest, model: Model): number | undefined {
  const { maxOutputTokens } = request;
  if (maxOutputTokens === undefined) return undefined;
  return Math.min(maxOutputTokens, model.maxOutputTokens ?? maxOutputTokens);
}

/**
 * Returns the most output tokens that a request can produce, all candidates together; Infinity if nothing limits
 * them.
 */
export function outputTokensMost(request: GenerateRequest, model: Model): number {
  const limitOfOne = Math.min(clientLimit(request, model) ?? Infinity, model.maxOutputTokens ?? Infinity);
  return limitOfOne * (request.candidates ?? 1);
}

/** Tokens held for input that can't be counted, if the model's context is unknown. */
const contextTokensDefault = 200_000;

/**
 * Returns the input tokens that are held for one call of a request: the upper bound, or the model's whole context if part of the input
 * can't be counted.
 */
export function inputTokensHeld({ high, isSizeUnknown }: InputBounds, model: Pick<Model, 'contextLength'>): number {
  return isSizeUnknown ? Math.max(high, model.contextLength ?? contextTokensDefault) : high;
}

/** The inputs of a hold's estimate. */
export interface MeasuredInput {
  /** The upper bound of the input of one call. */
  readonly inputTokens: number;
  /** How many upstream calls the request is made of, each with the whole input. */
  readonly calls: number;
}

/** Estimates what a request costs, by the factor of `terms`, else of its tier; undefined if it is free whatever it produces. */
export function estimateFunds(
  request: GenerateRequest,
  model: Model,
  terms: BatchTerms | ServiceTier,
  { inputTokens, calls }: MeasuredInput = { inputTokens: inputTokensHeld(measureInput(request), model), calls: 1 },
): FundsEstimate | undefined {
  const { pricing } = model;
  if (pricing === undefined) throw new Error(`${model.id} has no prices`);
  const { inputPico, outputPico } = pricePlan(pricing).highestPrices(inputTokens);
  const toolsNanoUsd = holdTools(request, pricing, calls);
  const costsTokens = inputPico !== 0n || outputPico !== 0n;
  if (!costsTokens && toolsNanoUsd === 0n) return undefined;
  const { tier, multiplierPermille } =
    typeof terms === 'object' ? terms : { tier: terms, multiplierPermille: toMultiplier(terms) };
  const multiplier = BigInt(multiplierPermille);
  const text = estimateText(request, model, { inputTokens, calls });
  return {
    ...text,
    inputNanoUsd: ceilDivide(BigInt(text.inputTokens) * inputPico * multiplier, 1_000_000n),
    outputPicoUsd: ceilDivide(outputPico * multiplier, 1000n),
    toolsNanoUsd,
    plan: costsTokens,
    // A plan's free requests cover text only: a tool with a price is never free.
    freeDaily: toolsNanoUsd === 0n && tier === ServiceTier.DEFAULT && multiplierPermille === 1000,
  };
}

/** Returns the hold for calls of tools with a price of their own. */
function holdTools(request: GenerateRequest, pricing: Pricing, calls: number): bigint {
  const terms = readToolTerms(request, pricing);
  return terms.length === 0 ? 0n : holdToolCalls(terms, request, pricing, Math.max(calls, request.candidates ?? 1));
}

/** Estimates the tokens that a request takes: its input, and its first slice of output, which all candidates share. */
export function estimateText(
  request: GenerateRequest,
  model: Model,
  { inputTokens, calls }: MeasuredInput,
): TextEstimate {
  const limit = outputTokensMost(request, model);
  const least = Math.max(outputTokensLeast, request.candidates ?? 1, request.reasoning?.budgetTokens ?? 0);
  return {
    inputTokens: inputTokens * calls,
    outputTokensMin: Math.min(limit, least),
    outputTokensWanted: Math.min(limit, Math.max(sliceTokens, least)),
  };
}

/** Returns funds that hold all of an amount or nothing; undefined for 0, which needs no payer. */
export function fixedFunds(nanoUsd: bigint): FundsEstimate | undefined {
  if (nanoUsd === 0n) return undefined;
  const noOutput = { outputPicoUsd: 0n, outputTokensMin: 0, outputTokensWanted: 0 };
  return { inputTokens: 0, inputNanoUsd: nanoUsd, ...noOutput, plan: false };
}

function ceilDivide(value: bigint, by: bigint): bigint {
  return (value + by - 1n) / by;
}
