import { ItemStatus } from '../../gen/tollgate/v1/content_pb.ts';
import { type Delta, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { Stepper } from '../../lib/stepper.ts';
import { delta } from '../events.ts';
import type { TokenCounter } from '../tokens.ts';
import { ChoiceEnd } from './choice-end.ts';
import { TokenMeter } from './token-meter.ts';

/**
 * Ends each choice at its output limit, whatever the upstream does. The limit can be lowered while the answer runs (when funds end); `tolerance` allows
 * for an upstream that counts with another tokenizer, so that one that keeps the limit is never cut by the difference.
 */
export class LengthCutter implements Stepper<GenerationEvent, GenerationEvent> {
  readonly #counter: TokenCounter;
  #limit: number;
  readonly #choices = new Map<number, LengthChoice>();

  /** `limit` in tokens a choice; Infinity for none. */
  constructor(counter: TokenCounter, limit: number, tolerance = 1) {
    this.#counter = counter;
    this.#limit = Math.floor(limit * tolerance);
  }

  /** Some choice was cut. */
  get hasCut(): boolean {
    return [...this.#choices.values()].some(choice => choice.end.isCut);
  }

  /** Lowers the limit from now on, without tolerance; never raises it. */
  lower(limit: number): void {
    this.#limit = Math.min(this.#limit, limit);
  }

  push(event: GenerationEvent): GenerationEvent[] {
    const kind = event.event.case;
    if (kind === 'started' || kind === 'completed' || kind === 'usageReported') return [event];
    let choice = this.#choices.get(event.choice);
    if (choice === undefined) {
      choice = new LengthChoice(event.choice, this.#counter);
      this.#choices.set(event.choice, choice);
    }
    return choice.push(event, this.#limit);
  }

  end(): GenerationEvent[] {
    return [];
  }
}

class LengthChoice {
  readonly end = new ChoiceEnd();
  readonly #choice: number;
  readonly #meter: TokenMeter;

  constructor(choice: number, counter: TokenCounter) {
    this.#choice = choice;
    this.#meter = new TokenMeter(counter);
  }

  push(event: GenerationEvent, limit: number): GenerationEvent[] {
    if (this.end.isCut) return [];
    if (event.event.case === 'delta') return this.#delta(event, event.event.value, limit);
    this.end.follow(event);
    return [event];
  }

  #delta(event: GenerationEvent, value: Delta, limit: number): GenerationEvent[] {
    const kept = this.#meter.take(value.text, limit);
    if (kept === value.text) return [event];
    const shown = kept === '' ? [] : [this.#shortened(value, kept)];
    return [...shown, ...this.end.cut(this.#choice, FinishReason.LENGTH, { status: ItemStatus.INCOMPLETE })];
  }

  #shortened(value: Delta, text: string): GenerationEvent {
    let length = 0;
    const logprobs = value.logprobs.filter(token => (length += token.token.length) <= text.length);
    return delta(this.#choice, [value.item, value.part], { kind: value.kind, text, logprobs });
  }
}
