import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { PerChoice } from './per-choice.ts';
import type { EventStep } from './step.ts';

interface Ending {
  /** The latest finish so far; undefined: none has come. */
  finish: GenerationEvent | undefined;
  /** The number of open items. */
  open: number;
}

/**
 * Keeps the finish of each choice until the answer is whole: upstreams send text, calls and further finishes after one, and the last finish is the one that holds. Source:
 * docs/interfaces/README.md "Finish reasons".
 */
export class LastFinish implements EventStep {
  readonly #next: EventStep;
  readonly #choices = new PerChoice<Ending>(() => ({ finish: undefined, open: 0 }));
  #waiting = 0;

  constructor(next: EventStep) {
    this.#next = next;
  }

  /** The number of choices whose finish waits. */
  get waiting(): number {
    return this.#waiting;
  }

  push(event: GenerationEvent): void {
    switch (event.event.case) {
      case 'finished':
        this.#keep(this.#choices.get(event.choice), event);
        return;
      case 'completed':
        this.#release(this.#choices.all());
        break;
      case 'itemOpened':
        this.#choices.get(event.choice).open += 1;
        break;
      case 'itemClosed':
        this.#choices.get(event.choice).open -= 1;
        break;
      default:
    }
    this.#next.push(event);
  }

  /** Emits the finishes of choices with nothing open, if there are at least `wanted`: nothing more of the answer is read. */
  release(wanted: number): void {
    const closed = this.#choices.all().filter(({ finish, open }) => finish !== undefined && open === 0);
    if (closed.length >= wanted) this.#release(closed);
  }

  #keep(choice: Ending, finish: GenerationEvent): void {
    if (choice.finish === undefined) this.#waiting += 1;
    choice.finish = finish;
  }

  #release(choices: readonly Ending[]): void {
    for (const choice of choices) {
      const { finish } = choice;
      if (finish === undefined) continue;
      choice.finish = undefined;
      this.#waiting -= 1;
      this.#next.push(finish);
    }
  }
}
