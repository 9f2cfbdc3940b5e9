import type { FundsEstimate } from '../ledger.ts';
import type { Payers } from '../rows.ts';

/**
 * Computes how much of a request its payers can cover together. The first payer covers as many tokens as it can, the second one the rest,
 * so that their holds together cover every usage within the estimate. All functions here are pure.
 */

/** The amount that each payer can still pay; 0 for one that does not pay for this request. */
export interface Sources {
  readonly payers: Payers;
  readonly planTokens: number;
  readonly nanoUsd: bigint;
}

/** The hold of a request. */
export interface Grant {
  /** Money, in nano-dollars. */
  readonly held: bigint;
  /** Output tokens that all payers together cover; null: the request costs nothing. */
  readonly tokens: number | null;
  /** Tokens that are held of the plan: input and output together, and output alone. */
  readonly planHeld: number;
  readonly planOutput: number;
  /** True if the first payer could not pay for the whole input, so that only the second pays for the rest. */
  readonly firstSpent: boolean;
}

/** The facts about a hold that extensions need. */
export type Extendable = Grant & { readonly payers: Payers; readonly outputPicoUsd: bigint };

/** The output tokens that an extension adds, by payer, and the money for them. */
export interface More {
  readonly byPlan: number;
  readonly byMoney: number;
  readonly nanoUsd: bigint;
}

const picoPerNano = 1000n;
const countMax = BigInt(Number.MAX_SAFE_INTEGER);

/** Returns whether the plan's tokens can pay. */
export function drawsOnPlan(payers: Payers): boolean {
  return payers === 'plan' || payers === 'plan_money' || payers === 'money_plan';
}

/** Returns whether money can pay. */
export function drawsOnMoney(payers: Payers): boolean {
  return payers === 'money' || payers === 'plan_money' || payers === 'money_plan';
}

/** Returns the cost of `tokens` at a price in pico-dollars, rounded up to the nano-dollar. */
export function priceTokens(tokens: number, picoUsd: bigint): bigint {
  return ceilDivide(BigInt(tokens) * picoUsd, picoPerNano);
}

/**
 * Returns how many tokens can be held for `nanoUsd` in addition to the `held` ones; Infinity if they cost nothing. The sum of both is at most
 * the largest safe integer, which no answer reaches.
 */
export function tokensFor(nanoUsd: bigint, held: number, picoUsd: bigint): number {
  if (picoUsd === 0n) return Number.POSITIVE_INFINITY;
  const all = ((nanoUsd + priceTokens(held, picoUsd)) * picoPerNano) / picoUsd;
  return Number(all < countMax ? all : countMax) - held;
}

/** Returns an estimate after the plan's discount. Amounts are rounded up, so that a hold is never too small. */
export function discounted(estimate: FundsEstimate, discountPermille: number): FundsEstimate {
  if (discountPermille === 0) return estimate;
  const factor = BigInt(1000 - discountPermille);
  return {
    ...estimate,
    inputNanoUsd: ceilDivide(estimate.inputNanoUsd * factor, 1000n),
    outputPicoUsd: ceilDivide(estimate.outputPicoUsd * factor, 1000n),
  };
}

/** Returns the grant for the first slice, or how much money is missing (0: only the plan may pay, and its tokens are not enough). */
export function computeGrant(estimate: FundsEstimate, sources: Sources): Grant | { readonly lacks: bigint } {
  const { toolsNanoUsd = 0n } = estimate;
  if (toolsNanoUsd === 0n) return grantTokens(estimate, sources);
  // A plan can pay for tokens only.
  if (!drawsOnMoney(sources.payers)) return { lacks: 0n };
  if (sources.nanoUsd < toolsNanoUsd) {
    const rest = grantTokens(estimate, { ...sources, nanoUsd: 0n });
    return { lacks: toolsNanoUsd + ('lacks' in rest ? rest.lacks : 0n) };
  }
  const grant = grantTokens(estimate, { ...sources, nanoUsd: sources.nanoUsd - toolsNanoUsd });
  return 'lacks' in grant ? { lacks: grant.lacks + toolsNanoUsd } : { ...grant, held: grant.held + toolsNanoUsd };
}

function grantTokens(estimate: FundsEstimate, sources: Sources): Grant | { readonly lacks: bigint } {
  return sources.payers === 'money' || sources.payers === 'money_plan'
    ? moneyFirst(estimate, sources)
    : planFirst(estimate, sources);
}

function planFirst(estimate: FundsEstimate, sources: Sources): Grant | { readonly lacks: bigint } {
  const { inputTokens, outputPicoUsd, outputTokensMin } = estimate;
  const { planTokens } = sources;
  const planInput = Math.min(planTokens, inputTokens);
  const firstSpent = planTokens === 0 || planInput < inputTokens;
  const planOutputMax = planTokens - planInput;
  const moneyInput = planTokens === 0 ? estimate.inputNanoUsd : inputCost(estimate, inputTokens - planInput);

  const moneyOutputMin = Math.max(0, outputTokensMin - planOutputMax);
  if (firstSpent || moneyOutputMin > 0) {
    const need = atLeastOne(moneyInput + priceTokens(moneyOutputMin, outputPicoUsd));
    if (sources.payers === 'plan' || sources.nanoUsd < need) return { lacks: sources.payers === 'plan' ? 0n : need };
  }
  const moneyOutputMax = sources.payers === 'plan' ? 0 : tokensFor(sources.nanoUsd - moneyInput, 0, outputPicoUsd);
  const tokens = chooseSlice(estimate, planOutputMax + moneyOutputMax);
  const planOutput = Math.min(tokens, planOutputMax);
  const held = moneyInput + priceTokens(tokens - planOutput, outputPicoUsd);
  return { held, tokens, planHeld: planInput + planOutput, planOutput, firstSpent };
}

function moneyFirst(estimate: FundsEstimate, sources: Sources): Grant | { readonly lacks: bigint } {
  const { inputTokens, inputNanoUsd, outputPicoUsd, outputTokensMin } = estimate;
  const { planTokens, nanoUsd } = sources;
  const least = atLeastOne(inputNanoUsd + priceTokens(outputTokensMin, outputPicoUsd));
  if (nanoUsd >= atLeastOne(inputNanoUsd)) {
    const moneyOutputMax = tokensFor(nanoUsd - inputNanoUsd, 0, outputPicoUsd);
    if (moneyOutputMax + planTokens < outputTokensMin) return { lacks: least };
    const tokens = chooseSlice(estimate, moneyOutputMax + planTokens);
    const planOutput = Math.max(0, tokens - moneyOutputMax);
    const held = inputNanoUsd + priceTokens(tokens - planOutput, outputPicoUsd);
    return { held, tokens, planHeld: planOutput, planOutput, firstSpent: false };
  }
  const moneyInput = inputNanoUsd === 0n ? 0 : Number((nanoUsd * BigInt(inputTokens)) / inputNanoUsd);
  const planInput = inputTokens - moneyInput;
  const planOutputMax = planTokens - planInput;
  if (planTokens === 0 || planOutputMax < outputTokensMin) return { lacks: least };
  const tokens = chooseSlice(estimate, planOutputMax);
  const held = inputCost(estimate, moneyInput);
  return { held, tokens, planHeld: planInput + tokens, planOutput: tokens, firstSpent: true };
}

/** Returns how many of the wanted tokens the sources can pay beyond the hold. */
export function computeMore(hold: Extendable, wanted: number, sources: Sources): More {
  const moneyTokens = (hold.tokens ?? 0) - hold.planOutput;
  const { plan, money } = available(hold, sources);
  const moneyComesFirst = hold.payers === 'money' || hold.payers === 'money_plan';
  const byPlan = Math.min(moneyComesFirst ? Math.max(0, wanted - money) : wanted, plan);
  const byMoney = Math.min(wanted - byPlan, money);
  const price = hold.outputPicoUsd;
  const nanoUsd = byMoney === 0 ? 0n : priceTokens(moneyTokens + byMoney, price) - priceTokens(moneyTokens, price);
  return { byPlan, byMoney, nanoUsd };
}

/** Returns how many output tokens the sources can pay beyond the hold; Infinity if they cost nothing. */
export function tokensLeft(hold: Extendable, sources: Sources): number {
  if (hold.tokens === null) return Number.POSITIVE_INFINITY;
  const { plan, money } = available(hold, sources);
  return plan + money;
}

function available(hold: Extendable, sources: Sources): { plan: number; money: number } {
  const moneyTokens = (hold.tokens ?? 0) - hold.planOutput;
  const plan = drawsOnPlan(hold.payers) && !(hold.firstSpent && hold.payers !== 'money_plan');
  // A free request's output costs nothing.
  const money = hold.payers !== 'plan' && !(hold.firstSpent && hold.payers === 'money_plan');
  return {
    plan: plan ? Math.max(0, sources.planTokens) : 0,
    money: money ? Math.max(0, tokensFor(sources.nanoUsd, moneyTokens, hold.outputPicoUsd)) : 0,
  };
}

/** Returns the cost of `tokens` of the estimated input tokens. If there are no input tokens, returns the price of the input's other parts. */
function inputCost({ inputTokens, inputNanoUsd }: FundsEstimate, tokens: number): bigint {
  return inputTokens === 0 ? 0n : ceilDivide(inputNanoUsd * BigInt(tokens), BigInt(inputTokens));
}

/** Returns the amount, at least 1: a request that costs less than that still needs money. */
function atLeastOne(nanoUsd: bigint): bigint {
  return nanoUsd > 0n ? nanoUsd : 1n;
}

function chooseSlice({ outputTokensMin, outputTokensWanted }: FundsEstimate, most: number): number {
  return Math.max(outputTokensMin, Math.min(outputTokensWanted, most));
}

function ceilDivide(value: bigint, by: bigint): bigint {
  return (value + by - 1n) / by;
}
