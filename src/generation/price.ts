import type { CachePricing, Pricing } from '../gen/tollgate/v1/catalog_pb.ts';

/**
 * The one function that prices: holds and settles both use it. Prices are pico-dollars a token (10^-12 dollars; dollars per 1 million
 * tokens times 10^6), factors thousandths; the cost is the exact sum, rounded once, half up, to the nano-dollar.
 * Source: decisions §6.
 */

/** The kinds of line items; they do not overlap. */
export type LineKind = 'input' | 'cache_read' | 'cache_write_5m' | 'cache_write_1h' | 'output' | PieceKind;

/** What is priced by the piece: a picture, or a search of up to 100 documents. A request has pieces of one kind only. */
export type PieceKind = 'image' | 'search';

/** The prices that apply to one request, in pico-dollars a token (`image`: a piece). null: no price, so no such line can be charged. */
export interface PriceSheet {
  readonly input: bigint | null;
  /** null: charged as uncached input. */
  readonly cacheRead: bigint | null;
  readonly cacheWrite5m: bigint | null;
  readonly cacheWrite1h: bigint | null;
  readonly output: bigint | null;
  readonly image: bigint | null;
}

/** One line of the arithmetic. */
export interface CostLine {
  readonly kind: LineKind;
  /** Tokens (pictures of an image line, searches of a search line). */
  readonly tokens: number;
  readonly pricePicoUsd: bigint;
  /** The tier's factor: 500, 1000 or 2000. */
  readonly multiplierPermille: number;
  /** What a plan takes off, in thousandths. */
  readonly discountPermille: number;
}

/** Token counts by line kind. */
export interface PricedUsage {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite5m: number;
  readonly cacheWrite1h: number;
  readonly output: number;
  readonly images: number;
}

function cacheOf(caching: CachePricing | undefined): Pick<PriceSheet, 'cacheRead' | 'cacheWrite5m' | 'cacheWrite1h'> {
  return {
    cacheRead: caching?.readPicoUsd ?? null,
    cacheWrite5m: caching?.write5mPicoUsd ?? null,
    cacheWrite1h: caching?.write1hPicoUsd ?? null,
  };
}

function piecePrice(nanoUsd: bigint | undefined): bigint | null {
  return nanoUsd === undefined ? null : nanoUsd * 1000n;
}

/** The prices of a request with that many input tokens, cached ones included: the highest passed threshold holds for all of it. */
export function priceSheet(pricing: Pricing, inputTokens: number): PriceSheet {
  let sheet: PriceSheet = {
    input: pricing.inputPicoUsd ?? null,
    output: pricing.outputPicoUsd ?? null,
    image: piecePrice(pricing.imageNanoUsd ?? pricing.searchNanoUsd),
    ...cacheOf(pricing.caching),
  };
  let passed = -1;
  for (const step of pricing.above) {
    if (inputTokens <= step.inputTokens || step.inputTokens <= passed) continue;
    passed = step.inputTokens;
    sheet = { input: step.inputPicoUsd, output: step.outputPicoUsd, image: sheet.image, ...cacheOf(step.caching) };
  }
  return sheet;
}

/** The sheet of pictures of that size and quality ('' for the defaults): the first of the model's own prices for such, else its price of any. */
export function imageSheet(pricing: Pricing, asked: { readonly size: string; readonly quality: string }): PriceSheet {
  const fits = (own: string, wanted: string): boolean => own === '' || own === wanted;
  const own = pricing.images.find(row => fits(row.size, asked.size) && fits(row.quality, asked.quality));
  const sheet = priceSheet(pricing, 0);
  return own === undefined ? sheet : { ...sheet, image: own.imageNanoUsd * 1000n };
}

/** The lines of a usage; buckets without tokens are left out. `piece`: how a line of pieces is called. Throws where a bucket has tokens but no price. */
export function costLines(
  usage: PricedUsage,
  sheet: PriceSheet,
  multiplierPermille: number,
  piece: PieceKind = 'image',
): CostLine[] {
  const rows: [LineKind, number, bigint | null][] = [
    ['input', usage.input, sheet.input],
    ['cache_read', usage.cacheRead, sheet.cacheRead ?? sheet.input],
    ['cache_write_5m', usage.cacheWrite5m, sheet.cacheWrite5m ?? sheet.input],
    ['cache_write_1h', usage.cacheWrite1h, sheet.cacheWrite1h ?? sheet.input],
    ['output', usage.output, sheet.output],
    [piece, usage.images, sheet.image],
  ];
  const lines: CostLine[] = [];
  for (const [kind, tokens, price] of rows) {
    if (tokens === 0) continue;
    if (price === null) throw new Error(`no price for ${kind}`);
    lines.push({ kind, tokens, pricePicoUsd: price, multiplierPermille, discountPermille: 0 });
  }
  return lines;
}

/** A line's cost in units of 10^-18 dollars, exact. */
export function lineCostAtto(line: CostLine): bigint {
  const factor = BigInt(line.multiplierPermille) * BigInt(1000 - line.discountPermille);
  return BigInt(line.tokens) * line.pricePicoUsd * factor;
}

const attoPerNano = 1_000_000_000n;

/** The exact sum of the lines, rounded once, half up, to nano-dollars. */
export function costOf(lines: readonly CostLine[]): bigint {
  const atto = lines.reduce((sum, line) => sum + lineCostAtto(line), 0n);
  return (atto + attoPerNano / 2n) / attoPerNano;
}

/** The order in which payers pay: the first pays from its beginning. A plan never pays pieces. Source: decisions §6, Subscription. */
const payingOrder: readonly LineKind[] = ['input', 'cache_write_5m', 'cache_write_1h', 'cache_read', 'output'];

/** How many tokens a plan pays, and from which end of the paying order; money pays the others. */
export interface PlanShare {
  readonly tokens: number;
  /** False: money pays first, and the plan the last of them. */
  readonly first: boolean;
}

/** A line, or the part of one, that one payer pays. */
export interface SharedLine extends CostLine {
  /** The plan pays it with tokens: as money it costs nothing (`discountPermille` 1000). */
  readonly byPlan: boolean;
}

/** The lines by who pays them, in their own order; one that both pay is two. */
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

/** The tokens of the lines: pieces are none. */
export function tokensOf(lines: readonly CostLine[]): number {
  return lines.reduce((sum, line) => sum + (isPiece(line) ? 0 : line.tokens), 0);
}

/** How many tokens, from the beginning of the paying order, cost no more than that; none but those without a price where it is 0. */
export function tokensWithin(lines: readonly CostLine[], nanoUsd: bigint): number {
  // The largest sum that is rounded to it.
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
  return kind === 'image' || kind === 'search';
}
