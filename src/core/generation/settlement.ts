import { Code, ConnectError } from '@connectrpc/connect';
import type { GatewayError } from '../../errors/gateway-error.ts';
import type { Model, Pricing } from '../../gen/tollgate/v1/catalog_pb.ts';
import { FinishReason } from '../../gen/tollgate/v1/event_pb.ts';
import type { RecordState, SettleCommand } from '../../ledger/ledger.ts';
import { stopping } from '../running-requests.ts';
import { toUnpriced } from '../unpriced.ts';
import type { UsageDoubt } from '../routing/route-findings.ts';
import { tierFactor } from '../../generation/service-tier.ts';
import { toMultiplier } from './funds.ts';
import { pricePlan } from './price-plan.ts';
import { type CacheWrites, providerCost, type ToolCharge } from '../../generation/price.ts';
import type { CountedUsage } from '../../generation/guard/tally.ts';
import { sumInput } from '../../generation/usage-buckets.ts';

/** How a generation ended, on which its charge depends. */
export type Outcome =
  | { readonly kind: 'answered'; readonly finishes: readonly FinishReason[] }
  /** The answer is no longer wanted. `error`: the reason, if the client is still connected; absent: the client disconnected. */
  | { readonly kind: 'client_gone'; readonly error?: GatewayError }
  /** The gateway's stop interrupted the answer. */
  | { readonly kind: 'interrupted' }
  | { readonly kind: 'failed'; readonly error: GatewayError };

/** Returns the client's error for a generation that ended without a complete answer. */
export function toClientError(outcome: Outcome): Error {
  if (outcome.kind === 'failed') return outcome.error;
  if (outcome.kind === 'client_gone' && outcome.error !== undefined) return outcome.error;
  return outcome.kind === 'interrupted' ? stopping() : new ConnectError('The call was cancelled.', Code.Canceled);
}

/** The command for the ledger: charge the usage (or nothing) under a state, or void the hold. */
export type Charge =
  | { readonly kind: 'usage'; readonly state: RecordState }
  | { readonly kind: 'nothing'; readonly state: RecordState }
  | { readonly kind: 'void'; readonly reason: 'rejected' | 'gateway_failure' | 'cancelled' };

/** The facts on which the charge depends besides the outcome: see the table in docs/accounting.md "Settlement". */
export interface Progress {
  /** The client streams the answer. */
  readonly streamed: boolean;
  /** Some output was passed on to the client. */
  readonly hasOutput: boolean;
  /** The request was sent to an upstream. */
  readonly wasSent: boolean;
  /** An attempt is running at an upstream; false during the pause before the next one. */
  readonly isTrying: boolean;
}

const lengthFinishes: ReadonlySet<FinishReason> = new Set([
  FinishReason.LENGTH,
  FinishReason.CONTEXT_WINDOW,
  FinishReason.CONTENT_FILTER,
  FinishReason.REFUSAL,
]);

/** Decides what is charged. Source: docs/accounting.md "Settlement". */
export function toCharge(outcome: Outcome, progress: Progress): Charge {
  switch (outcome.kind) {
    case 'answered':
      return {
        kind: 'usage',
        state: outcome.finishes.some(reason => lengthFinishes.has(reason)) ? 'incomplete' : 'completed',
      };
    case 'client_gone':
      if (!progress.wasSent) return { kind: 'void', reason: 'cancelled' };
      // Failed attempts are not charged (docs/accounting.md "Settlement"), and nothing is delivered between two
      // attempts.
      return { kind: progress.isTrying ? 'usage' : 'nothing', state: 'client_aborted' };
    case 'interrupted':
      return progress.streamed && progress.hasOutput
        ? { kind: 'usage', state: 'incomplete' }
        : { kind: 'void', reason: 'gateway_failure' };
    case 'failed':
      return toFailureCharge(outcome.error, progress);
  }
}

function toFailureCharge({ code }: GatewayError, progress: Progress): Charge {
  if (code === 'internal') return { kind: 'void', reason: 'gateway_failure' };
  if (code !== 'upstream_error' && code !== 'upstream_timeout') return { kind: 'void', reason: 'rejected' };
  const delivered = progress.streamed && progress.hasOutput;
  return { kind: delivered ? 'usage' : 'nothing', state: 'upstream_failed' };
}

/** The facts about a generation from which its settle command is made. */
export interface SettleFacts {
  readonly id: number;
  readonly model: Model;
  readonly requestedTier: string;
  /** The price factor of a batch, in thousandths; it replaces that of the billed tier. Undefined: the tier's factor applies. */
  readonly batchPermille?: number | undefined;
  /** The tier that the upstream reported; undefined: it reported none. */
  readonly reportedTier: string | undefined;
  readonly state: RecordState;
  readonly counted: CountedUsage;
  /** Calls of tools that have their own price; absent: none. */
  readonly tools?: readonly ToolCharge[] | undefined;
  /** Members without a price that the provider was sent; absent: none. Those of the usage are in `counted`. */
  readonly unpriced?: readonly string[] | undefined;
  /** How many upstream calls were made for the answer. The counts are their sum, but price thresholds apply to each call. */
  readonly calls: number;
  readonly latencyMs: number;
  readonly firstEventMs: number | undefined;
  readonly provider: string;
  readonly attempts: number;
  /** What the request asked to write to a cache; absent: nothing. */
  readonly writes?: CacheWrites | undefined;
  /** The prices of the route's provider; undefined: unknown. */
  readonly cost: Pricing | undefined;
  /** See `SettleCommand`. */
  readonly timeline?: string | undefined;
}

/** A requested and a reported tier, and the prices of the model. */
export interface TierClaim {
  readonly pricing: Pricing;
  readonly requested: string;
  /** Undefined: none was reported. */
  readonly reported: string | undefined;
}

/** Returns the tiers of a request, with the prices of its model. Throws if it has none. */
export function toTierClaim(
  { model, tier }: { readonly model: Model; readonly tier: string },
  reported: string | undefined,
): TierClaim {
  if (model.pricing === undefined) throw new Error(`${model.id} has no prices`);
  return { pricing: model.pricing, requested: tier, reported };
}

/** Returns the billed tier: the reported one, unless that has no price or is more expensive than the requested one. */
export function billedTier({ pricing, requested, reported }: TierClaim): string {
  const factor = reported === undefined ? undefined : tierFactor(pricing, reported);
  if (reported === undefined || factor === undefined) return requested;
  return factor > toMultiplier(pricing, requested) ? requested : reported;
}

/** Returns why a reported tier is not charged; undefined: it is charged, or none was reported. */
export function doubtTier(claim: TierClaim): UsageDoubt | undefined {
  const { requested, reported } = claim;
  if (reported === undefined || billedTier(claim) === reported) return undefined;
  return { member: 'service_tier', reported, believed: requested };
}

/** Returns the settle command of a generation. */
export function toSettleCommand(facts: SettleFacts): SettleCommand {
  const { model, counted } = facts;
  const claim = toTierClaim({ model, tier: facts.requestedTier }, facts.reportedTier);
  const { pricing } = claim;
  const { buckets } = counted;
  const tier = billedTier(claim);
  const inputTokens = Math.ceil(sumInput(buckets) / facts.calls);
  return {
    id: facts.id,
    state: facts.state,
    usage: buckets,
    usageSource: counted.source,
    serviceTier: tier,
    latencyMs: Math.round(facts.latencyMs),
    firstEventMs: facts.firstEventMs === undefined ? undefined : Math.round(facts.firstEventMs),
    provider: facts.provider,
    attempts: facts.attempts,
    timeline: facts.timeline,
    prices: pricePlan(pricing).sheet(inputTokens, facts.writes),
    multiplierPermille: facts.batchPermille ?? toMultiplier(pricing, tier),
    tools: facts.tools,
    unpriced: listUnpriced(facts, claim),
    providerCostNanoUsd: facts.cost && computeProviderCost(facts, facts.cost, inputTokens),
  };
}

function listUnpriced({ unpriced = [], counted }: SettleFacts, claim: TierClaim): SettleCommand['unpriced'] {
  const tier = doubtTier(claim)?.member;
  return toUnpriced([...(tier === undefined ? [] : [tier]), ...unpriced, ...(counted.unpriced ?? [])]);
}

/** Computes the provider's charge, at the tier that the provider reported, even if the client is billed for another. */
function computeProviderCost(facts: SettleFacts, cost: Pricing, inputTokens: number): bigint | undefined {
  return providerCost(cost, {
    usage: facts.counted.buckets,
    inputTokens,
    multiplierPermille: providerFactor(facts, cost),
    isBatch: facts.batchPermille !== undefined,
    writes: facts.writes,
  });
}

/** Returns the factor of the tier that the provider reported: its own, else the model's; for an unknown tier that of the requested one. */
function providerFactor({ model, requestedTier, reportedTier = requestedTier }: SettleFacts, cost: Pricing): number {
  const factor = (tier: string): number | undefined =>
    tierFactor(cost, tier) ?? (model.pricing && tierFactor(model.pricing, tier));
  return factor(reportedTier) ?? factor(requestedTier) ?? 1000;
}
