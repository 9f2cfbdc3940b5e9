import { ItemStatus } from '../../gen/tollgate/v1/content_pb.ts';
import { type Delta, DeltaKind, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { delta } from '../events.ts';
import { ChoiceEnd } from './choice-end.ts';
import { PerChoice } from './per-choice.ts';
import type { EventStep } from './step.ts';
import { TokenMeter } from './token-meter.ts';

/**
 * Ends each choice at its output limit, even if the upstream ignores it. The limit can be lowered during the answer (if the funds end). `tolerance`: the factor by which the count may exceed the limit, so that an upstream that keeps the limit with another tokenizer is not cut.
 */
export class LengthCutter implements EventStep {
  readonly #next: EventStep;
  #limit: number;
  /** The UTF-8 bytes of all announced text, which is an upper bound of its tokens in any tokenizer. */
  #bytes = 0;
  readonly #choices: PerChoice<LengthChoice, EventStep>;

  /** `limit`: in tokens per choice; Infinity: none. */
  constructor(next: EventStep, limit: number, tolerance = 1) {
    this.#next = next;
    this.#limit = Math.floor(limit * tolerance);
    this.#choices = new PerChoice(newLengthChoice, next);
  }

  get hasCut(): boolean {
    return this.#choices.some(isCut);
  }

  /** Lowers the limit from now on, without tolerance. A higher value than the current limit has no effect. */
  lower(limit: number): void {
    this.#limit = Math.min(this.#limit, limit);
  }

  /** Returns whether the tokenizer must be loaded before these events can be pushed. */
  needsTokenizer(events: readonly GenerationEvent[]): boolean {
    return this.#limit < Infinity && this.#bytes + textBytes(events) > this.#limit;
  }

  /** Announces events that will be pushed, now or later. Every event must be announced before it is pushed. */
  announce(events: readonly GenerationEvent[]): void {
    this.#bytes += textBytes(events);
  }

  push(event: GenerationEvent): void {
    const kind = event.event.case;
    if (kind === 'started' || kind === 'completed' || kind === 'usageReported') this.#next.push(event);
    else this.#choices.get(event.choice).push(event, this.#bytes > this.#limit ? this.#limit : Infinity);
  }
}

/** Returns the bytes of all text in the events, including the `{}` that a call without arguments gets when it closes. */
function textBytes(events: readonly GenerationEvent[]): number {
  let bytes = 0;
  for (const { event } of events) {
    if (event.case === 'delta') bytes += event.value.kind === DeltaKind.ECHO ? 0 : Buffer.byteLength(event.value.text);
    else if (event.case === 'itemClosed') bytes += 2;
  }
  return bytes;
}

const newLengthChoice = (choice: number, next: EventStep): LengthChoice => new LengthChoice(next, choice);
const isCut = ({ end }: LengthChoice): boolean => end.isCut;

class LengthChoice {
  readonly end = new ChoiceEnd();
  readonly #next: EventStep;
  readonly #choice: number;
  readonly #meter = new TokenMeter();

  constructor(next: EventStep, choice: number) {
    this.#next = next;
    this.#choice = choice;
  }

  push(event: GenerationEvent, limit: number): void {
    if (this.end.isCut) return;
    if (event.event.case === 'delta' && event.event.value.kind !== DeltaKind.ECHO) {
      this.#delta(event, event.event.value, limit);
    } else {
      this.end.follow(event);
      this.#next.push(event);
    }
  }

  #delta(event: GenerationEvent, value: Delta, limit: number): void {
    const kept = this.#meter.take(value.text, limit);
    if (kept === value.text) {
      this.#next.push(event);
      return;
    }
    if (kept !== '') this.#next.push(this.#shorten(value, kept));
    const cut = this.end.cut(this.#choice, FinishReason.LENGTH, { status: ItemStatus.INCOMPLETE });
    for (const closing of cut) this.#next.push(closing);
  }

  #shorten(value: Delta, text: string): GenerationEvent {
    let length = 0;
    const logprobs = value.logprobs.filter(token => (length += token.token.length) <= text.length);
    return delta(this.#choice, [value.item, value.part], { kind: value.kind, text, logprobs });
  }
}
