import type { CachePricing, ImageTokenPricing, Pricing } from '../gen/tollgate/v1/catalog_pb.ts';
import type { ImageTokens } from './images/image-tokens.ts';
import type { PricedTool } from './priced-features.ts';

/**
 * Computes what requests cost, for both holds and settlements. Prices are in pico-dollars per token (10^-12 dollars: dollars per 1
 * million tokens times 10^6), factors in thousandths. The cost is the exact sum, rounded once, half up, to nano-dollars.
 * Source: docs/accounting.md "Prices and rounding".
 */

/** The kinds of cost lines; they do not overlap. */
export type LineKind = 'input' | 'cache_read' | 'cache_write_5m' | 'cache_write_1h' | 'output' | PieceKind | PricedTool;

/** The price of each kind of piece: an image, or a search of up to 100 documents. A model has a price for one kind at most. */
const pieceFields = {
  image: 'imageNanoUsd',
  search: 'searchNanoUsd',
} as const satisfies Readonly<Record<string, keyof Pricing>>;

const piecePrices = Object.values(pieceFields);

/** Kinds that are priced per piece. A request has pieces of one kind only. */
export type PieceKind = keyof typeof pieceFields;

/**
 * The prices that apply to one request, in pico-dollars per token (`image`: per piece). null: there is no price, and a usage of that kind can't be charged.
 */
export interface PriceSheet {
  readonly input: bigint | null;
  /** null: cached tokens are charged as uncached input. The same for the next two. */
  readonly cacheRead: bigint | null;
  readonly cacheWrite5m: bigint | null;
  readonly cacheWrite1h: bigint | null;
  readonly output: bigint | null;
  readonly image: bigint | null;
}

/** One line of a cost. */
export interface CostLine {
  readonly kind: LineKind;
  /** The number of tokens, or of pieces (images, searches). */
  readonly tokens: number;
  readonly pricePicoUsd: bigint;
  /** The price factor of the tier, in thousandths: 500, 1000 or 2000. */
  readonly multiplierPermille: number;
  /** A plan's discount, in thousandths. */
  readonly discountPermille: number;
}

/** The counts of a usage by kind of cost line. */
export interface PricedUsage {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite5m: number;
  readonly cacheWrite1h: number;
  readonly output: number;
  readonly images: number;
}

/**
 * What a request asks to write to a cache: nothing, or for how long at most; `short`: five minutes, or it does not say how long; `mixed_hour`: an hour, in a protocol whose usage does not divide what
 * was written by time.
 */
export type CacheWrites = 'none' | 'short' | 'half_hour' | 'hour' | 'mixed_hour' | 'half_day';

/** The same from the shortest to the longest. */
export const cacheWrites: readonly CacheWrites[] = ['none', 'short', 'half_hour', 'hour', 'mixed_hour', 'half_day'];

/**
 * Returns the prices of cached input. A lifetime without a price has that of the dearest. Providers count half hours and half days as one number with what is written for five minutes, so
 * that bucket has the price of the longest lifetime that was asked for.
 */
function cachePrices(
  caching: CachePricing | undefined,
  writes: CacheWrites,
): Pick<PriceSheet, 'cacheRead' | 'cacheWrite5m' | 'cacheWrite1h'> {
  const { readPicoUsd, write5mPicoUsd, write30mPicoUsd, write1hPicoUsd, write12hPicoUsd } = caching ?? {};
  const dearest = highest([write5mPicoUsd, write30mPicoUsd, write1hPicoUsd, write12hPicoUsd]);
  const halfHour = write30mPicoUsd ?? dearest;
  const short = write5mPicoUsd ?? dearest;
  const hour = write1hPicoUsd ?? dearest;
  const mixed: Readonly<Partial<Record<CacheWrites, bigint | undefined>>> = {
    half_hour: halfHour,
    mixed_hour: highest([short, hour]),
    half_day: highest([halfHour, write12hPicoUsd ?? dearest]),
  };
  return {
    cacheRead: readPicoUsd ?? null,
    cacheWrite5m: mixed[writes] ?? short ?? null,
    cacheWrite1h: hour ?? null,
  };
}

function highest(prices: readonly (bigint | undefined)[]): bigint | undefined {
  return prices.reduce(
    (most, each) => (each !== undefined && (most === undefined || each > most) ? each : most),
    undefined,
  );
}

function piecePrice(nanoUsd: bigint | undefined): bigint | null {
  return nanoUsd === undefined ? null : nanoUsd * 1000n;
}

/** Returns the price of a piece, in nano-dollars; undefined: the model has no pieces. */
export function findPiecePrice(pricing: Pricing): bigint | undefined {
  for (const field of piecePrices) if (pricing[field] !== undefined) return pricing[field];
  return undefined;
}

/**
 * Returns the prices of a request. `inputTokens`: all its input tokens, cached ones included; the highest threshold that they exceed decides the prices of the whole request. `writes`: what it asks to write to a cache.
 */
export function priceSheet(pricing: Pricing, inputTokens: number, writes: CacheWrites = 'none'): PriceSheet {
  let sheet: PriceSheet = {
    input: pricing.inputPicoUsd ?? null,
    output: pricing.outputPicoUsd ?? null,
    image: piecePrice(findPiecePrice(pricing)),
    ...cachePrices(pricing.caching, writes),
  };
  let passed = -1;
  for (const step of pricing.above) {
    if (inputTokens <= step.inputTokens || step.inputTokens <= passed) continue;
    passed = step.inputTokens;
    sheet = {
      input: step.inputPicoUsd,
      output: step.outputPicoUsd,
      image: sheet.image,
      ...cachePrices(step.caching, writes),
    };
  }
  return sheet;
}

/** The size or quality on which the price of an image depends; '': the default size or quality. */
export interface ImageTerms {
  readonly size: string;
  readonly quality: string;
}

/**
 * Returns the price of images of a size and quality: that of the first matching row of the model, else the model's general image price.
 */
export function imageSheet(pricing: Pricing, requested: ImageTerms): PriceSheet {
  const fits = (offered: string, wanted: string): boolean => offered === '' || offered === wanted;
  const match = pricing.images.find(row => fits(row.size, requested.size) && fits(row.quality, requested.quality));
  const sheet = priceSheet(pricing, 0);
  return match === undefined ? sheet : { ...sheet, image: match.imageNanoUsd * 1000n };
}

/**
 * Returns the cost lines of a usage, except those of 0 tokens. `piece`: the kind of its pieces. Throws if tokens have no price.
 */
export function costLines(
  usage: PricedUsage,
  sheet: PriceSheet,
  multiplierPermille: number,
  piece: PieceKind = 'image',
): CostLine[] {
  const lines: CostLine[] = [];
  for (const [kind, tokens, price] of listUsed(usage, sheet, piece)) {
    if (price === null) throw new Error(`no price for ${kind}`);
    lines.push({ kind, tokens, pricePicoUsd: price, multiplierPermille, discountPermille: 0 });
  }
  return lines;
}

/** Returns the kinds that have tokens, each with the number of tokens and their price (null: none). */
function listUsed(usage: PricedUsage, sheet: PriceSheet, piece: PieceKind): [LineKind, number, bigint | null][] {
  const rows: [LineKind, number, bigint | null][] = [
    ['input', usage.input, sheet.input],
    ['cache_read', usage.cacheRead, sheet.cacheRead ?? sheet.input],
    ['cache_write_5m', usage.cacheWrite5m, sheet.cacheWrite5m ?? sheet.input],
    ['cache_write_1h', usage.cacheWrite1h, sheet.cacheWrite1h ?? sheet.input],
    ['output', usage.output, sheet.output],
    [piece, usage.images, sheet.image],
  ];
  return rows.filter(([, tokens]) => tokens > 0);
}

/**
 * Returns the cost of the tokens of an image model, in nano-dollars. Cached input without a price is charged as the dearer input. `multiplierPermille`: a factor, in thousandths.
 */
export function imageTokensCost(tokens: ImageTokens, prices: ImageTokenPricing, multiplierPermille = 1000): bigint {
  const { textInputPicoUsd: text, imageInputPicoUsd: image, outputPicoUsd: output } = prices;
  const cached = prices.cachedInputPicoUsd ?? (text > image ? text : image);
  const rows: readonly (readonly [number, bigint])[] = [
    [tokens.textInput, text],
    [tokens.imageInput, image],
    [tokens.cachedInput, cached],
    [tokens.output, output],
  ];
  const factor = { kind: 'output', multiplierPermille, discountPermille: 0 } as const;
  return sumCost(rows.map(([count, pricePicoUsd]) => ({ ...factor, tokens: count, pricePicoUsd })));
}

/** The calls of one tool that the provider ran. Their price per call is the same for every tier, batch and plan. */
export interface ToolCharge {
  readonly tool: PricedTool;
  readonly calls: number;
  /** The price of one call. */
  readonly nanoUsd: bigint;
}

/** Returns the cost of calls of tools, in nano-dollars. */
export function costOfTools(charges: readonly ToolCharge[]): bigint {
  return charges.reduce((sum, { calls, nanoUsd }) => sum + BigInt(calls) * nanoUsd, 0n);
}

/** Returns calls of tools as cost lines. */
export function toolLines(charges: readonly ToolCharge[]): CostLine[] {
  return charges.map(({ tool, calls, nanoUsd }) => ({
    kind: tool,
    tokens: calls,
    pricePicoUsd: nanoUsd * 1000n,
    multiplierPermille: 1000,
    discountPermille: 0,
  }));
}

/** Returns a line's cost in units of 10^-18 dollars, exact. */
export function lineCostAtto(line: CostLine): bigint {
  const factor = BigInt(line.multiplierPermille) * BigInt(1000 - line.discountPermille);
  return BigInt(line.tokens) * line.pricePicoUsd * factor;
}

const attoPerNano = 1_000_000_000n;

/** Returns the exact sum of the lines, rounded once, half up, to nano-dollars. */
export function sumCost(lines: readonly CostLine[]): bigint {
  const atto = lines.reduce((sum, line) => sum + lineCostAtto(line), 0n);
  return (atto + attoPerNano / 2n) / attoPerNano;
}

/** The basis of a provider's expected charge: a usage, and what its prices depend on. */
export interface ProviderWork {
  readonly usage: PricedUsage;
  /** The input tokens of one upstream call, cached ones included. They select the price threshold. */
  readonly inputTokens: number;
  /** The price factor of the tier, in thousandths. */
  readonly multiplierPermille: number;
  /** True for an item of a batch, for which the provider may have another factor. */
  readonly isBatch: boolean;
  /** What the request asked to write to a cache; absent: nothing. */
  readonly writes?: CacheWrites | undefined;
  /** The size and quality of images; absent: there are none. */
  readonly imageTerms?: ImageTerms | undefined;
}

/**
 * Returns the provider's charge for a usage at the prices `cost` of its route, in nano-dollars; undefined if `cost` lacks a price that the usage needs, which happens if the configuration was reloaded in between.
 */
export function providerCost(cost: Pricing, work: ProviderWork): bigint | undefined {
  const { usage, inputTokens, imageTerms, isBatch, writes } = work;
  const sheet = imageTerms === undefined ? priceSheet(cost, inputTokens, writes) : imageSheet(cost, imageTerms);
  if (listUsed(usage, sheet, 'image').some(([, , price]) => price === null)) return undefined;
  const batchPermille = isBatch ? cost.batchPermille : undefined;
  return sumCost(costLines(usage, sheet, batchPermille ?? work.multiplierPermille));
}

/**
 * The order in which tokens are paid for: the first payer pays from the beginning, the second one pays the rest. A plan never pays for pieces. Source: docs/accounting.md "Who pays".
 */
const payingOrder: readonly LineKind[] = ['input', 'cache_write_5m', 'cache_write_1h', 'cache_read', 'output'];

/** How many tokens a plan pays for: the first or the last ones in the paying order. Money pays for the others. */
export interface PlanShare {
  readonly tokens: number;
  /** True: the plan pays for the first tokens. False: money pays first, and the plan pays for the last tokens. */
  readonly first: boolean;
}

/** A cost line, or a part of one, for which one payer pays. */
export interface SharedLine extends CostLine {
  /** True if the plan pays with its tokens, so that the line costs no money (`discountPermille` 1000). */
  readonly byPlan: boolean;
}

/** Splits the lines by payer and keeps their order. A line for which both pay becomes two lines. */
export function shareLines(lines: readonly CostLine[], plan: PlanShare): SharedLine[] {
  if (plan.tokens === 0) return lines.map(line => ({ ...line, byPlan: false }));
  const paid = new Map<LineKind, number>();
  let left = plan.tokens;
  for (const line of inPayingOrder(lines, plan.first)) {
    const tokens = Math.min(line.tokens, left);
    paid.set(line.kind, tokens);
    left -= tokens;
  }
  return lines.flatMap(line => {
    const tokens = paid.get(line.kind) ?? 0;
    const byPlan = { ...line, tokens, discountPermille: 1000, byPlan: true };
    const byMoney = { ...line, tokens: line.tokens - tokens, byPlan: false };
    return (plan.first ? [byPlan, byMoney] : [byMoney, byPlan]).filter(part => part.tokens > 0);
  });
}

/** Returns the sum of the lines' tokens, without pieces. */
export function sumTokens(lines: readonly CostLine[]): number {
  return lines.reduce((sum, line) => sum + (isPiece(line) ? 0 : line.tokens), 0);
}

/**
 * Returns how many tokens, from the beginning of the paying order, cost at most `nanoUsd`. For 0, only tokens with a price of 0 count.
 */
export function tokensWithin(lines: readonly CostLine[], nanoUsd: bigint): number {
  // The largest exact sum that rounds to `nanoUsd`.
  let atto = nanoUsd === 0n ? 0n : nanoUsd * attoPerNano + attoPerNano / 2n - 1n;
  let tokens = 0;
  for (const line of inPayingOrder(lines, true)) {
    const each = lineCostAtto({ ...line, tokens: 1 });
    const most = each === 0n ? BigInt(line.tokens) : atto / each;
    if (most < BigInt(line.tokens)) return tokens + Number(most);
    tokens += line.tokens;
    atto -= each * BigInt(line.tokens);
  }
  return tokens;
}

function inPayingOrder(lines: readonly CostLine[], forward: boolean): CostLine[] {
  const tokens = lines.filter(line => !isPiece(line));
  const sorted = tokens.sort((a, b) => payingOrder.indexOf(a.kind) - payingOrder.indexOf(b.kind));
  return forward ? sorted : sorted.reverse();
}

function isPiece({ kind }: CostLine): boolean {
  return Object.hasOwn(pieceFields, kind);
}
