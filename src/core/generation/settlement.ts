import { Code, ConnectError } from '@connectrpc/connect';
import type { GatewayError } from '../../errors/gateway-error.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import { FinishReason } from '../../gen/tollgate/v1/event_pb.ts';
import type { ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import type { RecordState, SettleCommand } from '../../ledger/ledger.ts';
import { stopping } from '../running.ts';
import { nameOfTier } from '../service-tiers.ts';
import { multiplierOf } from './funds.ts';
import { pricePlan } from './price-plan.ts';
import type { CountedUsage } from '../../generation/guard/tally.ts';
import { sumInput } from '../../generation/usage-buckets.ts';

/** How a generation ended; who pays for what follows from it. */
export type Outcome =
  | { readonly kind: 'answered'; readonly finishes: readonly FinishReason[] }
  /** `error`: what a client is told that did not leave by itself; absent: it has left. */
  | { readonly kind: 'client_gone'; readonly error?: GatewayError }
  /** The gateway stops and cut the answer. */
  | { readonly kind: 'cut' }
  | { readonly kind: 'failed'; readonly error: GatewayError };

/** What the client is told of an end without an answer. */
export function toClientError(outcome: Outcome): Error {
  if (outcome.kind === 'failed') return outcome.error;
  if (outcome.kind === 'client_gone' && outcome.error !== undefined) return outcome.error;
  return outcome.kind === 'cut' ? stopping() : new ConnectError('The call was cancelled.', Code.Canceled);
}

/** What the ledger is told: charge this usage under this state, or give the hold back. */
export type Charge =
  | { readonly kind: 'usage'; readonly state: RecordState }
  | { readonly kind: 'nothing'; readonly state: RecordState }
  | { readonly kind: 'void'; readonly reason: 'rejected' | 'gateway_failure' | 'cancelled' };

/** What the table of decisions §6 needs to know beside the outcome. */
export interface Progress {
  /** The client takes the answer as it comes. */
  readonly streamed: boolean;
  /** Some output has gone on to the client. */
  readonly hasOutput: boolean;
  /** The request was sent to an upstream. */
  readonly wasSent: boolean;
  /** A try is at an upstream now; false too in the pause before the next one. */
  readonly isTrying: boolean;
}

const lengthFinishes: ReadonlySet<FinishReason> = new Set([
  FinishReason.LENGTH,
  FinishReason.CONTEXT_WINDOW,
  FinishReason.CONTENT_FILTER,
  FinishReason.REFUSAL,
]);

/** Who pays for what. Source: decisions §6, "Who pays for what". */
export function chargeOf(outcome: Outcome, progress: Progress): Charge {
  switch (outcome.kind) {
    case 'answered':
      return {
        kind: 'usage',
        state: outcome.finishes.some(reason => lengthFinishes.has(reason)) ? 'incomplete' : 'completed',
      };
    case 'client_gone':
      if (!progress.wasSent) return { kind: 'void', reason: 'cancelled' };
      // Failed tries are nobody's (decisions §6), and between two of them nothing is delivered.
      return { kind: progress.isTrying ? 'usage' : 'nothing', state: 'client_aborted' };
    case 'cut':
      return progress.streamed && progress.hasOutput
        ? { kind: 'usage', state: 'incomplete' }
        : { kind: 'void', reason: 'gateway_failure' };
    case 'failed':
      return chargeOfFailure(outcome.error, progress);
  }
}

function chargeOfFailure({ code }: GatewayError, progress: Progress): Charge {
  if (code === 'internal') return { kind: 'void', reason: 'gateway_failure' };
  if (code !== 'upstream_error' && code !== 'upstream_timeout') return { kind: 'void', reason: 'rejected' };
  const delivered = progress.streamed && progress.hasOutput;
  return { kind: delivered ? 'usage' : 'nothing', state: 'upstream_failed' };
}

/** What every settle of a generation says beside its usage. */
export interface SettleFacts {
  readonly id: number;
  readonly model: Model;
  readonly askedTier: ServiceTier;
  /** The factor of a batch, which holds whatever tier is billed; undefined: the tier's. */
  readonly batchPermille?: number | undefined;
  /** The tier that the upstream reports; undefined: none. */
  readonly reportedTier: ServiceTier | undefined;
  readonly state: RecordState;
  readonly counted: CountedUsage;
  /** How many calls the counts are the sum of, each with the whole input; thresholds of prices are those of one. */
  readonly calls: number;
  readonly latencyMs: number;
  readonly firstEventMs: number | undefined;
  readonly provider: string;
  readonly attempts: number;
}

/** The tier that is billed: the one reported, never a dearer one than was asked for. */
export function billedTier(asked: ServiceTier, reported: ServiceTier | undefined): ServiceTier {
  if (reported === undefined || multiplierOf(reported) > multiplierOf(asked)) return asked;
  return reported;
}

/** The settle command of a generation. */
export function toSettleCommand(facts: SettleFacts): SettleCommand {
  const { model, counted } = facts;
  if (model.pricing === undefined) throw new Error(`${model.id} has no prices`);
  const { buckets } = counted;
  const tier = billedTier(facts.askedTier, facts.reportedTier);
  return {
    id: facts.id,
    state: facts.state,
    usage: buckets,
    usageSource: counted.source,
    serviceTier: nameOfTier(tier),
    latencyMs: Math.round(facts.latencyMs),
    firstEventMs: facts.firstEventMs === undefined ? undefined : Math.round(facts.firstEventMs),
    provider: facts.provider,
    attempts: facts.attempts,
    prices: pricePlan(model.pricing).sheet(Math.ceil(sumInput(buckets) / facts.calls)),
    multiplierPermille: facts.batchPermille ?? multiplierOf(tier),
  };
}
