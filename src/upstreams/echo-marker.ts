import type { Item } from '../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, type GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { delta } from '../generation/events.ts';
import type { EventRestorer } from './answer-reader.ts';

/**
 * Separates the prompt that is repeated at the beginning of each answer (`echo`) from the answer, because it is not output. If the prompt was sent as token ids, its text is unknown, and the whole answer counts as prompt.
 */
export class EchoMarker implements EventRestorer {
  /** How many characters of the prompt have not come yet, by choice. */
  readonly #left: number[];

  constructor({ items, candidates = 1 }: Pick<GenerateRequest, 'items' | 'candidates'>) {
    this.#left = Array.from({ length: candidates }, (_, choice) =>
      promptLength(items[Math.floor((choice * items.length) / candidates)]),
    );
  }

  restored(events: GenerationEvent[]): GenerationEvent[] {
    return events.flatMap(event => this.#mark(event));
  }

  #mark(event: GenerationEvent): GenerationEvent[] {
    const { choice } = event;
    const left = this.#left[choice] ?? 0;
    if (left === 0 || event.event.case !== 'delta' || event.event.value.kind !== DeltaKind.TEXT) return [event];
    const { item, part, text } = event.event.value;
    this.#left[choice] = Math.max(0, left - text.length);
    const echo = delta(choice, [item, part], { kind: DeltaKind.ECHO, text: text.slice(0, left) });
    if (text.length <= left) return [echo];
    return [echo, delta(choice, [item, part], { kind: DeltaKind.TEXT, text: text.slice(left) })];
  }
}

function promptLength(item: Item | undefined): number {
  const parts = item?.content.case === 'message' ? item.content.value.parts : [];
  return parts.reduce((sum, { content }) => sum + (content.case === 'text' ? content.value.text.length : Infinity), 0);
}
