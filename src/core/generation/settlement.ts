import { Code, ConnectError } from '@connectrpc/connect';
import type { GatewayError } from '../../errors/gateway-error.ts';
import type { Model, Pricing } from '../../gen/tollgate/v1/catalog_pb.ts';
import { FinishReason } from '../../gen/tollgate/v1/event_pb.ts';
import type { ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import type { RecordState, SettleCommand } from '../../ledger/ledger.ts';
import { stopping } from '../running-requests.ts';
import { toTierName } from '../service-tiers.ts';
import { toUnpriced } from '../unpriced.ts';
import type { UsageDoubt } from '../routing/route-findings.ts';
import { toMultiplier } from './funds.ts';
import { pricePlan } from './price-plan.ts';
import { providerCost } from '../../generation/price.ts';
import type { CountedUsage } from '../../generation/guard/tally.ts';
import type { ToolCharge } from '../../generation/price.ts';
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
  readonly requestedTier: ServiceTier;
  /** The price factor of a batch, in thousandths; it replaces that of the billed tier. Undefined: the tier's factor applies. */
  readonly batchPermille?: number | undefined;
  /** The tier that the upstream reported; undefined: it reported none. */
  readonly reportedTier: ServiceTier | undefined;
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
  /** The prices of the route's provider; undefined: unknown. */
  readonly cost: Pricing | undefined;
  /** See `SettleCommand`. */
  readonly timeline?: string | undefined;
}

/** Returns the billed tier: the reported one, unless that is more expensive than the requested one. */
export function billedTier(requested: ServiceTier, reported: ServiceTier | undefined): ServiceTier {
  if (reported === undefined || toMultiplier(reported) > toMultiplier(requested)) return requested;
  return reported;
}

/** Returns why a reported tier is not charged; undefined: it is charged, or none was reported. */
export function doubtTier(requested: ServiceTier, reported: ServiceTier | undefined): UsageDoubt | undefined {
  if (reported === undefined || billedTier(requested, reported) === reported) return undefined;
  return { member: 'service_tier', reported: toTierName(reported), believed: toTierName(requested) };
}

/** Returns the settle command of a generation. */
export function toSettleCommand(facts: SettleFacts): SettleCommand {
  const { model, counted } = facts;
  if (model.pricing === undefined) throw new Error(`${model.id} has no prices`);
  const { buckets } = counted;
  const tier = billedTier(facts.requestedTier, facts.reportedTier);
  const inputTokens = Math.ceil(sumInput(buckets) / facts.calls);
  return {
    id: facts.id,
    state: facts.state,
    usage: buckets,
    usageSource: counted.source,
    serviceTier: toTierName(tier),
    latencyMs: Math.round(facts.latencyMs),
    firstEventMs: facts.firstEventMs === undefined ? undefined : Math.round(facts.firstEventMs),
    provider: facts.provider,
    attempts: facts.attempts,
    timeline: facts.timeline,
    prices: pricePlan(model.pricing).sheet(inputTokens),
    multiplierPermille: facts.batchPermille ?? toMultiplier(tier),
    tools: facts.tools,
    unpriced: listUnpriced(facts),
    providerCostNanoUsd: facts.cost && computeProviderCost(facts, facts.cost, inputTokens),
  };
}

function listUnpriced({ requestedTier, reportedTier, unpriced = [], counted }: SettleFacts): SettleCommand['unpriced'] {
  const tier = doubtTier(requestedTier, reportedTier)?.member;
  return toUnpriced([...(tier === undefined ? [] : [tier]), ...unpriced, ...(counted.unpriced ?? [])]);
}

/** Computes the provider's charge, at the tier that the provider reported, even if the client is billed for another. */
function computeProviderCost(facts: SettleFacts, cost: Pricing, inputTokens: number): bigint | undefined {
  return providerCost(cost, {
    usage: facts.counted.buckets,
    inputTokens,
    multiplierPermille: toMultiplier(facts.reportedTier ?? facts.requestedTier),
    isBatch: facts.batchPermille !== undefined,
  });
}
