import type { Model, Pricing } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { hasTier, standardTier, tierFactor } from '../../generation/service-tier.ts';
import { countPasses, holdToolCalls, readToolTerms } from '../../generation/tool-terms.ts';
import { type InputBounds, measureInput } from '../../generation/tokens.ts';
import type { CacheWrites } from '../../generation/price.ts';
import type { FundsEstimate, TextEstimate } from '../../ledger/ledger.ts';
import { pricePlan } from './price-plan.ts';

/** How many output tokens are held at a time. Source: docs/accounting.md "Holds". */
export const sliceTokens = 1024;
/** A request that can't pay for this many output tokens is refused. Source: docs/accounting.md "Holds". */
const outputTokensLeast = 16;

/** Returns the price factor of a tier that a model has, in thousandths. */
export function toMultiplier(pricing: Pricing, tier: string): number {
  const factor = tierFactor(pricing, tier);
  if (factor === undefined) throw new Error(`no price for the tier ${tier}`);
  return factor;
}

/** The terms of an item of a batch. */
export interface BatchTerms {
  readonly tier: string;
  /** The price factor in thousandths; it replaces that of the tier. */
  readonly multiplierPermille: number;
}

/**
 * Returns the terms of items of batches. They are sent at the flex tier if the model has one, even if they request another tier. Source:
 * docs/interfaces/files-and-batches.md "How items run".
 */
export function readBatchTerms(model: Pick<Model, 'pricing' | 'serviceTiers'>): BatchTerms {
  const { pricing } = model;
  const tier = hasTier(model, 'flex') ? 'flex' : standardTier;
  return { tier, multiplierPermille: pricing?.batchPermille ?? (pricing ? toMultiplier(pricing, tier) : 1000) };
}

/** Returns the client's output limit for one candidate, capped at the model's; undefined if the client set none. */
export function clientLimit(request: GenerateRequest, model: Model): number | undefined {
  const { maxOutputTokens } = request;
  if (maxOutputTokens === undefined) return undefined;
  return Math.min(maxOutputTokens, model.maxOutputTokens ?? maxOutputTokens);
}

/**
 * Returns the most output tokens that all candidates of a request can have together; Infinity if nothing limits them.
 */
export function outputTokensMost(request: GenerateRequest, model: Model): number {
  const limitOfOne = Math.min(clientLimit(request, model) ?? Infinity, model.maxOutputTokens ?? Infinity);
  return limitOfOne * (request.candidates ?? 1);
}

/** The tokens that are held for input that can't be counted if the model's context length is unknown. */
const contextTokensDefault = 200_000;

/**
 * Returns the input tokens that are held for one upstream call: the upper bound of the input, or the model's whole context if part of the input can't be counted.
 */
export function inputTokensHeld({ high, isSizeUnknown }: InputBounds, model: Pick<Model, 'contextLength'>): number {
  return isSizeUnknown ? Math.max(high, model.contextLength ?? contextTokensDefault) : high;
}

/** The measured input of a request, from which its hold is estimated. */
export interface MeasuredInput {
  /** The upper bound of the input tokens of one upstream call. */
  readonly inputTokens: number;
  /** How many upstream calls the request is made of, each with the whole input. */
  readonly calls: number;
  /** The passes over the input that tools of the provider may cause; absent: none. */
  readonly passes?: ToolPasses | undefined;
  /** The tokens that it writes to a cache, which costs more; absent: nothing. */
  readonly cacheWrites?: CacheWrites | undefined;
}

/** Passes over an input: a provider that runs tools reads the input again with each result. */
export interface ToolPasses {
  readonly count: number;
  /** The most tokens of one pass: the model's context. */
  readonly tokens: number;
}

/** Returns the passes to hold for the tools that the provider may run; undefined: it runs none. */
export function toolPasses(request: GenerateRequest, { pricing, contextLength }: Model): ToolPasses | undefined {
  const count = pricing === undefined ? 0 : countPasses(request, pricing);
  return count === 0 ? undefined : { count, tokens: contextLength ?? contextTokensDefault };
}

/** Returns an input with half as many passes, for funds that don't reach further; at last only the first pass, as it was measured. Undefined: it has no fewer. */
export function withFewerPasses({ passes, ...measured }: MeasuredInput): MeasuredInput | undefined {
  if (passes === undefined) return undefined;
  return passes.count === 1 ? measured : { ...measured, passes: { ...passes, count: Math.floor(passes.count / 2) } };
}

/** Returns the input tokens that are held for one upstream call, all its passes together. */
function tokensOfPasses({ inputTokens, passes = { count: 0, tokens: 0 } }: MeasuredInput): number {
  return Math.max(inputTokens, passes.count * passes.tokens);
}

function measureFunds(request: GenerateRequest, model: Model): MeasuredInput {
  const bounds = measureInput(request);
  const { cacheWrites } = bounds;
  return { inputTokens: inputTokensHeld(bounds, model), calls: 1, passes: toolPasses(request, model), cacheWrites };
}

/** Estimates the funds that a request needs, at the price factor of its batch or else of its tier. Returns undefined if nothing that it can use costs anything. */
export function estimateFunds(
  request: GenerateRequest,
  model: Model,
  terms: BatchTerms | string,
  measured: MeasuredInput = measureFunds(request, model),
): FundsEstimate | undefined {
  const { pricing } = model;
  const { calls } = measured;
  if (pricing === undefined) throw new Error(`${model.id} has no prices`);
  const { inputPico, outputPico } = pricePlan(pricing).highestPrices(
    tokensOfPasses(measured),
    measured.cacheWrites ?? 'none',
  );
  const toolsNanoUsd = holdTools(request, pricing, calls);
  const costsTokens = inputPico !== 0n || outputPico !== 0n;
  if (!costsTokens && toolsNanoUsd === 0n) return undefined;
  const { tier, multiplierPermille } =
    typeof terms === 'object' ? terms : { tier: terms, multiplierPermille: toMultiplier(pricing, terms) };
  const multiplier = BigInt(multiplierPermille);
  const text = estimateText(request, model, measured);
  return {
    ...text,
    inputNanoUsd: ceilDivide(BigInt(text.inputTokens) * inputPico * multiplier, 1_000_000n),
    outputPicoUsd: ceilDivide(outputPico * multiplier, 1000n),
    toolsNanoUsd,
    plan: costsTokens,
    // A plan's free requests cover text only, not tools that have their own price.
    freeDaily: toolsNanoUsd === 0n && tier === standardTier && multiplierPermille === 1000,
  };
}

/** Returns the amount to hold for calls of tools that have their own price. */
function holdTools(request: GenerateRequest, pricing: Pricing, calls: number): bigint {
  const terms = readToolTerms(request, pricing);
  return terms.length === 0 ? 0n : holdToolCalls(terms, request, pricing, Math.max(calls, request.candidates ?? 1));
}

/** Estimates the tokens that count towards token limits: the input, and the first slice of output, which all candidates share. */
export function estimateText(request: GenerateRequest, model: Model, measured: MeasuredInput): TextEstimate {
  const limit = outputTokensMost(request, model);
  const least = Math.max(outputTokensLeast, request.candidates ?? 1, request.reasoning?.budgetTokens ?? 0);
  return {
    inputTokens: tokensOfPasses(measured) * measured.calls,
    outputTokensMin: Math.min(limit, least),
    outputTokensWanted: Math.min(limit, Math.max(sliceTokens, least)),
  };
}

/** Returns funds that are held in full or not at all; undefined for 0, because then nobody has to pay. */
export function fixedFunds(nanoUsd: bigint): FundsEstimate | undefined {
  if (nanoUsd === 0n) return undefined;
  const noOutput = { outputPicoUsd: 0n, outputTokensMin: 0, outputTokensWanted: 0 };
  return { inputTokens: 0, inputNanoUsd: nanoUsd, ...noOutput, plan: false };
}

function ceilDivide(value: bigint, by: bigint): bigint {
  return (value + by - 1n) / by;
}
