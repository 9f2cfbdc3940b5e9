import { ItemStatus, type TokenLogprob } from '../../gen/tollgate/v1/content_pb.ts';
import { type Delta, DeltaKind, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { Stepper } from '../../lib/stepper.ts';
import { delta } from '../events.ts';
import { ChoiceEnd } from './choice-end.ts';

/**
 * Ends a choice before the first stop sequence in its visible text, whatever the upstream does, and never shows part of one: a tail
 * that could begin a sequence waits until it is clear.
 */
export class StopCutter implements Stepper<GenerationEvent, GenerationEvent> {
  readonly #stop: readonly string[];
  readonly #choices = new Map<number, StopChoice>();

  constructor(stop: readonly string[]) {
    this.#stop = stop;
  }

  /** Some choice was cut. */
  get hasCut(): boolean {
    return [...this.#choices.values()].some(choice => choice.end.isCut);
  }

  push(event: GenerationEvent): GenerationEvent[] {
    const kind = event.event.case;
    if (this.#stop.length === 0 || kind === 'started' || kind === 'completed' || kind === 'usageReported')
      return [event];
    let choice = this.#choices.get(event.choice);
    if (choice === undefined) {
      choice = new StopChoice(event.choice, this.#stop);
      this.#choices.set(event.choice, choice);
    }
    return choice.push(event);
  }

  end(): GenerationEvent[] {
    return [];
  }
}

class StopChoice {
  readonly end = new ChoiceEnd();
  readonly #choice: number;
  readonly #stop: readonly string[];
  readonly #tailMax: number;
  /** Text that could begin a stop sequence, and the log probabilities whose tokens reach into it. */
  #tail = '';
  #logprobs: TokenLogprob[] = [];

  constructor(choice: number, stop: readonly string[]) {
    this.#choice = choice;
    this.#stop = stop;
    this.#tailMax = Math.max(...stop.map(text => text.length)) - 1;
  }

  push(event: GenerationEvent): GenerationEvent[] {
    if (this.end.isCut) return [];
    if (event.event.case === 'delta' && event.event.value.kind === DeltaKind.TEXT) return this.#text(event.event.value);
    this.end.follow(event);
    if (event.event.case !== 'partClosed' || this.#tail === '') return [event];
    // No sequence came: the tail is ordinary text after all.
    const { item, part } = event.event.value;
    return [this.#release([item, part], this.#tail.length), event];
  }

  #text({ item, part, text, logprobs }: Delta): GenerationEvent[] {
    this.#tail += text;
    this.#logprobs.push(...logprobs);
    const match = firstMatch(this.#tail, this.#stop);
    if (match !== undefined) {
      const shown = match.at > 0 ? [this.#release([item, part], match.at)] : [];
      const facts = { status: ItemStatus.COMPLETED, matchedStop: match.stop };
      return [...shown, ...this.end.cut(this.#choice, FinishReason.STOP, facts)];
    }
    const safe = this.#tail.length - openingLength(this.#tail, this.#stop, this.#tailMax);
    return safe > 0 ? [this.#release([item, part], safe)] : [];
  }

  #release(at: readonly [number, number], length: number): GenerationEvent {
    const text = this.#tail.slice(0, length);
    this.#tail = this.#tail.slice(length);
    const logprobs: TokenLogprob[] = [];
    let rest = length;
    for (const token of this.#logprobs) {
      rest -= token.token.length;
      if (rest < 0) break;
      logprobs.push(token);
    }
    this.#logprobs.splice(0, logprobs.length);
    return delta(this.#choice, at, { kind: DeltaKind.TEXT, text, logprobs });
  }
}

/**
 * The stop sequence that is complete first, so that the answer does not depend on how the text was cut into deltas; of several that end at one
 * place the longest.
 */
function firstMatch(text: string, stop: readonly string[]): { at: number; stop: string } | undefined {
  let best: { at: number; end: number; stop: string } | undefined;
  for (const sequence of stop) {
    const at = text.indexOf(sequence);
    const end = at + sequence.length;
    if (at < 0) continue;
    if (best === undefined || end < best.end || (end === best.end && at < best.at)) best = { at, end, stop: sequence };
  }
  return best;
}

/** How many characters at the end of a text could begin a stop sequence. */
function openingLength(text: string, stop: readonly string[], max: number): number {
  for (let length = Math.min(max, text.length); length > 0; length -= 1) {
    const tail = text.slice(text.length - length);
    if (stop.some(sequence => sequence.length > length && sequence.startsWith(tail))) return length;
  }
  return 0;
}
