import type { FundsEstimate } from '../ledger.ts';
import type { Payers } from '../rows.ts';

/**
 * How much of a request its payers can take on together. Pure. One payer pays the tokens from the beginning of the paying order as far as it can go, the
 * next one the rest, so that what they hold together pays every usage within the estimate.
 */

/** What the payers can still pay; 0 of one that takes no part. */
export interface Sources {
  readonly payers: Payers;
  readonly planTokens: number;
  readonly nanoUsd: bigint;
}

/** What is held for a request. */
export interface Grant {
  /** Of money, in nano-dollars. */
  readonly held: bigint;
  /** Output tokens, whoever pays; null: whatever it does, it costs nothing. */
  readonly tokens: number | null;
  /** Of the plan: input and output tokens, and the output tokens alone. */
  readonly planHeld: number;
  readonly planOutput: number;
  /** The first payer could not pay the whole input: from then on the second pays alone. */
  readonly firstSpent: boolean;
}

/** What a hold has, as extensions see it. */
export type Extendable = Grant & { readonly payers: Payers; readonly outputPicoUsd: bigint };

/** More output tokens, by payer, and what the money for them is. */
export interface More {
  readonly byPlan: number;
  readonly byMoney: number;
  readonly nanoUsd: bigint;
}

const picoPerNano = 1000n;
const countMax = BigInt(Number.MAX_SAFE_INTEGER);

/** Whether the plan's tokens can pay. */
export function drawsOnPlan(payers: Payers): boolean {
  return payers === 'plan' || payers === 'plan_money' || payers === 'money_plan';
}

/** Whether money can pay. */
export function drawsOnMoney(payers: Payers): boolean {
  return payers === 'money' || payers === 'plan_money' || payers === 'money_plan';
}

/** What `tokens` cost at a price in pico-dollars, rounded up to the nano-dollar. */
export function costOfTokens(tokens: number, picoUsd: bigint): bigint {
  return ceilDivide(BigInt(tokens) * picoUsd, picoPerNano);
}

/**
 * How many tokens more than the `held` ones can be held for that much more money; Infinity where they cost nothing. Beyond what a number counts exactly, which no answer
 * reaches, it is the largest one that it does.
 */
export function tokensFor(nanoUsd: bigint, held: number, picoUsd: bigint): number {
  if (picoUsd === 0n) return Number.POSITIVE_INFINITY;
  const all = ((nanoUsd + costOfTokens(held, picoUsd)) * picoPerNano) / picoUsd;
  return Number(all < countMax ? all : countMax) - held;
}

/** What a plan takes off, rounded up in the customer's disfavour by less than a unit: holds are never too small. */
export function discounted(estimate: FundsEstimate, discountPermille: number): FundsEstimate {
  if (discountPermille === 0) return estimate;
  const factor = BigInt(1000 - discountPermille);
  return {
    ...estimate,
    inputNanoUsd: ceilDivide(estimate.inputNanoUsd * factor, 1000n),
    outputPicoUsd: ceilDivide(estimate.outputPicoUsd * factor, 1000n),
  };
}

/** The first slice that the sources pay, or how much money they lack it needs (0: the plan alone pays, and can't). */
export function grantOf(estimate: FundsEstimate, sources: Sources): Grant | { readonly lacks: bigint } {
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
    const need = atLeastOne(moneyInput + costOfTokens(moneyOutputMin, outputPicoUsd));
    if (sources.payers === 'plan' || sources.nanoUsd < need) return { lacks: sources.payers === 'plan' ? 0n : need };
  }
  const moneyOutputMax = sources.payers === 'plan' ? 0 : tokensFor(sources.nanoUsd - moneyInput, 0, outputPicoUsd);
  const tokens = sliceOf(estimate, planOutputMax + moneyOutputMax);
  const planOutput = Math.min(tokens, planOutputMax);
  const held = moneyInput + costOfTokens(tokens - planOutput, outputPicoUsd);
  return { held, tokens, planHeld: planInput + planOutput, planOutput, firstSpent };
}

function moneyFirst(estimate: FundsEstimate, sources: Sources): Grant | { readonly lacks: bigint } {
  const { inputTokens, inputNanoUsd, outputPicoUsd, outputTokensMin } = estimate;
  const { planTokens, nanoUsd } = sources;
  const least = atLeastOne(inputNanoUsd + costOfTokens(outputTokensMin, outputPicoUsd));
  if (nanoUsd >= atLeastOne(inputNanoUsd)) {
    const moneyOutputMax = tokensFor(nanoUsd - inputNanoUsd, 0, outputPicoUsd);
    if (moneyOutputMax + planTokens < outputTokensMin) return { lacks: least };
    const tokens = sliceOf(estimate, moneyOutputMax + planTokens);
    const planOutput = Math.max(0, tokens - moneyOutputMax);
    const held = inputNanoUsd + costOfTokens(tokens - planOutput, outputPicoUsd);
    return { held, tokens, planHeld: planOutput, planOutput, firstSpent: false };
  }
  const moneyInput = inputNanoUsd === 0n ? 0 : Number((nanoUsd * BigInt(inputTokens)) / inputNanoUsd);
  const planInput = inputTokens - moneyInput;
  const planOutputMax = planTokens - planInput;
  if (planTokens === 0 || planOutputMax < outputTokensMin) return { lacks: least };
  const tokens = sliceOf(estimate, planOutputMax);
  const held = inputCost(estimate, moneyInput);
  return { held, tokens, planHeld: planInput + tokens, planOutput: tokens, firstSpent: true };
}

/** How many of the wanted tokens the sources pay beside what is held. */
export function moreOf(hold: Extendable, wanted: number, sources: Sources): More {
  const moneyTokens = (hold.tokens ?? 0) - hold.planOutput;
  const { plan, money } = available(hold, sources);
  const moneyComesFirst = hold.payers === 'money' || hold.payers === 'money_plan';
  const byPlan = Math.min(moneyComesFirst ? Math.max(0, wanted - money) : wanted, plan);
  const byMoney = Math.min(wanted - byPlan, money);
  const price = hold.outputPicoUsd;
  const nanoUsd = byMoney === 0 ? 0n : costOfTokens(moneyTokens + byMoney, price) - costOfTokens(moneyTokens, price);
  return { byPlan, byMoney, nanoUsd };
}

/** Output tokens that the sources pay beside what is held; Infinity where they cost nothing. */
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

/** What that many of the estimated input tokens cost. Without any it is the price of what has no tokens. */
function inputCost({ inputTokens, inputNanoUsd }: FundsEstimate, tokens: number): bigint {
  return inputTokens === 0 ? 0n : ceilDivide(inputNanoUsd * BigInt(tokens), BigInt(inputTokens));
}

/** A request that costs next to nothing needs money all the same. */
function atLeastOne(nanoUsd: bigint): bigint {
  return nanoUsd > 0n ? nanoUsd : 1n;
}

function sliceOf({ outputTokensMin, outputTokensWanted }: FundsEstimate, most: number): number {
  return Math.max(outputTokensMin, Math.min(outputTokensWanted, most));
}

function ceilDivide(value: bigint, by: bigint): bigint {
  return (value + by - 1n) / by;
}
