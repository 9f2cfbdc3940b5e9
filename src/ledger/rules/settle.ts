import assert from 'node:assert/strict';
import {
  type CostLine,
  costLines,
  sumCost,
  costOfTools,
  shareLines,
  sumTokens,
  tokensWithin,
} from '../../generation/price.ts';
import type { SettleCommand, Settled, UsageBuckets, VoidReason } from '../ledger.ts';
import type { Hold, Rows, Usage } from '../rows.ts';
import { type Context, findOwner, present } from './context.ts';
import { drawsOnMoney, type Sources } from './grants.ts';
import { addWriteOff, releaseHold, voidHold } from './holds.ts';
import { bindRequest } from './bind-limits.ts';
import { tallyUsage } from './limits.ts';
import { writeOffFrom } from './suspensions.ts';
import { countSources, keepPayment } from './payments.ts';
import { listSums } from './sums.ts';

/** A settle command whose prices and provider are given by their ids. */
export interface ResolvedSettle extends SettleCommand {
  readonly priceId: number;
  readonly providerId: number;
}

/** Ends a request with a charge, once: a repeated settle gets the first reply, a settle with another charge is a `conflict`. */
export function settle(context: Context, settlement: ResolvedSettle, nowMs: number): Settled {
  const { rows } = context;
  const lines =
    settlement.costNanoUsd === undefined
      ? costLines(settlement.usage, settlement.prices, settlement.multiplierPermille)
      : [];
  const hold = rows.holds.get(settlement.id);
  if (hold === undefined) return settleAgain(rows, settlement, lines);
  const key = present(rows.keys.get(hold.keyId));
  const bound = bindRequest(rows, hold, nowMs);
  const left = countSources(keepPayment(context, key, { request: hold, bound }, nowMs));
  const { total, planTokens, cost } = splitCost(settlement, lines, hold, left);
  assert(cost >= 0n, 'a cost is not negative');
  const usage = makeUsage(settlement, hold, { cost, writtenOff: total - cost, planTokens });
  // If the upstream failed, the free daily request that pays is returned to the plan.
  const freeTaken = settlement.state !== 'upstream_failed';
  releaseHold(rows, hold, { debit: cost, planTokens, freeTaken, tally: () => tallyUsage(usage), bound }, nowMs);
  rows.usage.put(usage);
  for (const sum of listSums(rows, usage)) rows.raiseSum(sum);
  if (total > cost) {
    rows.accounts.put(writeOffFrom(context, findOwner(rows, hold), total - cost));
    addWriteOff(rows, hold, total - cost, nowMs);
  }
  return { kind: 'settled', costNanoUsd: cost, writtenOffNanoUsd: total - cost };
}

/** Ends a request's hold without a charge or a record. */
export function voidRequest({ rows }: Context, id: number, reason: VoidReason, nowMs: number): 'voided' | 'not_held' {
  const hold = rows.holds.get(id);
  if (hold !== undefined) voidHold(rows, hold, reason, nowMs);
  else if (rows.voided.get(id)?.reason !== reason || rows.usage.get(id) !== undefined) return 'not_held';
  return 'voided';
}

/** Returns the reply to a repeated settle: the original charge, as a `conflict` if the new one differs. */
function settleAgain(rows: Rows, settlement: ResolvedSettle, lines: readonly CostLine[]): Settled {
  const done = rows.usage.get(settlement.id);
  if (done === undefined) return { kind: 'not_held', costNanoUsd: 0n, writtenOffNanoUsd: 0n };
  const { cost, writtenOff } = done;
  const same =
    done.state === settlement.state &&
    haveSameTokens(done, settlement.usage) &&
    cost + writtenOff === sumMoneyCost(settlement, lines, done);
  return { kind: same ? 'settled' : 'conflict', costNanoUsd: cost, writtenOffNanoUsd: writtenOff };
}

type Shares = Pick<Usage, 'payers' | 'planTokens' | 'discountPermille'>;

/** Returns the part of the cost that money has to pay. */
function sumMoneyCost(settlement: ResolvedSettle, lines: readonly CostLine[], shares: Shares): bigint {
  const { payers, planTokens, discountPermille } = shares;
  if (payers === 'free_request') return 0n;
  if (settlement.costNanoUsd !== undefined) return settlement.costNanoUsd;
  const ofTools = costOfTools(settlement.tools ?? []);
  // Nearly always.
  if (planTokens === 0 && discountPermille === 0) return sumCost(lines) + ofTools;
  const shared = shareLines(lines, { tokens: planTokens, first: payers !== 'money_plan' });
  const byMoney = shared.filter(line => !line.byPlan).map(line => ({ ...line, discountPermille }));
  return sumCost(byMoney) + ofTools;
}

/**
 * Splits the cost between plan and money. Each payer pays what its hold covers, and more if it has more left. `total`: the part of money;
 * `cost`: the part of `total` that is debited; the rest is written off.
 */
function splitCost(
  settlement: ResolvedSettle,
  lines: readonly CostLine[],
  hold: Hold,
  left: Sources,
): { total: bigint; planTokens: number; cost: bigint } {
  const { payers, discountPermille } = hold;
  const covered = drawsOnMoney(payers) ? hold.held + left.nanoUsd : 0n;
  const forTokens = covered - costOfTools(settlement.tools ?? []);
  const planTokens = countPlanTokens(lines, hold, hold.planHeld + left.planTokens, forTokens > 0n ? forTokens : 0n);
  const total = sumMoneyCost(settlement, lines, { payers, planTokens, discountPermille });
  return { total, planTokens, cost: total < covered ? total : covered };
}

/** Returns how many tokens the plan pays for: as many as it can if it pays first, else those that money does not cover. */
function countPlanTokens(lines: readonly CostLine[], hold: Hold, planTokens: number, covered: bigint): number {
  const { payers, discountPermille } = hold;
  if (payers === 'money' || payers === 'free_request') return 0;
  const tokens = sumTokens(lines);
  if (payers !== 'money_plan') return Math.min(tokens, planTokens);
  const discountedLines = lines.map(line => ({ ...line, discountPermille }));
  return Math.min(tokens - tokensWithin(discountedLines, covered), planTokens);
}

function haveSameTokens(one: UsageBuckets, other: UsageBuckets): boolean {
  return (
    one.input === other.input &&
    one.cacheRead === other.cacheRead &&
    one.cacheWrite5m === other.cacheWrite5m &&
    one.cacheWrite1h === other.cacheWrite1h &&
    one.output === other.output &&
    one.reasoning === other.reasoning &&
    one.images === other.images
  );
}

function makeUsage(
  settlement: ResolvedSettle,
  hold: Hold,
  paid: Pick<Usage, 'cost' | 'writtenOff' | 'planTokens'>,
): Usage {
  const { usage } = settlement;
  return {
    id: hold.id,
    request: hold.request,
    accountId: hold.accountId,
    keyId: hold.keyId,
    modelId: hold.modelId,
    free: hold.free,
    text: hold.text,
    requests: hold.requests,
    endUserId: hold.endUserId,
    groups: hold.groups,
    tagsId: hold.tagsId,
    endpointId: hold.endpointId,
    batchId: hold.batchId,
    payer: hold.payer,
    payerGroup: hold.payerGroup,
    payers: hold.payers,
    period: hold.period,
    discountPermille: hold.discountPermille,
    admittedAtMs: hold.admittedAtMs,
    requested: hold.requested,
    admitted: hold.admitted,
    admittedTokens: hold.admittedTokens,
    expiresAtMs: hold.expiresAtMs,
    input: usage.input,
    cacheRead: usage.cacheRead,
    cacheWrite5m: usage.cacheWrite5m,
    cacheWrite1h: usage.cacheWrite1h,
    output: usage.output,
    reasoning: usage.reasoning,
    images: usage.images,
    state: settlement.state,
    usageSource: settlement.usageSource,
    ...toTierRow(settlement.serviceTier),
    cost: paid.cost,
    writtenOff: paid.writtenOff,
    priceId: settlement.costNanoUsd === undefined ? settlement.priceId : null,
    multiplierPermille: settlement.multiplierPermille,
    planTokens: paid.planTokens,
    latencyMs: Math.round(settlement.latencyMs),
    firstEventMs: settlement.firstEventMs === undefined ? null : Math.round(settlement.firstEventMs),
    providerId: settlement.providerId,
    attempts: settlement.attempts,
    providerCost: settlement.providerCostNanoUsd ?? null,
    timeline: settlement.timeline ?? null,
    tools: settlement.tools ?? [],
    unpriced: settlement.unpriced ?? [],
  };
}

function toTierRow(name: string): Pick<Usage, 'serviceTier' | 'tierName'> {
  const known = (['default', 'flex', 'priority'] as const).find(tier => tier === name);
  return known === undefined ? { serviceTier: 'named', tierName: name } : { serviceTier: known, tierName: null };
}
