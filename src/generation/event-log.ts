import type { Delta, GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { GrowingText } from '../lib/growing-text.ts';

/** A delta that further ones are added to. */
interface OpenDelta {
  readonly choice: number;
  readonly value: Delta;
  readonly text: GrowingText;
}

/**
 * Events that are kept for later, as few as say the same: deltas that follow each other at one place are one. A long answer kept delta by delta is 40 times its text. The
 * events that are added are never changed.
 */
export class EventLog {
  readonly #events: GenerationEvent[] = [];
  #open: OpenDelta | undefined;

  add(event: GenerationEvent): void {
    const { event: step, choice } = event;
    if (step.case !== 'delta') {
      this.#close();
      this.#events.push(event);
      return;
    }
    const { text, logprobs } = step.value;
    if (this.#open !== undefined && isSamePlace(this.#open, choice, step.value)) {
      this.#open.text.append(text);
      for (const token of logprobs) this.#open.value.logprobs.push(token);
      return;
    }
    this.#close();
    const value = { ...step.value, logprobs: [...logprobs] };
    this.#open = { choice, value, text: new GrowingText() };
    this.#open.text.append(text);
    this.#events.push({ ...event, event: { case: 'delta', value } });
  }

  /** All that was added, in its order. Further events may follow, but not into what was read. */
  read(): GenerationEvent[] {
    this.#close();
    return [...this.#events];
  }

  #close(): void {
    if (this.#open !== undefined) this.#open.value.text = this.#open.text.toString();
    this.#open = undefined;
  }
}

function isSamePlace(open: OpenDelta, choice: number, { item, part, kind }: Delta): boolean {
  const { value } = open;
  return value.item === item && value.part === part && value.kind === kind && open.choice === choice;
}
