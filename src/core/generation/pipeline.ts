import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { CallFilter, callRules } from '../../generation/enforce/call-filter.ts';
import { LengthCutter } from '../../generation/enforce/length-cutter.ts';
import { StopCutter } from '../../generation/enforce/stop-cutter.ts';
import { Serialiser } from '../../generation/serialise.ts';
import type { TokenCounter } from '../../generation/tokens.ts';
import { Validator } from '../../generation/validate.ts';
import type { Stepper } from '../../lib/stepper.ts';

/** What stands between an upstream and a client: order, validity, and what the client set and an upstream may ignore. */
export class Pipeline {
  readonly #candidates: number;
  readonly #stop: StopCutter;
  readonly #length: LengthCutter;
  readonly #validator = new Validator();
  readonly #steps: readonly Stepper<GenerationEvent, GenerationEvent>[];
  #finished = 0;

  /** `limit`: the output limit of one choice, Infinity for none. `tolerance`: see `LengthCutter`. */
  constructor(request: GenerateRequest, counter: TokenCounter, limits: { limit: number; tolerance: number }) {
    this.#candidates = request.candidates ?? 1;
    this.#stop = new StopCutter(request.stop);
    this.#length = new LengthCutter(counter, limits.limit, limits.tolerance);
    this.#steps = [new Serialiser(), this.#validator, new CallFilter(callRules(request)), this.#stop, this.#length];
  }

  /** Takes what the upstream said, answers what the client may see of it. Throws `UpstreamFailure` `malformed`. */
  push(batch: readonly GenerationEvent[]): GenerationEvent[] {
    const events: GenerationEvent[] = [];
    for (const event of batch) this.#pass(event, 0, events);
    for (const { event } of events) if (event.case === 'finished') this.#finished += 1;
    return events;
  }

  /** Lets an event through the steps from `position` on; what comes out of the last is added to `events`. */
  #pass(event: GenerationEvent, position: number, events: GenerationEvent[]): void {
    const step = this.#steps[position];
    if (step === undefined) events.push(event);
    else for (const passed of step.push(event)) this.#pass(passed, position + 1, events);
  }

  /** The upstream has ended. Throws `UpstreamFailure` `truncated` where it ended too early. */
  end(): void {
    this.#validator.end();
  }

  /** The gateway has cut a choice and nothing more is wanted: the upstream can be stopped. */
  get isDone(): boolean {
    return this.#finished >= this.#candidates && (this.#stop.hasCut || this.#length.hasCut);
  }

  /** Only so many output tokens a choice are paid for. */
  lowerLimit(outputTokens: number): void {
    this.#length.lower(outputTokens);
  }
}
