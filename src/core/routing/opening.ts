import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';

/** The most events that are held back: an upstream that sends more without content is answering. */
const eventsMax = 100;

/** Counts of output up to this come with opening frames. */
const openingTokensMax = 8;

/** Items that show nothing before their parts do. */
const emptyItems: ReadonlySet<string | undefined> = new Set(['message', 'reasoning']);

/** Returns whether an event only opens an answer, and shows the client nothing of it. */
function isOpening({ event }: GenerationEvent): boolean {
  switch (event.case) {
    case 'started':
    case 'partOpened':
    case 'extension':
      return true;
    case 'usageReported':
      // A provider that counts while its model reasons unseen is answering, and the hold must follow its counts.
      return (event.value.usage?.outputTokens ?? 0) <= openingTokensMax;
    case 'itemOpened':
      return emptyItems.has(event.value.content?.content.case);
    case 'delta':
      return event.value.text === '';
    default:
      return false;
  }
}

/**
 * Holds the opening events of an answer back until there is content: if the upstream fails before, the client has seen nothing, and another attempt can follow.
 */
export class Opening {
  #events: GenerationEvent[] | undefined = [];

  /** The events that are held back. */
  get held(): readonly GenerationEvent[] {
    return this.#events ?? [];
  }

  /** True if content has come. */
  get isOver(): boolean {
    return this.#events === undefined;
  }

  /** Returns the events to pass on: none, or all so far. */
  push(events: GenerationEvent[]): GenerationEvent[] {
    const held = this.#events;
    if (held === undefined) return events;
    if (held.length + events.length <= eventsMax && events.every(isOpening)) {
      held.push(...events);
      return [];
    }
    this.#events = undefined;
    return held.length === 0 ? events : [...held, ...events];
  }
}
