import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { loadedTokenizer, loadTokenizer } from '../tokens.ts';
import { CallCheck, keepsStop } from './call-check.ts';
import { CallFilter, callRules } from './call-filter.ts';
import { LastFinish } from './last-finish.ts';
import { LengthCutter, type LimitTerms } from './length-cutter.ts';
import { Serialiser } from './serialise.ts';
import type { EventStep } from './step.ts';
import { StopCutter } from './stop-cutter.ts';
import { Validator } from './validate.ts';

/** The output limit of a choice. */
export interface OutputLimit extends Omit<LimitTerms, 'candidates'> {
  /** The most output tokens of one choice; Infinity: no limit. */
  readonly limit: number;
}

/**
 * Checks an upstream's events before the client sees them: their order and validity, and the client's limits, which an upstream may ignore. Each event goes through all steps synchronously.
 */
export class Guard {
  readonly #candidates: number;
  readonly #shown = new Shown();
  readonly #length: LengthCutter;
  /** Undefined: the request has no stop sequences. */
  readonly #stop: StopCutter | undefined;
  readonly #validator: Validator;
  readonly #first: LastFinish;

  constructor(request: GenerateRequest, { limit, ...terms }: OutputLimit) {
    this.#candidates = request.candidates ?? 1;
    const checked = new CallCheck(this.#shown, keepsStop(request));
    this.#length = new LengthCutter(checked, limit, { ...terms, candidates: this.#candidates });
    this.#stop = request.stop.length === 0 ? undefined : new StopCutter(this.#length, request.stop);
    const filter = new CallFilter(this.#stop ?? this.#length, callRules(request));
    this.#validator = new Validator(filter, this.#candidates);
    this.#first = new LastFinish(new Serialiser(this.#validator), limit * this.#candidates);
  }

  /** True if the gateway has cut the answer, so that the upstream can be stopped. */
  get isDone(): boolean {
    return this.#shown.finished >= this.#candidates && this.#hasCut;
  }

  get #hasCut(): boolean {
    return this.#length.hasCut || this.#stop?.hasCut === true;
  }

  /** Returns a promise to wait for before these events can be pushed (loading the tokenizer, if a limit could be near); undefined: nothing to wait for. */
  waitsFor(events: readonly GenerationEvent[]): Promise<unknown> | undefined {
    return loadedTokenizer() === undefined && this.#length.needsTokenizer(events) ? loadTokenizer() : undefined;
  }

  /** Takes events of the upstream, and returns those for the client. Throws `UpstreamFailure` `malformed`. */
  push(events: readonly GenerationEvent[]): GenerationEvent[] {
    this.#length.announce(events);
    for (const event of events) this.#first.push(event);
    // If all choices that were not cut have finished, no more is expected, and their finish events are sent.
    if (this.#first.waiting > 0 && this.#hasCut) this.#first.release(this.#candidates - this.#shown.finished);
    return this.#shown.take();
  }

  /** Called when the upstream has ended. Throws `UpstreamFailure` `truncated` if the answer is incomplete. */
  end(): void {
    this.#validator.end();
  }

  /** Lowers the output limit of each choice to the number of tokens that are paid for. */
  lowerLimit(outputTokens: number): void {
    this.#length.lower(outputTokens);
  }
}

/** The last step: collects the events for the client. */
class Shown implements EventStep {
  finished = 0;
  #events: GenerationEvent[] = [];

  push(event: GenerationEvent): void {
    if (event.event.case === 'finished') this.finished += 1;
    this.#events.push(event);
  }

  /** The events since the last call. */
  take(): GenerationEvent[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }
}
