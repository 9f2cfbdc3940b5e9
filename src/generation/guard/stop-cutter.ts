import { ItemStatus, type TokenLogprob } from '../../gen/tollgate/v1/content_pb.ts';
import { type Delta, DeltaKind, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { delta } from '../events.ts';
import { ChoiceEnd } from './choice-end.ts';
import { PerChoice } from './per-choice.ts';
import type { EventStep } from './step.ts';

/**
 * Ends a choice before the first stop sequence in its visible text, even if the upstream does not. It never shows a part of that sequence: text at the end that could begin a sequence is held back.
 */
export class StopCutter implements EventStep {
  readonly #next: EventStep;
  readonly #choices: PerChoice<StopChoice, StopContext>;

  /** `stop`: the stop sequences, at least one. */
  constructor(next: EventStep, stop: readonly string[]) {
    this.#next = next;
    this.#choices = new PerChoice(newStopChoice, { next, stop });
  }

  get hasCut(): boolean {
    return this.#choices.some(isCut);
  }

  push(event: GenerationEvent): void {
    const kind = event.event.case;
    if (kind === 'started' || kind === 'completed' || kind === 'usageReported') this.#next.push(event);
    else this.#choices.get(event.choice).push(event);
  }
}

interface StopContext {
  readonly next: EventStep;
  readonly stop: readonly string[];
}

const newStopChoice = (choice: number, { next, stop }: StopContext): StopChoice => new StopChoice(next, choice, stop);
const isCut = ({ end }: StopChoice): boolean => end.isCut;

class StopChoice {
  readonly end = new ChoiceEnd();
  readonly #next: EventStep;
  readonly #choice: number;
  readonly #stop: readonly string[];
  readonly #tailMax: number;
  /** The text that is held back because it could begin a stop sequence, and the log probabilities of its tokens. */
  #tail = '';
  #logprobs: TokenLogprob[] = [];

  constructor(next: EventStep, choice: number, stop: readonly string[]) {
    this.#next = next;
    this.#choice = choice;
    this.#stop = stop;
    this.#tailMax = Math.max(...stop.map(text => text.length)) - 1;
  }

  push(event: GenerationEvent): void {
    if (this.end.isCut) return;
    const { event: step } = event;
    if (step.case === 'delta' && step.value.kind === DeltaKind.TEXT) {
      this.#text(event, step.value);
      return;
    }
    this.end.follow(event);
    // The part has closed without a sequence, so the tail is ordinary text.
    if (step.case === 'partClosed') this.#release([step.value.item, step.value.part], this.#tail.length);
    this.#next.push(event);
  }

  #text(event: GenerationEvent, { item, part, text, logprobs }: Delta): void {
    const isAlone = this.#tail === '' && this.#logprobs.length === 0 && logprobs.length === 0;
    this.#tail += text;
    this.#logprobs.push(...logprobs);
    const match = firstMatch(this.#tail, this.#stop);
    if (match !== undefined) {
      this.#release([item, part], match.at);
      const facts = { status: ItemStatus.COMPLETED, matchedStop: match.stop };
      for (const cut of this.end.cut(this.#choice, FinishReason.STOP, facts)) this.#next.push(cut);
      return;
    }
    const held = openingLength(this.#tail, this.#stop, this.#tailMax);
    if (isAlone && held === 0) {
      this.#tail = '';
      if (text !== '') this.#next.push(event);
    } else {
      this.#release([item, part], this.#tail.length - held);
    }
  }

  /** Passes on the first `length` characters of the tail. */
  #release(at: readonly [number, number], length: number): void {
    if (length === 0) return;
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
    this.#next.push(delta(this.#choice, at, { kind: DeltaKind.TEXT, text, logprobs }));
  }
}

/**
 * Returns the stop sequence that is complete first (of several with the same end, the longest), so that the answer does not depend on how the text was split into deltas.
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

/** Returns how many characters at the end of a text could begin a stop sequence. */
function openingLength(text: string, stop: readonly string[], max: number): number {
  for (let length = Math.min(max, text.length); length > 0; length -= 1) {
    const tail = text.slice(text.length - length);
    if (stop.some(sequence => sequence.length > length && sequence.startsWith(tail))) return length;
  }
  return 0;
}
