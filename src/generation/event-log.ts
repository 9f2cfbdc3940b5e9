import type { Delta, GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { GrowingText } from '../lib/growing-text.ts';

/** A delta to which the next ones are added. */
interface OpenDelta {
  readonly value: Delta;
  readonly text: GrowingText;
}

/**
 * Keeps events for later, merged into as few as possible: consecutive deltas of one part are merged, even if deltas of other choices come between them. Otherwise a long answer would take 40 times the memory of its text. The events that are added are never changed.
 */
export class EventLog {
  readonly #events: GenerationEvent[] = [];
  /** By choice. It begins with the one choice of most answers, because an empty list would grow to room for 17. */
  readonly #open: (OpenDelta | undefined)[] = [undefined];

  add(event: GenerationEvent): void {
    const { event: step, choice } = event;
    if (step.case !== 'delta') {
      this.#close(choice);
      this.#events.push(event);
      return;
    }
    const { text, logprobs } = step.value;
    const open = this.#open[choice];
    if (open !== undefined && isSamePlace(open, step.value)) {
      open.text.append(text);
      for (const token of logprobs) open.value.logprobs.push(token);
      return;
    }
    this.#close(choice);
    const value = { ...step.value, logprobs: [...logprobs] };
    const opened = { value, text: new GrowingText() };
    opened.text.append(text);
    this.#open[choice] = opened;
    this.#events.push({ ...event, event: { case: 'delta', value } });
  }

  /** Returns all events so far, in order. Later events do not change the returned list. */
  read(): GenerationEvent[] {
    for (let choice = 0; choice < this.#open.length; choice += 1) this.#close(choice);
    return [...this.#events];
  }

  #close(choice: number): void {
    const open = this.#open[choice];
    if (open !== undefined) open.value.text = open.text.toString();
    this.#open[choice] = undefined;
  }
}

function isSamePlace({ value }: OpenDelta, { item, part, kind }: Delta): boolean {
  return value.item === item && value.part === part && value.kind === kind;
}
