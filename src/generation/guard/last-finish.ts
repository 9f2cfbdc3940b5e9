import { FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { isChoiceExtension } from '../events.ts';
import { PerChoice } from './per-choice.ts';
import type { EventStep } from './step.ts';

interface Ending {
  /** The latest finish event; undefined: none has come. */
  finish: GenerationEvent | undefined;
  /** Members of the choice that came after it, which may be about it. */
  after: GenerationEvent[];
  /** The number of open items. */
  open: number;
}

function newEnding(): Ending {
  return { finish: undefined, after: [], open: 0 };
}

/**
 * Keeps the finish event of each choice until the answer is complete. Some upstreams send text, calls and further finish events after a finish event; the last one counts. An answer without a finish reason of the upstream ended at the limit if its usage says so. Source:
 * docs/interfaces/README.md "Finish reasons".
 */
export class LastFinish implements EventStep {
  readonly #next: EventStep;
  readonly #choices = new PerChoice(newEnding, undefined);
  readonly #limit: number;
  #waiting = 0;

  /** `limit`: the most output tokens of the answer. */
  constructor(next: EventStep, limit = Infinity) {
    this.#next = next;
    this.#limit = limit;
  }

  /** How many choices have a finish event that was not emitted yet. */
  get waiting(): number {
    return this.#waiting;
  }

  push(event: GenerationEvent): void {
    switch (event.event.case) {
      case 'finished':
        this.#keep(this.#choices.get(event.choice), event);
        return;
      case 'completed':
        this.#release(this.#choices.all(), (event.event.value.usage?.outputTokens ?? 0) >= this.#limit);
        break;
      case 'itemOpened':
        this.#choices.get(event.choice).open += 1;
        break;
      case 'itemClosed':
        this.#choices.get(event.choice).open -= 1;
        break;
      case 'extension':
        if (isChoiceExtension(event) && this.#keepAfter(event)) return;
        break;
      default:
    }
    this.#next.push(event);
  }

  /** Emits the kept finish events of choices without open items, if there are at least `wanted` of them. Called if no more of the answer will be read. */
  release(wanted: number): void {
    const closed = this.#choices.all().filter(({ finish, open }) => finish !== undefined && open === 0);
    if (closed.length >= wanted) this.#release(closed);
  }

  /** Keeps an event for after the finish event of its choice; returns false if none has come. */
  #keepAfter(event: GenerationEvent): boolean {
    const { finish, after } = this.#choices.get(event.choice);
    if (finish === undefined) return false;
    after.push(event);
    return true;
  }

  #keep(choice: Ending, finish: GenerationEvent): void {
    if (choice.finish === undefined) this.#waiting += 1;
    choice.finish = finish;
  }

  #release(choices: readonly Ending[], isFull = false): void {
    for (const choice of choices) {
      const { finish } = choice;
      if (finish === undefined) continue;
      choice.finish = undefined;
      this.#waiting -= 1;
      this.#next.push(isFull ? atLimit(finish) : finish);
      for (const event of choice.after.splice(0)) this.#next.push(event);
    }
  }
}

/** Returns a finish event for an answer that has reached the limit: it says so, unless the upstream gave its reason. */
function atLimit(finish: GenerationEvent): GenerationEvent {
  const { event } = finish;
  const isOpen = event.case === 'finished' && event.value.native === '' && event.value.reason === FinishReason.STOP;
  return isOpen
    ? { ...finish, event: { case: 'finished', value: { ...event.value, reason: FinishReason.LENGTH } } }
    : finish;
}
