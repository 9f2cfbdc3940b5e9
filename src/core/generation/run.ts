import { Code, ConnectError } from '@connectrpc/connect';
import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import type { FinishReason, GenerationEvent, LimitState } from '../../gen/tollgate/v1/event_pb.ts';
import { Delivery, type GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { EventLog } from '../../generation/event-log.ts';
import { completed } from '../../generation/events.ts';
import { Hold } from '../../generation/hold.ts';
import { loadTokenizer } from '../../generation/tokens.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import type { Admitted, Ledger, Settled } from '../../ledger/ledger.ts';
import { limitOf } from '../credential.ts';
import type { RoutedStep, Router } from '../routing/router.ts';
import type { Applicant } from './admission.ts';
import { continued } from './continued.ts';
import { clientLimit, outputTokensMost } from './funds.ts';
import { PauseJoin } from './pause-join.ts';
import { Pipeline } from './pipeline.ts';
import { billedTier, chargeOf, noUsage, type Outcome, type Progress, settleCommand } from './settlement.ts';
import { Slices } from './slices.ts';
import { type CountedUsage, Tally, usageMessage, usageSource } from './tally.ts';

/** What a generation runs with. */
export interface RunTools {
  readonly ledger: Ledger;
  readonly router: Router;
  /** Name the route to the client. */
  readonly exposeRoute: () => boolean;
  /** How far a provider's count of tokens may be above the gateway's before an answer is cut at its limit (1: counts the same). */
  readonly toleranceOf: (provider: string) => number;
}

/** What is known of an admitted request. */
export interface AdmittedRequest extends Applicant {
  readonly admitted: Admitted;
  readonly admittedAtMs: number;
}

/** Who is told of a run's end. */
export interface RunHooks {
  /** It has settled; called once. */
  readonly onEnd: () => void;
  /**
   * The answer is whole and not yet charged: gets the events that the caller has not been given, `completed` without its cost the last. What must be durable
   * before the charge is written here; where that throws, the generation fails with it.
   */
  readonly beforeSettle?: ((rest: readonly GenerationEvent[]) => Promise<void>) | undefined;
  /** An answer that the gateway cuts costs nothing and leaves no record: nobody is there who has had a part of it. */
  readonly freeWhenCut?: boolean | undefined;
  /** The answer has broken off with what its caller is told, and what was delivered is not yet charged. It must not throw. */
  readonly beforeBrokenSettle?: ((told: Error) => Promise<void>) | undefined;
}

/**
 * One admitted generation, from the first try to the settled charge. Accounting belongs to it, not to the client's connection: however the
 * reading of its events ends, its hold is settled or voided exactly once.
 */
export class GenerationRun {
  readonly #tools: RunTools;
  readonly #asked: AdmittedRequest;
  readonly #hooks: RunHooks;
  readonly #streamed: boolean;
  readonly #abort = new AbortController();
  readonly #startedAtMs = performance.now();
  #whole: bigint | undefined;
  readonly #tally: Tally;
  readonly #slices: Slices;
  /** The output limit of one choice: the client's, or what funds pay; undefined: none. */
  readonly #limit: number | undefined;
  /** Output tokens of all choices that funds pay, once they have ended. */
  #paidTokens = Infinity;
  readonly #finishes: FinishReason[] = [];
  #pipeline: Pipeline | undefined;
  #join = new PauseJoin();
  /** Events that wait for the settle (finishes), or for the end (a whole answer). */
  #kept = new EventLog();
  #outcome: Outcome = { kind: 'client_gone' };
  /** What the caller is told instead of an end. */
  #told: Error | undefined;
  #firstEventMs: number | undefined;
  #route = { provider: '', model: '' };
  #attempts = 0;
  /** A try has gone to an upstream. */
  #wasSent = false;
  /** One is there now. */
  #isTrying = false;
  #isCut = false;
  /** The time for the answer is over, and its reader had stopped asking for more. */
  #overtime: GatewayError | undefined;

  constructor(tools: RunTools, asked: AdmittedRequest, hooks: RunHooks) {
    this.#hooks = hooks;
    this.#tools = tools;
    this.#asked = asked;
    this.#streamed = asked.request.delivery !== Delivery.WHOLE;
    this.#limit = outputLimitOf(asked);
    const { contextLength = Infinity, maxOutputTokens = Infinity } = asked.model;
    const candidates = this.#candidates;
    this.#tally = new Tally({ candidates, input: contextLength * candidates, output: maxOutputTokens * candidates });
    this.#slices = new Slices(tools.ledger, asked.admitted, outputTokensMost(asked.request, asked.model), tokens => {
      this.#paidTokens = tokens;
      this.#pipeline?.lowerLimit(Math.floor(tokens / this.#candidates));
    });
  }

  get #candidates(): number {
    return this.#asked.request.candidates ?? 1;
  }

  get #progress(): Progress {
    return {
      streamed: this.#streamed && !(this.#isCut && this.#hooks.freeWhenCut === true),
      hasOutput: !this.#tally.isEmpty,
      wasSent: this.#wasSent,
      isTrying: this.#isTrying,
    };
  }

  /** `cut` was called. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** The key's request windows after the admission, tightest first. */
  get limits(): LimitState[] {
    return this.#asked.admitted.windows.map(window => ({ $typeName: 'tollgate.v1.LimitState', ...limitOf(window) }));
  }

  /** The gateway stops: ends the answer now. */
  cut(): void {
    this.#isCut = true;
    this.#abort.abort(stopping());
  }

  /**
   * The answer in batches. `completed` comes when the charge is durable. Throws what the caller is told. It settles as soon as it is aborted or cut, also
   * when nobody asks for the next batch any more (a client that never reads).
   */
  events(signal: AbortSignal): AsyncIterableIterator<GenerationEvent[]> {
    const answer = this.#settledAnswer(signal);
    const end = (): void => {
      // Of a failing settle whoever still reads learns by `next`; nobody else is there.
      answer.return().catch(() => undefined);
    };
    this.#abort.signal.addEventListener('abort', end, { once: true });
    const events: AsyncIterableIterator<GenerationEvent[]> = {
      [Symbol.asyncIterator]: () => events,
      next: async () => {
        const step = await answer.next();
        if (step.done === true && this.#told !== undefined) throw this.#told;
        return step;
      },
      return: () => answer.return(),
    };
    return events;
  }

  async *#settledAnswer(signal: AbortSignal): AsyncGenerator<GenerationEvent[], void, undefined> {
    const abort = (): void => this.#abort.abort(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    let settled: Settled | undefined;
    try {
      yield* this.#answer();
      this.#outcome = { kind: 'answered', finishes: this.#finishes };
      const counted = await this.#count();
      await this.#hooks.beforeSettle?.([...this.#kept.read(), this.#completed(counted, 0n)]);
      settled = await this.#settle(counted);
      yield [...this.#kept.read(), this.#completed(counted, settled.costNanoUsd)];
    } catch (thrown) {
      this.#told = this.#failed(thrown, signal);
      throw this.#told;
    } finally {
      signal.removeEventListener('abort', abort);
      if (settled === undefined) await this.#endUnanswered(signal);
      else this.#hooks.onEnd();
    }
  }

  /** Settles or voids what got no `completed`, and says so when that is durable. */
  async #endUnanswered(signal: AbortSignal): Promise<void> {
    // Without an error it was ended from outside, between two batches.
    this.#told ??= this.#failed(undefined, signal);
    const ended = this.#settleUnanswered().finally(this.#hooks.onEnd);
    // A ledger that can't be written may stay so for long: its client is told at once, and the hold is given back when it can be.
    const isLedgerFailing =
      this.#wasSent && this.#outcome.kind === 'failed' && this.#outcome.error.code === 'overloaded';
    if (isLedgerFailing) ended.catch(() => undefined);
    else await ended;
  }

  /** All calls of the answer: one, and one more for each pause. */
  async *#answer(): AsyncGenerator<GenerationEvent[], void, undefined> {
    let { request } = this.#asked;
    for (;;) {
      yield* this.#call(request);
      // An answer that a limit has cut is over, even where the upstream paused in the same breath.
      if (!this.#join.isPaused || this.#pipeline?.isDone === true) return;
      await this.#tally.carry(request);
      // A limit of the client's is one for the whole answer, the model's own for each call.
      if (this.#limit === undefined) this.#slices.goOn(outputTokensMost(this.#asked.request, this.#asked.model));
      request = continued(request, this.#join.goOn());
    }
  }

  async *#call(request: GenerateRequest): AsyncGenerator<GenerationEvent[], void, undefined> {
    const { maxOutputTokens: modelOutputTokens } = this.#asked.model;
    const steps = this.#tools.router.run({
      hold: Hold.of(this.#asked.admitted),
      request,
      maxOutputTokens: this.#limit,
      ...(modelOutputTokens === undefined ? {} : { modelOutputTokens }),
      signal: this.#abort.signal,
      restartable: !this.#streamed && request === this.#asked.request,
      onAttempt: () => {
        this.#wasSent = true;
        this.#isTrying = true;
      },
      onAttemptFailed: () => {
        this.#isTrying = false;
        this.#tally.restart();
      },
      onOvertime: error => {
        this.#overtime = error;
        this.#abort.abort(error);
      },
    });
    try {
      let next = await steps.next();
      while (next.done !== true) {
        const events = await this.#step(next.value);
        if (events instanceof UpstreamFailure) {
          // Told to the router as the failure of its try, so that it retries and counts it.
          next = await steps.throw(events);
          continue;
        }
        if (events.length > 0) yield events;
        if (this.#pipeline?.isDone === true) return;
        next = await steps.next();
      }
      if (!this.#join.isPaused) this.#pipeline?.end();
    } finally {
      await steps.return();
    }
  }

  async #step(step: RoutedStep): Promise<GenerationEvent[] | UpstreamFailure> {
    if (step.kind === 'begun') {
      await this.#begin(step);
      return [];
    }
    this.#tally.take(step.events);
    try {
      // Before any of it is shown: what funds turn out not to pay is cut off below.
      await this.#slices.reach(this.#tally.outputTokensHigh);
      return this.#release(this.#pipeline?.push(this.#join.push(step.events)) ?? []);
    } catch (thrown) {
      if (thrown instanceof UpstreamFailure) return thrown;
      throw thrown;
    }
  }

  async #begin({ route, attempt, calls }: Extract<RoutedStep, { kind: 'begun' }>): Promise<void> {
    this.#attempts = attempt;
    this.#tally.calls = calls;
    this.#route = route;
    this.#firstEventMs ??= performance.now() - this.#startedAtMs;
    if (!this.#join.isFirstCall) return;
    // A further begin of the first call means that nothing of an earlier try was shown.
    this.#tally.restart();
    this.#join = new PauseJoin();
    this.#kept = new EventLog();
    this.#finishes.length = 0;
    const limits = { limit: this.#limit ?? Infinity, tolerance: this.#tools.toleranceOf(route.provider) };
    this.#pipeline = new Pipeline(this.#asked.request, await loadTokenizer(), limits);
    this.#pipeline.lowerLimit(Math.floor(this.#paidTokens / this.#candidates));
  }

  /** What may go to the client now. */
  #release(events: readonly GenerationEvent[]): GenerationEvent[] {
    const ready: GenerationEvent[] = [];
    for (const event of events) {
      const { event: step } = event;
      if (step.case === 'completed' || step.case === 'usageReported') continue;
      if (step.case === 'finished') this.#finishes.push(step.value.reason);
      const shown = step.case === 'started' ? this.#started(event) : event;
      if (this.#streamed && step.case !== 'finished') ready.push(shown);
      else this.#kept.add(shown);
    }
    return ready;
  }

  #started(event: GenerationEvent): GenerationEvent {
    if (event.event.case !== 'started') return event;
    const { requestId, model, admittedAtMs } = this.#asked;
    const { limits } = this;
    const route = this.#tools.exposeRoute() ? `${this.#route.provider}/${this.#route.model}` : '';
    const own = { requestId, model: model.id, createdAtMs: BigInt(admittedAtMs), limits, route };
    return { ...event, event: { case: 'started', value: { ...event.event.value, ...own } } };
  }

  #completed(counted: CountedUsage, costNanoUsd: bigint): GenerationEvent {
    return completed({
      usage: usageMessage(counted, this.#tally.extra),
      usageSource: usageSource(counted.source),
      costNanoUsd,
      serviceTier: billedTier(this.#asked.tier, this.#tally.serviceTier),
      completedAtMs: this.#wholeAtMs,
    });
  }

  /** When the answer was whole; the same however often it is told. */
  get #wholeAtMs(): bigint {
    this.#whole ??= BigInt(Math.round(this.#asked.admittedAtMs + performance.now() - this.#startedAtMs));
    return this.#whole;
  }

  /** Decides the outcome, and what the caller is told. `thrown` is undefined where reading ended without an error. */
  #failed(thrown: unknown, signal: AbortSignal): Error {
    if (this.#isCut) {
      this.#outcome = { kind: 'cut' };
      return stopping();
    }
    if (this.#overtime !== undefined) {
      this.#outcome = { kind: 'failed', error: this.#overtime };
      return this.#overtime;
    }
    if (signal.aborted || thrown === undefined) {
      this.#outcome = { kind: 'client_gone' };
      this.#tally.takeReportOfWhole();
      return signal.reason instanceof ConnectError
        ? signal.reason
        : new ConnectError('The call was cancelled.', Code.Canceled);
    }
    const error = toGatewayError(thrown);
    this.#outcome = { kind: 'failed', error };
    return error;
  }

  async #settleUnanswered(): Promise<void> {
    const { ledger } = this.#tools;
    const { id } = this.#asked;
    await this.#slices.idle();
    const charge = chargeOf(this.#outcome, this.#progress);
    if (charge.kind === 'void') {
      await ledger.void(id, charge.reason);
      return;
    }
    if (this.#told !== undefined) await this.#hooks.beforeBrokenSettle?.(this.#told);
    await this.#settle(charge.kind === 'usage' ? await this.#count() : { buckets: noUsage, source: 'reported' });
  }

  #count(): Promise<CountedUsage> {
    const limit = this.#limit === undefined ? Infinity : this.#limit * this.#candidates;
    return this.#tally.count(this.#asked.request, Math.min(limit, this.#paidTokens));
  }

  async #settle(counted: CountedUsage): Promise<Settled> {
    await this.#slices.idle();
    const charge = chargeOf(this.#outcome, this.#progress);
    if (charge.kind === 'void') throw new Error('a voided generation is not settled');
    const command = settleCommand({
      id: this.#asked.id,
      model: this.#asked.model,
      askedTier: this.#asked.tier,
      reportedTier: this.#tally.serviceTier,
      state: charge.state,
      counted,
      calls: this.#tally.calls,
      latencyMs: performance.now() - this.#startedAtMs,
      firstEventMs: this.#firstEventMs,
      provider: this.#route.provider,
      attempts: this.#attempts,
    });
    const settled = await this.#tools.ledger.settle(command);
    if (settled.kind !== 'settled') throw new Error(`settle of ${this.#asked.id}: ${settled.kind}`);
    return settled;
  }
}

function stopping(): GatewayError {
  return new GatewayError('overloaded', 'The gateway is stopping.', { retryAfterMs: 5_000 });
}

/**
 * The most that a model without a known maximum is told when funds are short. Above it none is sent: upstreams refuse limits beyond their own maximum, and the same request
 * must make the same bytes whatever the balance; the slices of the hold end an answer that does outrun its funds.
 */
const unknownOutputMax = 4_096;

/** The output limit that binds one choice: the client's own, or less where funds can't pay it; undefined where neither binds. */
function outputLimitOf({ request, model, admitted }: AdmittedRequest): number | undefined {
  const client = clientLimit(request, model);
  const payable = Math.floor((admitted.outputTokens + admitted.outputTokensAvailable) / (request.candidates ?? 1));
  const wanted = client ?? model.maxOutputTokens ?? unknownOutputMax;
  return payable < wanted ? payable : client;
}
