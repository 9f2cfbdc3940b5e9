import type { ItemStatus } from '../../gen/tollgate/v1/content_pb.ts';
import type { FinishReason, GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { finished, type FinishFacts, itemClosed, partClosed } from '../events.ts';

/**
 * Tracks what is open in one choice, so that the gateway can end the choice properly at any moment; afterwards it drops whatever the
 * upstream still sends for it. Takes events after serialiser and validator: one item, one part at a time.
 */
export class ChoiceEnd {
  #item = -1;
  #part = -1;
  #itemOpen = false;
  #partOpen = false;
  /** The gateway ended the choice. */
  isCut = false;
  /** The choice has ended, by itself or cut. */
  isOver = false;

  /** Follows an event that is passed on to the client. */
  follow({ event }: GenerationEvent): void {
    switch (event.case) {
      case 'itemOpened':
        this.#item = event.value.item;
        this.#itemOpen = true;
        return;
      case 'partOpened':
        this.#part = event.value.part;
        this.#partOpen = true;
        return;
      case 'partClosed':
        this.#partOpen = false;
        return;
      case 'itemClosed':
        this.#itemOpen = false;
        return;
      case 'finished':
        this.isOver = true;
        break;
      default:
    }
  }

  /** Closes what is open and finishes the choice. `status` is the status of the open item. */
  cut(choice: number, reason: FinishReason, how: FinishFacts & { status: ItemStatus }): GenerationEvent[] {
    const events: GenerationEvent[] = [];
    if (this.#partOpen) events.push(partClosed(choice, [this.#item, this.#part]));
    if (this.#itemOpen) events.push(itemClosed(choice, this.#item, how.status));
    events.push(finished(choice, reason, how));
    this.#partOpen = false;
    this.#itemOpen = false;
    this.isCut = true;
    this.isOver = true;
    return events;
  }
}
