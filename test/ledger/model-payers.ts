import type { FundsEstimate, SettleCommand } from '../../src/ledger/ledger.ts';
import type { PlanPeriodName } from '../../src/ledger/plans.ts';

/** Computes how payers share the cost of a request, by trying numbers and by counting token by token. */

/** The payers, in the order in which they pay. */
export type Order = 'money' | 'plan' | 'plan_money' | 'money_plan' | 'free_request';

/** What the payers have left. */
export interface Left {
  readonly plan: number;
  readonly money: bigint;
}

/** What each payer pays. */
export interface Share {
  readonly planInput: number;
  readonly planOutput: number;
  readonly money: bigint;
}

/** Returns the cost in nano-dollars, rounded up. */
export function tokenCost(tokens: number, price: bigint): bigint {
  const pico = BigInt(tokens) * price;
  return pico % 1000n === 0n ? pico / 1000n : pico / 1000n + 1n;
}

/** Returns the largest number of tokens, in addition to the `held` ones, whose additional cost is at most `money`. Found by trying. */
export function mostTokens(money: bigint, held: number, price: bigint): number {
  if (price === 0n) return Infinity;
  return most(tokens => tokenCost(held + tokens, price) - tokenCost(held, price) <= money);
}

/** Returns the largest number that fits. 0 must fit, and no number above one that does not fit may fit. */
export function most(fits: (number: number) => boolean): number {
  let low = 0;
  let high = 1;
  while (fits(high)) high *= 2;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle;
  }
  return low;
}

/** Returns the cost of that many input tokens, rounded up. */
function inputCost({ inputNanoUsd, inputTokens }: FundsEstimate, tokens: number): bigint {
  const exact = inputNanoUsd * BigInt(tokens);
  return exact % BigInt(inputTokens) === 0n ? exact / BigInt(inputTokens) : exact / BigInt(inputTokens) + 1n;
}

/** Returns how the payers share the input and `output` output tokens; undefined if they can't pay for them. */
export function computeShare(order: Order, left: Left, funds: FundsEstimate, output: number): Share | undefined {
  const { inputTokens, inputNanoUsd, outputPicoUsd } = funds;
  const all = inputNanoUsd + tokenCost(output, outputPicoUsd);
  const byPlan = { planInput: inputTokens, planOutput: output, money: 0n };
  const planPays = left.plan > 0 && inputTokens + output <= left.plan;
  const byMoney = { planInput: 0, planOutput: 0, money: all };
  const moneyPays = left.money > 0n && all <= left.money;
  if (order === 'plan') return planPays ? byPlan : undefined;
  if (order === 'plan_money' && planPays) return byPlan;
  if (order === 'money' || moneyPays || left.plan === 0) {
    if (order !== 'plan_money' || left.plan === 0) return moneyPays ? byMoney : undefined;
  }
  if (order === 'plan_money') {
    const planInput = Math.min(left.plan, inputTokens);
    const planOutput = left.plan - planInput;
    const input = planInput === inputTokens ? 0n : inputCost(funds, inputTokens - planInput);
    const money = input + tokenCost(output - planOutput, outputPicoUsd);
    const mustPay = planInput < inputTokens || planOutput < funds.outputTokensMin;
    if (mustPay && left.money === 0n) return undefined;
    return money <= left.money ? { planInput, planOutput, money } : undefined;
  }
  if (left.money > 0n && inputNanoUsd <= left.money) {
    const moneyOutput = mostTokens(left.money - inputNanoUsd, 0, outputPicoUsd);
    const planOutput = output - moneyOutput;
    const money = inputNanoUsd + tokenCost(moneyOutput, outputPicoUsd);
    return planOutput <= left.plan ? { planInput: 0, planOutput, money } : undefined;
  }
  const moneyInput =
    left.money === 0n || inputTokens === 0 ? 0 : most(tokens => inputCost(funds, tokens) <= left.money);
  const planInput = inputTokens - moneyInput;
  const money = inputTokens === 0 ? 0n : inputCost(funds, moneyInput);
  return planInput + output <= left.plan ? { planInput, planOutput: output, money } : undefined;
}

/** Returns how many of the wanted tokens each payer pays for, computed token by token. */
export function shareMore(
  order: Order,
  left: Left,
  wanted: number,
  { moneyTokens, price }: { moneyTokens: number; price: bigint },
): { plan: number; money: number; nanoUsd: bigint } {
  let [plan, money] = [0, 0];
  const costs = (count: number): bigint => tokenCost(moneyTokens + count, price) - tokenCost(moneyTokens, price);
  for (let token = 0; token < wanted; token++) {
    const planCan = order !== 'money' && plan < left.plan;
    const moneyCan = order !== 'plan' && costs(money + 1) <= left.money;
    if (!planCan && !moneyCan) break;
    if (planCan && (order !== 'money_plan' || !moneyCan)) plan++;
    else money++;
  }
  return { plan, money, nanoUsd: costs(money) };
}

/** Yields the start of a plan, then the ends of its periods. */
export function* boundaries(startedAt: number, period: PlanPeriodName): Generator<number, never, undefined> {
  const start = new Date(startedAt);
  for (let number = 0; ; number++) {
    if (period === 'biweekly') {
      yield startedAt + number * 14 * 86_400_000;
      continue;
    }
    const month = start.getUTCMonth() + number;
    let day = start.getUTCDate();
    // A day that the month does not have, like February 30, becomes a day of the next month; earlier days are tried until the month is right.
    while (new Date(Date.UTC(start.getUTCFullYear(), month, day)).getUTCMonth() !== month % 12) day--;
    yield Date.UTC(start.getUTCFullYear(), month, day) + (startedAt % 86_400_000);
  }
}

/**
 * Returns the used tokens one by one in the order in which they are paid, each with its price in units of 10^-9
 * nano-dollars.
 */
function listTokens({ usage, prices, multiplierPermille }: SettleCommand, discountPermille: number): bigint[] {
  const factor = BigInt(multiplierPermille) * BigInt(1000 - discountPermille);
  const input = prices.input ?? 0n;
  const order: [number, bigint][] = [
    [usage.input, input],
    [usage.cacheWrite5m, prices.cacheWrite5m ?? input],
    [usage.cacheWrite1h, prices.cacheWrite1h ?? input],
    [usage.cacheRead, prices.cacheRead ?? input],
    [usage.output, prices.output ?? 0n],
  ];
  return order.flatMap(([count, price]) => Array.from({ length: count }, () => price * factor));
}

/** Rounds half up to the nano-dollar. */
function rounded(exact: bigint): bigint {
  const whole = exact / 1_000_000_000n;
  return exact % 1_000_000_000n >= 500_000_000n ? whole + 1n : whole;
}

/** Returns the cost of a request in money and plan tokens. `covered`: the money for it; `plan`: the tokens. */
export function makeBill(
  command: SettleCommand,
  order: Order,
  discountPermille: number,
  { plan, money: covered }: Left,
): { total: bigint; planTokens: number } {
  if (order === 'free_request') return { total: 0n, planTokens: 0 };
  if (command.costNanoUsd !== undefined) return { total: command.costNanoUsd, planTokens: 0 };
  const tokens = listTokens(command, discountPermille);
  let planTokens = order === 'money' ? 0 : Math.min(tokens.length, plan);
  if (order === 'money_plan') {
    let exact = 0n;
    let byMoney = 0;
    for (const price of tokens) {
      exact += price;
      if (exact > 0n && (covered === 0n || rounded(exact) > covered)) break;
      byMoney++;
    }
    planTokens = Math.min(tokens.length - byMoney, plan);
  }
  const moneys = order === 'money_plan' ? tokens.slice(0, tokens.length - planTokens) : tokens.slice(planTokens);
  const factor = BigInt(command.multiplierPermille) * BigInt(1000 - discountPermille);
  const images = BigInt(command.usage.images) * (command.prices.image ?? 0n) * factor;
  return { total: rounded(moneys.reduce((sum, price) => sum + price, images)), planTokens };
}
