import { type Item, ItemStatus, ToolKind } from '../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, type GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { Stepper } from '../lib/stepper.ts';
import { delta } from './events.ts';

/**
 * Puts interleaved items one after the other: clients lose or merge parallel calls that interleave (wire.md B1). The item that opened
 * first streams on; what belongs to the others waits until it is closed. Items are renumbered in the order in which they
 * leave. A function call that ends whole without arguments gets `{}`, since strict clients refuse an empty text.
 */
export class Serialiser implements Stepper<GenerationEvent, GenerationEvent> {
  readonly #choices = new Map<number, SerialChoice>();

  push(event: GenerationEvent): GenerationEvent[] {
    const at = itemOf(event);
    if (at === undefined) return [event];
    let choice = this.#choices.get(event.choice);
    if (choice === undefined) {
      choice = new SerialChoice();
      this.#choices.set(event.choice, choice);
    }
    return choice.push(event, at);
  }

  end(): GenerationEvent[] {
    return [];
  }
}

/** The upstream's number of the item that an event belongs to; undefined where it belongs to none. */
export function itemOf({ event }: GenerationEvent): number | undefined {
  switch (event.case) {
    case 'itemOpened':
    case 'partOpened':
    case 'delta':
    case 'annotationAdded':
    case 'opaqueAdded':
    case 'partClosed':
    case 'itemClosed':
      return event.value.item;
    default:
      return undefined;
  }
}

/** The same event for another number of its item. */
export function withItem(event: GenerationEvent, item: number): GenerationEvent {
  if (itemOf(event) === item) return event;
  const { case: kind, value } = event.event;
  // The cast holds: every case with an item is a message of its own with the field `item`.
  return { ...event, event: { case: kind, value: { ...value, item } } as GenerationEvent['event'] };
}

interface Waiting {
  readonly item: number;
  readonly events: GenerationEvent[];
}

class SerialChoice {
  /** Items that have opened and not yet left whole, in order; the first is the one that streams. */
  readonly #queue: Waiting[] = [];
  /** How many items have begun to leave; the streaming one's number is one less. */
  #left = 0;
  #emptyCall = false;

  push(event: GenerationEvent, item: number): GenerationEvent[] {
    if (event.event.case === 'itemOpened') {
      this.#queue.push({ item, events: [] });
      if (this.#queue.length === 1) return [this.#open(event)];
    }
    const [head] = this.#queue;
    if (head === undefined || head.item !== item) {
      const waiting = this.#queue.find(one => one.item === item);
      // An event of an item that never opened is left for the validator, which refuses it.
      if (waiting === undefined) return [event];
      waiting.events.push(event);
      return [];
    }
    return this.#stream(event);
  }

  #open(event: GenerationEvent): GenerationEvent {
    this.#left += 1;
    const opened = event.event.case === 'itemOpened' ? event.event.value.content : undefined;
    this.#emptyCall = isFunctionCall(opened);
    return withItem(event, this.#left - 1);
  }

  /** Events of the item that streams; its end lets the next ones go. */
  #stream(event: GenerationEvent): GenerationEvent[] {
    const number = this.#left - 1;
    if (event.event.case === 'delta' && event.event.value.text !== '') this.#emptyCall = false;
    if (event.event.case !== 'itemClosed') return [withItem(event, number)];
    const ready: GenerationEvent[] = [];
    if (this.#emptyCall && event.event.value.status !== ItemStatus.INCOMPLETE) {
      ready.push(delta(event.choice, [number, 0], { kind: DeltaKind.ARGUMENTS, text: '{}' }));
    }
    ready.push(withItem(event, number));
    this.#queue.shift();
    const [next] = this.#queue;
    const [opened, ...rest] = next?.events.splice(0) ?? [];
    if (opened === undefined) return ready;
    ready.push(this.#open(opened));
    for (const waiting of rest) ready.push(...this.#stream(waiting));
    return ready;
  }
}

function isFunctionCall(content: Item | undefined): boolean {
  const call = content?.content;
  return call?.case === 'toolCall' && call.value.kind !== ToolKind.CUSTOM;
}
