import { toGatewayError } from '../errors/gateway-error.ts';
import type { Pricing } from '../gen/tollgate/v1/catalog_pb.ts';
import { providerCost, type ImageTerms, type PriceSheet } from '../generation/price.ts';
import { noUsage, sumInput, type UsageBuckets } from '../generation/usage-buckets.ts';
import type { Runtime } from '../lib/runtime.ts';
import type { Admitted, Ledger, RecordState } from '../ledger/ledger.ts';
import { TimelineRecord } from './timeline-record.ts';
import { checkSettled } from './check-settled.ts';
import { toCharge, type Outcome, toClientError } from './generation/settlement.ts';
import type { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import type { RouteName } from './routing/observer.ts';
import type { UsageDoubt } from './routing/route-findings.ts';
import type { Routed, Router } from './routing/router.ts';
import { toTokenCounts } from './token-counts.ts';
import { toUnpriced } from './unpriced.ts';
import { type Interruptible, keyRevoked, stopping } from './running-requests.ts';

/** The fields of every checked request that decide its charge. */
export interface PricedRequest {
  readonly prices: PriceSheet;
  /** A factor of the prices, in thousandths; absent: 1000. */
  readonly multiplierPermille?: number | undefined;
  /** The size and quality that the price of the requested images depends on; absent: no images are requested. */
  readonly imageTerms?: ImageTerms;
}

/** The dependencies of an admitted request. */
export interface AdmittedRunDependencies {
  readonly ledger: Ledger;
  readonly runtime: Runtime;
  readonly router: Router;
  /** The longest that a failed request's error waits for the hold to be voided or settled; absent: 10 s. */
  readonly settleMs?: number;
}

const settleMsDefault = 10_000;

/** A checked request that the ledger has admitted. */
export interface AdmittedRequest<Prepared> {
  readonly prepared: Prepared;
  /** The request's id in the ledger. */
  readonly id: number;
  readonly requestId: string;
  /** The API key that pays. */
  readonly keyId: number;
  readonly admitted: Admitted;
  /** Undefined: not traced. */
  readonly telemetry?: RequestTelemetry | undefined;
}

/** The usage of an answer. */
export interface UsedUp {
  readonly state: RecordState;
  readonly usage: UsageBuckets;
  readonly usageSource: 'reported' | 'estimated';
  /** The cost, if the prices of the request don't say it; absent: they do. */
  readonly costNanoUsd?: bigint | undefined;
  /** See `providerCost`; absent: the route's prices say it. */
  readonly costAt?: ((cost: Pricing) => bigint | undefined) | undefined;
  /** See `SettleCommand`. */
  readonly unpriced?: readonly string[] | undefined;
  /** A report of the provider that is not believed; absent: none. */
  readonly doubt?: UsageDoubt | undefined;
}

/**
 * One admitted request whose answer is not streamed (images, embeddings, rerank), from the first attempt to the settled charge. However the request ends, its hold is settled or voided exactly once.
 */
export abstract class AdmittedRun<Prepared extends PricedRequest, Answer> implements Interruptible {
  /** See `Interruptible`. */
  place = -1;
  /** True if the request was ended because the gateway stops. */
  isInterrupted = false;
  #isRevoked = false;
  protected readonly requested: AdmittedRequest<Prepared>;
  /** Aborted when the answer is no longer wanted. */
  protected readonly signal: AbortSignal;
  /** The request's attempts and routing, stored with its charge. */
  protected readonly timeline: TimelineRecord;
  readonly #dependencies: AdmittedRunDependencies;
  readonly #abort = new AbortController();
  readonly #startedAtMs: number;
  #firstEventMs: number | undefined;
  /** Absent: no route has answered. */
  #route: RouteName | undefined;
  /** The provider's prices; undefined: unknown. */
  #cost: Pricing | undefined;
  #attempts = 0;

  constructor(dependencies: AdmittedRunDependencies, requested: AdmittedRequest<Prepared>) {
    this.#dependencies = dependencies;
    this.requested = requested;
    this.signal = this.#abort.signal;
    this.#startedAtMs = dependencies.runtime.monotonicMs();
    this.timeline = new TimelineRecord(dependencies.runtime);
  }

  /** Makes the answer, with as many attempts as it takes, and stores its files. */
  protected abstract make(): Promise<Answer>;

  /** Returns the usage of an answer. */
  protected abstract countUsage(answer: Answer): UsedUp;

  /** Removes what `make` stored, because it will not be delivered. */
  protected async discard(): Promise<void> {}

  /** Ends the request now, because the gateway stops. */
  interrupt(): void {
    this.isInterrupted = true;
    this.#abort.abort(stopping());
  }

  get keyId(): number {
    return this.requested.keyId;
  }

  /** Ends the request now, because its key was revoked. */
  revoke(): void {
    this.#isRevoked = true;
    this.#abort.abort(keyRevoked());
  }

  /**
   * Makes the answer and charges for it. Call it once. Throws the client's error. `beforeSettle` stores the answer durably before it is charged; if that throws, nothing is charged.
   */
  async run(
    signal: AbortSignal,
    beforeSettle: (answer: Answer) => Promise<void> | undefined,
  ): Promise<{ readonly answer: Answer; readonly costNanoUsd: bigint }> {
    const abort = (): void => this.#abort.abort(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    try {
      const answer = await this.#makeAndStore(beforeSettle);
      return { answer, costNanoUsd: await this.charge(this.countUsage(answer)) };
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  /**
   * Charges for the usage of an answer. Returns the cost in nano-dollars. If the charge can't be stored, the answer is free and this throws.
   */
  async charge(used: UsedUp): Promise<bigint> {
    try {
      // An item of a batch waits for its charge without a time limit: if it gave up, the item would run again although the first charge may still be stored.
      const isOfBatch = this.requested.prepared.multiplierPermille !== undefined;
      return await this.#settle(used, isOfBatch ? 'unbounded' : 'bounded');
    } catch (thrown) {
      // Not awaited: the ledger may not be writable for a long time. The hold is voided as soon as it is.
      this.#dependencies.ledger.void(this.requested.id, 'gateway_failure').catch(() => undefined);
      throw thrown;
    }
  }

  async #settle(
    { state, usage, usageSource, unpriced, doubt, costNanoUsd: ownCost, costAt }: UsedUp,
    patience: 'bounded' | 'unbounded',
  ): Promise<bigint> {
    const { id, prepared, telemetry } = this.requested;
    telemetry?.trace?.settleBegan();
    const command = {
      id,
      state,
      usage,
      usageSource,
      ...(ownCost === undefined ? {} : { costNanoUsd: ownCost }),
      unpriced: unpriced && toUnpriced(unpriced),
      serviceTier: 'default',
      latencyMs: Math.round(this.#elapsedMs()),
      firstEventMs: this.#firstEventMs === undefined ? undefined : Math.round(this.#firstEventMs),
      provider: this.#route?.provider ?? '',
      attempts: this.#attempts,
      timeline: this.timeline.text,
      prices: prepared.prices,
      multiplierPermille: prepared.multiplierPermille ?? 1000,
      providerCostNanoUsd: this.#cost && (costAt ?? (cost => this.#providerCost(cost, usage)))(this.#cost),
    } as const;
    const settled = await this.#dependencies.ledger.settle(command, patience);
    checkSettled(settled, id);
    const { costNanoUsd } = settled;
    const { providerCostNanoUsd } = command;
    const { router } = this.#dependencies;
    if (this.#route !== undefined) router.unpriced(this.#route, command.unpriced ?? []);
    if (this.#route !== undefined && doubt !== undefined) router.usageDoubtful(this.#route, doubt);
    telemetry?.settleEnded({ state, tokens: toTokenCounts(usage), costNanoUsd, providerCostNanoUsd });
    return costNanoUsd;
  }

  #providerCost(cost: Pricing, usage: UsageBuckets): bigint | undefined {
    const { multiplierPermille, imageTerms } = this.requested.prepared;
    const isBatch = multiplierPermille !== undefined;
    return providerCost(cost, { usage, inputTokens: sumInput(usage), multiplierPermille: 1000, isBatch, imageTerms });
  }

  /** Counts an attempt at an upstream. */
  protected noteAttempt(): void {
    this.#attempts += 1;
  }

  /** Records which provider answered, and when. */
  protected noteAnswer({ route, cost }: Pick<Routed<unknown>, 'route' | 'cost'>): void {
    this.#firstEventMs = this.#elapsedMs();
    this.#route = route;
    this.#cost = cost;
  }

  #elapsedMs(): number {
    return this.#dependencies.runtime.monotonicMs() - this.#startedAtMs;
  }

  /** Makes and stores the answer, and returns it uncharged. If this throws, the hold has ended, or its end has been waited for as long as `settleMs`. */
  async #makeAndStore(beforeSettle: (answer: Answer) => Promise<void> | undefined): Promise<Answer> {
    try {
      const answer = await this.make();
      await beforeSettle(answer);
      return answer;
    } catch (thrown) {
      // Files that can't be deleted now expire by themselves, but the hold must end.
      await this.discard().catch(() => undefined);
      const outcome = this.#outcome(thrown);
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const timer = this.#dependencies.runtime.after(this.#dependencies.settleMs ?? settleMsDefault, resolve);
      await Promise.race([this.#endUnanswered(outcome), late]).finally(() => timer.cancel());
      throw toClientError(outcome);
    }
  }

  #outcome(thrown: unknown): Outcome {
    if (this.isInterrupted) return { kind: 'interrupted' };
    if (this.#isRevoked) return { kind: 'client_gone', error: keyRevoked() };
    return this.signal.aborted ? { kind: 'client_gone' } : { kind: 'failed', error: toGatewayError(thrown) };
  }

  async #endUnanswered(outcome: Outcome): Promise<void> {
    const progress = { streamed: false, hasOutput: false, wasSent: this.#attempts > 0, isTrying: false };
    const charge = toCharge(outcome, progress);
    if (charge.kind === 'void') {
      await this.#dependencies.ledger.void(this.requested.id, charge.reason);
      this.requested.telemetry?.settleEnded(undefined);
    } else await this.#settle({ state: charge.state, usage: noUsage, usageSource: 'reported' }, 'unbounded');
  }
}
