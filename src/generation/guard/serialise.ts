import { type Item, ItemStatus, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { delta } from '../events.ts';
import { PerChoice } from './per-choice.ts';
import type { EventStep } from './step.ts';

/**
 * Puts interleaved items one after the other, because clients lose or merge parallel calls that interleave (docs/interfaces/chat-completions.md "Stream"). The item that opened first is streamed; the events of the others wait until it is closed. Items are renumbered in the order in which they are passed on; what follows about an item that has closed has its new number. A complete function call without arguments gets `{}`, because strict clients refuse an empty text.
 */
export class Serialiser implements EventStep {
  readonly #next: EventStep;
  readonly #choices: PerChoice<SerialChoice, EventStep>;

  constructor(next: EventStep) {
    this.#next = next;
    this.#choices = new PerChoice(newSerialChoice, next);
  }

  push(event: GenerationEvent): void {
    const item = itemNumber(event);
    if (item === undefined) this.#next.push(event);
    else this.#choices.get(event.choice).push(event, item);
  }
}

/** Returns the upstream's number of the item that an event belongs to; undefined if it belongs to none. */
export function itemNumber({ event }: GenerationEvent): number | undefined {
  switch (event.case) {
    case 'itemOpened':
    case 'partOpened':
    case 'delta':
    case 'annotationAdded':
    case 'opaqueAdded':
    case 'partClosed':
    case 'itemClosed':
    case 'extension':
      return event.value.item;
    default:
      return undefined;
  }
}

/** Returns the event with another item number. */
export function withItem(event: GenerationEvent, item: number): GenerationEvent {
  if (itemNumber(event) === item) return event;
  const { case: kind, value } = event.event;
  // The cast is safe: every case with an item is a message with the field `item`.
  return { ...event, event: { case: kind, value: { ...value, item } } as GenerationEvent['event'] };
}

interface Waiting {
  readonly item: number;
  readonly events: GenerationEvent[];
}

const newSerialChoice = (_: number, next: EventStep): SerialChoice => new SerialChoice(next);

class SerialChoice {
  readonly #next: EventStep;
  /** The items that have opened but were not passed on completely, in order. The first one is streamed. */
  readonly #queue: Waiting[] = [];
  /** How many items were passed on, at least in part; the number of the streamed item is one less. */
  #left = 0;
  /** The new numbers of items, by the upstream's numbers. */
  readonly #numbers: number[] = [];
  #emptyCall = false;

  constructor(next: EventStep) {
    this.#next = next;
  }

  push(event: GenerationEvent, item: number): void {
    if (event.event.case === 'itemOpened') {
      this.#queue.push({ item, events: [] });
      if (this.#queue.length === 1) {
        this.#open(event, item);
        return;
      }
    }
    if (this.#queue[0]?.item === item) {
      this.#stream(event);
      if (event.event.case === 'itemClosed') this.#streamNext();
      return;
    }
    const waiting = this.#queue.find(one => one.item === item);
    // The validator refuses an event of an item that never opened or that has closed, unless it is an extension.
    if (waiting === undefined) this.#next.push(withItem(event, this.#numbers[item] ?? item));
    else waiting.events.push(event);
  }

  #open(event: GenerationEvent, item: number): void {
    this.#numbers[item] = this.#left;
    this.#left += 1;
    const opened = event.event.case === 'itemOpened' ? event.event.value.content : undefined;
    this.#emptyCall = isFunctionCall(opened);
    this.#next.push(withItem(event, this.#left - 1));
  }

  /** Passes on an event of the streamed item. */
  #stream(event: GenerationEvent): void {
    const number = this.#left - 1;
    const { event: step } = event;
    if (step.case === 'delta' && step.value.text !== '') this.#emptyCall = false;
    if (step.case === 'itemClosed' && this.#emptyCall && step.value.status !== ItemStatus.INCOMPLETE) {
      this.#next.push(delta(event.choice, [number, 0], { kind: DeltaKind.ARGUMENTS, text: '{}' }));
    }
    this.#next.push(withItem(event, number));
  }

  /** Passes on what has waited for the streamed item to close: the following items, up to the first that is still open. */
  #streamNext(): void {
    for (;;) {
      this.#queue.shift();
      const [next] = this.#queue;
      const [opened, ...rest] = next?.events.splice(0) ?? [];
      if (next === undefined || opened === undefined) return;
      this.#open(opened, next.item);
      for (const waiting of rest) this.#stream(waiting);
      if (!rest.some(({ event }) => event.case === 'itemClosed')) return;
    }
  }
}

function isFunctionCall(content: Item | undefined): boolean {
  const call = content?.content;
  return call?.case === 'toolCall' && call.value.kind !== ToolKind.CUSTOM;
}
