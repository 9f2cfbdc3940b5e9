import { toGatewayError } from '../../errors/gateway-error.ts';
import { withDeprecation } from '../catalog/deprecation.ts';
import type { Pricing } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { FinishReason, GenerationEvent, LimitState } from '../../gen/tollgate/v1/event_pb.ts';
import { Delivery, type GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { EventLog } from '../../generation/event-log.ts';
import { completed, isAtEnd } from '../../generation/events.ts';
import { AnswerSize, textMost } from '../../generation/guard/answer-size.ts';
import { Guard } from '../../generation/guard/guard.ts';
import { type CountedUsage, Tally, usageMessage, usageSource } from '../../generation/guard/tally.ts';
import { Hold } from '../../generation/hold.ts';
import { ToolCallCount } from '../../generation/guard/tool-call-count.ts';
import { noUsage, sumInput } from '../../generation/usage-buckets.ts';
import { mayRunTools } from '../../generation/tool-terms.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import type { StreamControl } from '../../lib/push.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { Ledger, SettleCommand, Settled } from '../../ledger/ledger.ts';
import { checkSettled } from '../check-settled.ts';
import { TimelineRecord } from '../timeline-record.ts';
import { limitState } from '../limit-state.ts';
import type { RouteName } from '../routing/observer.ts';
import type { BegunAnswer, RoutedCall, RoutedReceiver } from '../routing/routed-call.ts';
import type { Router } from '../routing/router.ts';
import { type Interruptible, keyRevoked } from '../running-requests.ts';
import { toTokenCounts } from '../token-counts.ts';
import { AnswerCounts, type CountingDependencies } from './answer-counts.ts';
import { outputTokensMost } from './funds.ts';
import { HiddenReasoning } from './hidden-reasoning.ts';
import type { GenerationSink } from './generation-sink.ts';
import { inputCutWarning, mayBeCut, wasCut } from './input-cut.ts';
import { type AdmittedRequest, mayBeWhole, outputLimit, withoutStopSequences } from './output-limit.ts';
import { PauseJoin, toContinuation } from './pause-join.ts';
import {
  billedTier,
  doubtTier,
  type TierClaim,
  toTierClaim,
  toCharge,
  type Outcome,
  type Progress,
  toClientError,
  toSettleCommand,
} from './settlement.ts';
import type { RunningFacts } from './running-facts.ts';
import { Slices } from './slices.ts';
import { toTierFields } from '../../generation/service-tier.ts';

/** The dependencies of `Generation`. */
export interface GenerationDependencies extends CountingDependencies {
  readonly ledger: Ledger;
  readonly router: Router;
  readonly runtime: Runtime;
  /** Returns whether the client gets the route's name. */
  readonly exposeRoute: () => boolean;
  /** Returns the factor by which a provider's token count may exceed the gateway's before the gateway cuts an answer at its limit; 1: it may not. */
  readonly findTolerance: (provider: string) => number;
  /** Returns the most bytes of one choice of a streamed answer, and of an answer that is not streamed. */
  readonly answerBytesMax: () => { readonly choice: number; readonly whole: number };
  /** How long the client's error waits for the charge after the answer broke off; absent: 10 s. */
  readonly settleMs?: number;
}

const settleMsDefault = 10_000;

/** One admitted request that generates text: its attempts, its answer and its end. It does the accounting, independently of the client's connection: however it ends, its hold is settled or voided exactly once, and its sink is notified when that is durable. */
export class Generation implements RoutedReceiver, StreamControl, Interruptible {
  /** The public request id. */
  readonly requestId: string;
  /** The listed id of the model. */
  readonly model: string;
  readonly createdAtMs: number;
  place = -1;
  readonly #dependencies: GenerationDependencies;
  readonly #requested: AdmittedRequest;
  readonly #onEnd: (generation: Generation) => void;
  readonly #startedAtMs: number;
  readonly #isStreamed: boolean;
  readonly #isWhole: boolean;
  /** The output limit of one choice: the client's, or the one that funds can pay; undefined: none. */
  readonly #limit: number | undefined;
  readonly #tally: Tally;
  #size: AnswerSize;
  readonly #counts: AnswerCounts;
  readonly #toolCalls: ToolCallCount;
  readonly #slices: Slices;
  readonly #hidden: HiddenReasoning;
  readonly #timeline: TimelineRecord;
  #sink: GenerationSink | undefined;
  #request: GenerateRequest;
  #routed: RoutedCall | undefined;
  #guard: Guard | undefined;
  /** Joins the calls of an answer in which the upstream pauses; undefined: this upstream never pauses. */
  #join: PauseJoin | undefined;
  /** Events that are held back until the charge (finish events), or until the end (all events of an answer that is not streamed). */
  #kept = new EventLog();
  readonly #finishes: FinishReason[] = [];
  /** The output tokens of all choices that the funds pay for; Infinity until the funds have ended. */
  #paidTokens = Infinity;
  /** How the generation ended; undefined: it runs, or has not started. */
  #outcome: Outcome | undefined;
  #limitIsVisible = false;
  #isPaused = false;
  #isInterrupted = false;
  /** True if events after the start were sent to the client. */
  #hasShown = false;
  /** True if an attempt was sent to an upstream. */
  #wasSent = false;
  /** True while an attempt runs. */
  #isTrying = false;
  #firstEventMs: number | undefined;
  #wholeAtMs: bigint | undefined;
  /** The route that has begun to answer. */
  #route = nowhere;
  /** The prices of that provider; undefined: unknown. */
  #cost: Pricing | undefined;
  #attempts = 0;

  /** `onEnd` is called once, when the generation has ended and was charged or voided. */
  constructor(
    dependencies: GenerationDependencies,
    requested: AdmittedRequest,
    onEnd: (generation: Generation) => void,
  ) {
    const { request, model, admitted, requestId, admittedAtMs } = requested;
    this.requestId = requestId;
    this.model = model.id;
    this.createdAtMs = admittedAtMs;
    this.#dependencies = dependencies;
    this.#requested = requested;
    this.#onEnd = onEnd;
    this.#request = request;
    this.#startedAtMs = dependencies.runtime.monotonicMs();
    this.#timeline = new TimelineRecord(dependencies.runtime);
    this.#isStreamed = request.delivery !== Delivery.WHOLE;
    this.#isWhole = !this.#isStreamed && mayBeWhole(requested);
    this.#limit = outputLimit(requested);
    const { contextLength = Infinity, maxOutputTokens = Infinity } = model;
    const candidates = this.choices;
    this.#size = this.#newSize();
    // Each pass of a provider's tool sends the input again, so that the whole input can be more than the context.
    const inputMax = mayRunTools(request) ? Infinity : contextLength * candidates;
    this.#tally = new Tally({ candidates, input: inputMax, output: maxOutputTokens * candidates });
    this.#counts = new AnswerCounts(dependencies, request, requested.input);
    this.#toolCalls = new ToolCallCount(request, model.pricing);
    this.#slices = new Slices(dependencies.ledger, admitted, outputTokensMost(request, model), {
      ended: tokens => {
        this.#paidTokens = tokens;
        this.#guard?.lowerLimit(Math.floor(tokens / candidates));
      },
      raised: heldNanoUsd => this.#timeline.extended(heldNanoUsd),
    });
    this.#hidden = new HiddenReasoning(dependencies.runtime, this.#counts, this.#slices);
  }

  /** The current facts of the request. */
  get facts(): RunningFacts {
    const { requestId, model, createdAtMs, keyId, heldNanoUsd } = this;
    return {
      requestId,
      model,
      createdAtMs,
      keyId,
      heldNanoUsd,
      accountId: this.#requested.accountId,
      outputTokens: this.#tally.outputTokensHigh,
      provider: this.#route.provider,
      attempts: this.#attempts,
    };
  }

  /** The amount that is held now, in nano-dollars. */
  get heldNanoUsd(): bigint {
    return this.#slices.heldNanoUsd;
  }

  get isInterrupted(): boolean {
    return this.#isInterrupted;
  }

  /** The key's request windows after the admission, tightest first. */
  get limits(): LimitState[] {
    return this.#requested.admitted.windows.map(limitState);
  }

  /** Sends the request to an upstream; the answer goes to `sink`. Call it once. If the generation was cancelled or interrupted before, `sink` gets only the end. */
  start(sink: GenerationSink): void {
    this.#sink = sink;
    if (this.#outcome === undefined) this.#call();
    else void this.#endUnanswered(this.#outcome);
  }

  /** Ends the answer because the client has disconnected, or, with `failure`, because the answer could not be delivered. */
  cancel(failure?: Error): void {
    this.#stop(failure === undefined ? { kind: 'client_gone' } : { kind: 'failed', error: toGatewayError(failure) });
  }

  /** Ends the answer now, because the gateway stops. */
  interrupt(): void {
    this.#isInterrupted = true;
    this.#stop({ kind: 'interrupted' });
  }

  /** Ends the answer now, because its key was revoked. */
  revoke(): void {
    this.#stop({ kind: 'client_gone', error: keyRevoked() });
  }

  get keyId(): number {
    return this.#requested.keyId;
  }

  pause(): void {
    this.#isPaused = true;
    this.#routed?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#routed?.resume();
  }

  attemptStarted(route: RouteName, isRemote: boolean): void {
    this.#wasSent = true;
    this.#isTrying = true;
    this.#counts.sent(route, isRemote);
    this.#hidden.watch();
  }

  attemptFailed(): void {
    this.#isTrying = false;
    this.#hidden.stop();
    this.#size = this.#newSize();
    this.#tally.restart();
    this.#toolCalls.restart();
  }

  begun({ route, cost, attempt, calls, mayPause, limitIsVisible }: BegunAnswer): void {
    this.#attempts = attempt;
    this.#tally.calls = calls;
    this.#route = route;
    this.#cost = cost;
    this.#firstEventMs ??= this.#elapsedMs();
    if (this.#join?.isFirstCall === false) return;
    // If the first call is tried again, nothing of an earlier attempt was sent to the client.
    this.#tally.restart();
    this.#toolCalls.restart();
    this.#join = mayPause ? new PauseJoin() : undefined;
    this.#kept = new EventLog();
    this.#finishes.length = 0;
    if (limitIsVisible) this.#freeReasoning();
    const tolerance = this.#dependencies.findTolerance(route.provider);
    const limits = { limit: this.#limit ?? Infinity, tolerance, isVisible: limitIsVisible };
    this.#guard = new Guard(withoutStopSequences(this.#requested.request, this.#counts.isRemote), limits);
    this.#guard.lowerLimit(Math.floor(this.#paidTokens / this.choices));
  }

  events(events: GenerationEvent[]): Error | undefined | Promise<Error | undefined> {
    if (!this.#size.take(events)) return new UpstreamFailure('oversized');
    this.#tally.take(events);
    this.#toolCalls.count(events);
    this.#counts.noteFirstText(this.#tally);
    const joined = this.#join?.push(events) ?? events;
    // Checked before these events are sent to the client, so that the part that the funds can't pay for is cut off.
    const slice = this.#slices.reach(this.#tally.outputTokensHigh);
    const wait = slice ?? this.#guard?.waitsFor(joined);
    return wait === undefined ? this.#show(joined) : this.#showLater(joined, wait);
  }

  /** Called when the current call of the answer has ended. */
  end(error?: Error): void {
    if (error !== undefined) this.#stop({ kind: 'failed', error: toGatewayError(error) });
    else if (this.#join?.isPaused === true) void this.#continueAnswer(this.#join);
    else this.#endAnswer();
  }

  get accountId(): number {
    return this.#requested.accountId;
  }

  /** How many choices the request has. */
  get choices(): number {
    return this.#requested.request.candidates ?? 1;
  }

  /** Reasoning is charged, but the client's limit does not count it: the model's does. */
  #freeReasoning(): void {
    const { request, model } = this.#requested;
    if (this.#limitIsVisible || request.maxOutputTokens === undefined) return;
    this.#limitIsVisible = true;
    const all = outputTokensMost({ ...request, maxOutputTokens: undefined }, model);
    this.#slices.addOutput(all - outputTokensMost(request, model));
  }

  #newSize(): AnswerSize {
    const { choice, whole } = this.#dependencies.answerBytesMax();
    const choiceTextMax = textMost(this.#requested.model.maxOutputTokens);
    return new AnswerSize({ choiceBytesMax: choice, choiceTextMax, bytesMax: this.#isStreamed ? Infinity : whole });
  }

  #elapsedMs(): number {
    return this.#dependencies.runtime.monotonicMs() - this.#startedAtMs;
  }

  /** Routes the request. After each pause of the upstream it is routed again, with the output so far. */
  #call(): void {
    const { accountId, admitted, model, request } = this.#requested;
    try {
      this.#routed = this.#dependencies.router.route(
        {
          hold: Hold.of(admitted),
          requestId: this.requestId,
          accountId,
          paidTools: this.#toolCalls.paidTools,
          request: this.#request,
          maxOutputTokens: this.#limit,
          modelOutputTokens: model.maxOutputTokens,
          modelReasons: model.reasoning,
          restartable: !this.#isStreamed && this.#request === request,
          whole: this.#isWhole,
          watch: this.#requested.telemetry,
          timeline: this.#timeline,
          bodies: this.#requested.bodies,
        },
        this,
      );
    } catch (thrown) {
      this.#stop({ kind: 'failed', error: toGatewayError(thrown) });
      return;
    }
    if (this.#isPaused) this.#routed.pause();
    this.#routed.start();
  }

  async #showLater(joined: GenerationEvent[], slice: Promise<unknown>): Promise<Error | undefined> {
    await slice;
    await this.#guard?.waitsFor(joined);
    return this.#outcome === undefined ? this.#show(joined) : undefined;
  }

  /** Sends the client those of the events that it may see. Returns an error if the answer can't continue. */
  #show(joined: GenerationEvent[]): Error | undefined {
    if (this.#guard === undefined) return new Error('events before an answer began');
    let shown: GenerationEvent[];
    try {
      shown = this.#guard.push(joined);
    } catch (thrown) {
      return thrown instanceof UpstreamFailure ? thrown : toGatewayError(thrown);
    }
    const ready = this.#release(shown);
    this.#requested.bodies?.events(shown);
    if (ready.length > 0) this.#sink?.events(ready);
    // An answer that was cut at a limit has ended, even if the upstream paused in the same message.
    if (this.#guard.isDone && this.#outcome === undefined) this.#endAnswer();
    return undefined;
  }

  /** Returns the events that may be sent to the client now, and keeps the others. */
  #release(events: readonly GenerationEvent[]): GenerationEvent[] {
    const ready: GenerationEvent[] = [];
    for (const event of events) {
      const { event: step } = event;
      if (step.case === 'completed' || step.case === 'usageReported') continue;
      if (step.case === 'finished') this.#finishes.push(step.value.reason);
      const shown = step.case === 'started' ? this.#fillStarted(event) : event;
      if (this.#isStreamed && !isAtEnd(event, this.#finishes.length > 0)) {
        ready.push(shown);
        if (step.case !== 'started') this.#hasShown = true;
      } else this.#kept.add(shown);
    }
    return ready;
  }

  #fillStarted(event: GenerationEvent): GenerationEvent {
    if (event.event.case !== 'started') return event;
    const { limits, requestId, model } = this;
    const at = `${this.#route.provider}${event.event.value.route}/${this.#route.model}`;
    const route = this.#dependencies.exposeRoute() ? at : '';
    const warnings = withDeprecation(event.event.value.warnings, this.#requested.model, this.createdAtMs);
    const own = { requestId, model, createdAtMs: BigInt(this.createdAtMs), limits, route, warnings };
    return { ...event, event: { case: 'started', value: { ...event.event.value, ...own } } };
  }

  /** Continues after a pause of the upstream. */
  async #continueAnswer(join: PauseJoin): Promise<void> {
    try {
      this.#toolCalls.carry(this.#tally);
      await this.#tally.carry(this.#request);
    } catch (thrown) {
      this.#stop({ kind: 'failed', error: toGatewayError(thrown) });
    }
    if (this.#outcome !== undefined) return;
    // The client's limit applies to all calls of the answer together, the model's limit to each call.
    if (this.#limit === undefined)
      this.#slices.addOutput(outputTokensMost(this.#requested.request, this.#requested.model));
    this.#request = toContinuation(this.#request, join.beginNextCall());
    this.#call();
  }

  #endAnswer(): void {
    this.#hidden.stopped();
    this.#routed?.enough();
    this.#outcome = { kind: 'answered', finishes: this.#finishes };
    void this.#endAnswered(this.#outcome);
  }

  /** Ends the generation without a complete answer: stops the attempt, then settles or voids. Does nothing if the generation is already ending. */
  #stop(outcome: Outcome): void {
    if (this.#outcome !== undefined) return;
    this.#outcome = outcome;
    this.#hidden.stopped();
    this.#routed?.cancel();
    if (outcome.kind === 'client_gone') {
      const { answer, events = [] } = this.#routed?.opened ?? {};
      if (answer !== undefined) this.begun(answer);
      this.#tally.take([...events]);
      this.#tally.acceptLateUsage();
    }
    if (this.#sink !== undefined) void this.#endUnanswered(outcome);
  }

  async #endAnswered(outcome: Outcome): Promise<void> {
    const sink = this.#sink;
    let last: GenerationEvent[];
    try {
      // The guard has seen `completed`, or has cut every choice.
      const counted = this.#count();
      const usage = counted instanceof Promise ? await counted : counted;
      const input = sumInput(usage.buckets) / this.#tally.calls;
      if (usage.source === 'reported' && mayBeCut(input, this.#requested.measured.inputTokens))
        await this.#checkCut(input);
      if (sink?.beforeSettle !== undefined)
        await sink.beforeSettle([...this.#kept.read(), this.#makeCompleted(usage, 0n)]);
      if (this.#slices.isExtending) await this.#slices.idle();
      this.#requested.telemetry?.trace?.settleBegan();
      const command = this.#settleCommand(outcome, usage);
      // The ledger may still store a charge for which waiting was given up. A client gets an error that says so. An item of a batch would run again and be charged twice, so it waits without a time limit.
      const patience = this.#requested.batch === undefined ? 'bounded' : 'unbounded';
      const settled = await this.#dependencies.ledger.settle(command, patience);
      checkSettled(settled, this.#requested.id);
      this.#tellSettled(command, settled);
      this.#counts.learn(this.#tally, this.#isWhole);
      last = this.#kept.read();
      last.push(this.#makeCompleted(usage, settled.costNanoUsd));
    } catch (thrown) {
      const failed: Outcome = this.#isInterrupted
        ? { kind: 'interrupted' }
        : { kind: 'failed', error: toGatewayError(thrown) };
      this.#outcome = failed;
      return this.#endUnanswered(failed);
    }
    this.#onEnd(this);
    this.#requested.bodies?.ended(false);
    sink?.events(last);
    sink?.end();
  }

  /** Settles or voids a generation that got no `completed` event. Resolves when that is durable. Never rejects. */
  async #endUnanswered(outcome: Outcome): Promise<void> {
    const error = toClientError(outcome);
    const isLedgerFailing = this.#wasSent && outcome.kind === 'failed' && outcome.error.code === 'overloaded';
    // The ledger may not be writable for a long time. The client gets its error immediately, and the hold is voided as soon as the ledger can be written.
    let isNotified = false;
    const notify = (reason: Error): void => {
      if (!isNotified) this.#sink?.end(reason);
      isNotified = true;
    };
    if (isLedgerFailing) notify(error);
    const { runtime, settleMs = settleMsDefault } = this.#dependencies;
    const late = runtime.after(settleMs, () => notify(error));
    this.#requested.bodies?.ended(outcome.kind !== 'client_gone');
    try {
      await this.#settleUnanswered(outcome, error);
    } catch (thrown) {
      this.#onEnd(this);
      notify(toGatewayError(thrown));
      return;
    } finally {
      late.cancel();
    }
    this.#onEnd(this);
    notify(error);
  }

  async #settleUnanswered(outcome: Outcome, error: Error): Promise<void> {
    await this.#slices.idle();
    const charge = toCharge(outcome, this.#progress);
    const { id, telemetry } = this.#requested;
    telemetry?.trace?.settleBegan();
    if (charge.kind === 'void') {
      await this.#dependencies.ledger.void(id, charge.reason);
      telemetry?.holds(this.heldNanoUsd);
      telemetry?.settleEnded(undefined);
      return;
    }
    await this.#sink?.beforeBrokenSettle?.(error);
    if (charge.kind === 'usage') await this.#hidden.settle();
    const counted = charge.kind === 'usage' ? await this.#countUnanswered(outcome) : unused;
    const command = this.#settleCommand(outcome, counted);
    const settled = await this.#dependencies.ledger.settle(command);
    checkSettled(settled, id);
    this.#tellSettled(command, settled);
  }

  #tellSettled({ state, usage, unpriced, providerCostNanoUsd }: SettleCommand, { costNanoUsd }: Settled): void {
    const [{ telemetry }, { router }] = [this.#requested, this.#dependencies];
    if (unpriced !== undefined) router.unpriced(this.#route, unpriced);
    const doubt = doubtTier(this.#tierClaim);
    if (doubt !== undefined) router.usageDoubtful(this.#route, doubt);
    const reported = this.#tally.doubtfulInput;
    if (reported !== undefined)
      router.usageDoubtful(this.#route, { member: 'input_tokens', reported, believed: sumInput(usage) });
    if (telemetry === undefined) return;
    telemetry.holds(this.heldNanoUsd);
    telemetry.settleEnded({ state, tokens: toTokenCounts(usage), costNanoUsd, providerCostNanoUsd });
  }

  /** Warns if the upstream reported far fewer input tokens than were sent, because then it has cut the prompt. The client gets the warning only if the head of its answer was not sent yet. */
  async #checkCut(inputTokens: number): Promise<void> {
    if (!(await wasCut(this.#requested.request, inputTokens))) return;
    this.#dependencies.router.inputCut(this.#route);
    for (const { event } of this.#kept.read()) {
      if (event.case === 'started') event.value.warnings.push(inputCutWarning);
    }
  }

  get #progress(): Progress {
    return {
      streamed: this.#isStreamed && !(this.#isInterrupted && this.#requested.freeIfInterrupted === true),
      hasOutput: this.#hasShown && !this.#tally.isEmpty,
      wasSent: this.#wasSent,
      isTrying: this.#isTrying,
    };
  }

  /**
   * Counts the usage. If the gateway stopped the answer, the upstream has produced more than it sent; the rest is estimated, but never more than the hold covers. If the upstream ended the answer or failed, only what arrived is counted.
   */
  #count(): CountedUsage | Promise<CountedUsage> {
    const limit = (this.#limit ?? Infinity) * this.choices;
    const isVisible = this.#limitIsVisible || this.#tally.keptVisibly(limit);
    const most = Math.min(isVisible ? Infinity : limit, this.#paidTokens);
    const isStopped = this.#outcome?.kind !== 'failed' && !this.#tally.isEnded;
    return isStopped
      ? this.#tally.count(this.#requested.request, Math.min(most, this.#slices.held), this.#counts)
      : this.#tally.count(this.#requested.request, most);
  }

  /** Counts the usage of an answer that broke off. If it was not streamed, nothing of it was delivered, and the usage is estimated. */
  async #countUnanswered(outcome: Outcome): Promise<CountedUsage> {
    const counted = await this.#count();
    const isUnseen = this.#isWhole && this.#counts.isRemote && this.#tally.isEmpty;
    if (!isUnseen || outcome.kind !== 'client_gone') return counted;
    const { outputTokens } = this.#requested.admitted;
    const output = Math.min(this.#counts.estimateUnseenOutput(), outputTokens, this.#limit ?? Infinity);
    return { ...counted, buckets: { ...counted.buckets, output }, source: 'estimated' };
  }

  get #tierClaim(): TierClaim {
    return toTierClaim(this.#requested, this.#tally.serviceTier);
  }

  #makeCompleted(counted: CountedUsage, costNanoUsd: bigint): GenerationEvent {
    // The time at which the answer was complete; set once.
    this.#wholeAtMs ??= BigInt(Math.round(this.createdAtMs + this.#elapsedMs()));
    return completed({
      usage: usageMessage(counted, this.#tally.extra),
      usageSource: usageSource(counted.source),
      costNanoUsd,
      ...toTierFields(billedTier(this.#tierClaim)),
      completedAtMs: this.#wholeAtMs,
    });
  }

  #settleCommand(outcome: Outcome, counted: CountedUsage): SettleCommand {
    const charge = toCharge(outcome, this.#progress);
    if (charge.kind === 'void') throw new Error('a voided generation is not settled');
    return toSettleCommand({
      id: this.#requested.id,
      model: this.#requested.model,
      requestedTier: this.#requested.tier,
      batchPermille: this.#requested.batch?.multiplierPermille,
      reportedTier: this.#tally.serviceTier,
      state: charge.state,
      counted,
      tools: charge.kind === 'usage' ? this.#toolCalls.charges(this.#tally) : undefined,
      calls: this.#tally.calls,
      writes: this.#requested.measured.cacheWrites,
      latencyMs: this.#elapsedMs(),
      firstEventMs: this.#firstEventMs,
      provider: this.#route.provider,
      attempts: this.#attempts,
      cost: this.#cost,
      timeline: this.#timeline.text,
    });
  }
}

const nowhere: RouteName = { modelId: '', provider: '', model: '' };
const unused: CountedUsage = { buckets: noUsage, source: 'reported' };
