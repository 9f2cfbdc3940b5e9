import { toGatewayError } from '../errors/gateway-error.ts';
import type { PriceSheet } from '../generation/price.ts';
import { noUsage, type UsageBuckets } from '../generation/usage-buckets.ts';
import type { Runtime } from '../lib/runtime.ts';
import type { Admitted, Ledger, RecordState } from '../ledger/ledger.ts';
import { chargeOf, type Outcome, toClientError } from './generation/settlement.ts';
import type { RequestStory } from '../telemetry/request-story.ts';
import type { RouteName } from './routing/observer.ts';
import { toTokenCounts } from './token-counts.ts';
import { type Cuttable, keyRevoked, stopping } from './running.ts';

/** What every checked request says of its charge. */
export interface PricedOrder {
  readonly prices: PriceSheet;
  /** A factor of the prices, in thousandths; absent: 1000. */
  readonly multiplierPermille?: number | undefined;
}

/** What an admitted request is worked on with. */
export interface AdmittedRunTools {
  readonly ledger: Ledger;
  readonly runtime: Runtime;
  /** How long a client waits for the end of a hold after its answer failed; absent: 10 s. */
  readonly settleMs?: number;
}

const settleMsDefault = 10_000;

/** A checked request that the ledger has admitted. */
export interface AdmittedOrder<Order> {
  readonly order: Order;
  /** The request's id in the ledger. */
  readonly id: number;
  /** What the client is told. */
  readonly requestId: string;
  /** The API key that pays. */
  readonly keyId: number;
  readonly admitted: Admitted;
  /** Undefined: nobody follows it. */
  readonly story?: RequestStory | undefined;
}

/** What an answer has used. */
export interface UsedUp {
  readonly state: RecordState;
  readonly usage: UsageBuckets;
  readonly usageSource: 'reported' | 'estimated';
}

/**
 * One admitted request whose answer comes all at once (pictures, vectors), from the first attempt to the settled charge: however it ends, its hold is settled or voided exactly
 * once.
 */
export abstract class AdmittedRun<Order extends PricedOrder, Answer> implements Cuttable {
  /** See `Cuttable`. */
  place = -1;
  /** It was ended because the gateway stops. */
  isCut = false;
  #isRevoked = false;
  protected readonly asked: AdmittedOrder<Order>;
  /** Aborted when nobody wants the answer any more. */
  protected readonly signal: AbortSignal;
  readonly #tools: AdmittedRunTools;
  readonly #abort = new AbortController();
  readonly #startedAtMs: number;
  #firstEventMs: number | undefined;
  #provider = '';
  #attempts = 0;

  constructor(tools: AdmittedRunTools, asked: AdmittedOrder<Order>) {
    this.#tools = tools;
    this.asked = asked;
    this.signal = this.#abort.signal;
    this.#startedAtMs = tools.runtime.monotonicMs();
  }

  /** Makes the answer by as many attempts as it takes, and keeps what has to be kept of it. */
  protected abstract make(): Promise<Answer>;

  /** Returns what an answer has used. */
  protected abstract countUsage(answer: Answer): UsedUp;

  /** Removes what `make` has kept, because nobody gets it. */
  protected async discard(): Promise<void> {}

  /** The gateway stops: ends it now. */
  cut(): void {
    this.isCut = true;
    this.#abort.abort(stopping());
  }

  get keyId(): number {
    return this.asked.keyId;
  }

  /** The key has been revoked: ends it now. */
  revoke(): void {
    this.#isRevoked = true;
    this.#abort.abort(keyRevoked());
  }

  /**
   * Makes the answer and charges for it. Throws what the caller is told. Called once, and run to its end. `beforeSettle` keeps the answer, so that it is durable before it is
   * charged; what it throws ends the run uncharged.
   */
  async run(
    signal: AbortSignal,
    beforeSettle: (answer: Answer) => Promise<void> | undefined,
  ): Promise<{ readonly answer: Answer; readonly costNanoUsd: bigint }> {
    const abort = (): void => this.#abort.abort(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    try {
      const answer = await this.#made(beforeSettle);
      return { answer, costNanoUsd: await this.charge(this.countUsage(answer)) };
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  /** Charges what a kept answer has used. Returns the cost in nano-dollars. If that can't be stored the answer is free, and it throws. */
  async charge(used: UsedUp): Promise<bigint> {
    try {
      return await this.#settle(used, 'bounded');
    } catch (thrown) {
      // A ledger that can't be written may stay so for long: the hold is given back when it can be.
      this.#tools.ledger.void(this.asked.id, 'gateway_failure').catch(() => undefined);
      throw thrown;
    }
  }

  async #settle({ state, usage, usageSource }: UsedUp, patience: 'bounded' | 'unbounded'): Promise<bigint> {
    const { id, order, story } = this.asked;
    story?.trace?.settleBegan();
    const command = {
      id,
      state,
      usage,
      usageSource,
      serviceTier: 'default',
      latencyMs: Math.round(this.#elapsedMs()),
      firstEventMs: this.#firstEventMs === undefined ? undefined : Math.round(this.#firstEventMs),
      provider: this.#provider,
      attempts: this.#attempts,
      prices: order.prices,
      multiplierPermille: order.multiplierPermille ?? 1000,
    } as const;
    const settled = await this.#tools.ledger.settle(command, patience);
    if (settled.kind !== 'settled') throw new Error(`settle of ${id}: ${settled.kind}`);
    story?.settleEnded({ state, tokens: toTokenCounts(usage), costNanoUsd: settled.costNanoUsd });
    return settled.costNanoUsd;
  }

  /** Notes that an attempt goes to an upstream. */
  protected noteAttempt(): void {
    this.#attempts += 1;
  }

  /** Notes where the answer came from, now. */
  protected noteAnswer({ provider }: RouteName): void {
    this.#firstEventMs = this.#elapsedMs();
    this.#provider = provider;
  }

  #elapsedMs(): number {
    return this.#tools.runtime.monotonicMs() - this.#startedAtMs;
  }

  /** Returns the kept answer, not charged yet. What it throws has ended the hold. */
  async #made(beforeSettle: (answer: Answer) => Promise<void> | undefined): Promise<Answer> {
    try {
      const answer = await this.make();
      await beforeSettle(answer);
      return answer;
    } catch (thrown) {
      await this.discard();
      const outcome = this.#outcome(thrown);
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const timer = this.#tools.runtime.after(this.#tools.settleMs ?? settleMsDefault, resolve);
      await Promise.race([this.#endUnanswered(outcome), late]).finally(() => timer.cancel());
      throw toClientError(outcome);
    }
  }

  #outcome(thrown: unknown): Outcome {
    if (this.isCut) return { kind: 'cut' };
    if (this.#isRevoked) return { kind: 'client_gone', error: keyRevoked() };
    return this.signal.aborted ? { kind: 'client_gone' } : { kind: 'failed', error: toGatewayError(thrown) };
  }

  async #endUnanswered(outcome: Outcome): Promise<void> {
    const progress = { streamed: false, hasOutput: false, wasSent: this.#attempts > 0, isTrying: false };
    const charge = chargeOf(outcome, progress);
    if (charge.kind === 'void') {
      await this.#tools.ledger.void(this.asked.id, charge.reason);
      this.asked.story?.settleEnded(undefined);
    } else await this.#settle({ state: charge.state, usage: noUsage, usageSource: 'reported' }, 'unbounded');
  }
}
