import type { ItemStatus } from '../../gen/tollgate/v1/content_pb.ts';
import type { FinishReason, GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { finished, type FinishFacts, itemClosed, partClosed } from '../events.ts';

/**
 * Tracks what is open in one choice, so that the gateway can end the choice with valid events at any moment. It follows the serialiser and the validator, so at most one item and one part are open at a time.
 */
export class ChoiceEnd {
  #item = -1;
  #part = -1;
  #itemOpen = false;
  #partOpen = false;
  /** True if the gateway ended the choice. */
  isCut = false;
  /** True if the choice has ended, by itself or through the gateway. */
  isOver = false;

  /** Records an event that is passed on to the client. */
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

  /** Returns events that close what is open and finish the choice. `status`: the status of the open item. */
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
