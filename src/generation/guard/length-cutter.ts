import { ItemStatus } from '../../gen/tollgate/v1/content_pb.ts';
import { type Delta, DeltaKind, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { delta } from '../events.ts';
import { ChoiceEnd } from './choice-end.ts';
import { PerChoice } from './per-choice.ts';
import type { EventStep } from './step.ts';
import { TokenMeter } from './token-meter.ts';

/**
 * Ends each choice at its output limit, whatever the upstream does. The limit can be lowered while the answer runs (when funds end); `tolerance` allows
 * for an upstream that counts with another tokenizer, so that one that keeps the limit is never cut by the difference.
 */
export class LengthCutter implements EventStep {
  readonly #next: EventStep;
  #limit: number;
  /** UTF-8 bytes of all text that was announced: no tokenizer makes more tokens of it. */
  #bytes = 0;
  readonly #choices: PerChoice<LengthChoice>;

  /** `limit` in tokens a choice; Infinity for none. */
  constructor(next: EventStep, limit: number, tolerance = 1) {
    this.#next = next;
    this.#limit = Math.floor(limit * tolerance);
    this.#choices = new PerChoice(choice => new LengthChoice(next, choice));
  }

  get hasCut(): boolean {
    return this.#choices.all().some(choice => choice.end.isCut);
  }

  /** Lowers the limit from now on, without tolerance; never raises it. */
  lower(limit: number): void {
    this.#limit = Math.min(this.#limit, limit);
  }

  /** Returns whether the tokenizer must be loaded before the text of these events can be taken. */
  needsTokenizer(events: readonly GenerationEvent[]): boolean {
    return this.#limit < Infinity && this.#bytes + textBytes(events) > this.#limit;
  }

  /** Announces events whose text will be pushed, at once or later. Every event must be announced before its text is pushed. */
  announce(events: readonly GenerationEvent[]): void {
    this.#bytes += textBytes(events);
  }

  push(event: GenerationEvent): void {
    const kind = event.event.case;
    if (kind === 'started' || kind === 'completed' || kind === 'usageReported') this.#next.push(event);
    else this.#choices.get(event.choice).push(event, this.#bytes > this.#limit ? this.#limit : Infinity);
  }
}

/** The bytes of all text in the events, and of the `{}` that a call without arguments gets at its end. */
function textBytes(events: readonly GenerationEvent[]): number {
  let bytes = 0;
  for (const { event } of events) {
    if (event.case === 'delta') bytes += event.value.kind === DeltaKind.ECHO ? 0 : Buffer.byteLength(event.value.text);
    else if (event.case === 'itemClosed') bytes += 2;
  }
  return bytes;
}

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
    if (kept !== '') this.#next.push(this.#shortened(value, kept));
    const cut = this.end.cut(this.#choice, FinishReason.LENGTH, { status: ItemStatus.INCOMPLETE });
    for (const closing of cut) this.#next.push(closing);
  }

  #shortened(value: Delta, text: string): GenerationEvent {
    let length = 0;
    const logprobs = value.logprobs.filter(token => (length += token.token.length) <= text.length);
    return delta(this.#choice, [value.item, value.part], { kind: value.kind, text, logprobs });
  }
}
