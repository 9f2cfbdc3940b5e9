import { create } from '@bufbuild/protobuf';
import { type Item, ItemSchema, type Opaque } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent, ItemOpened } from '../../gen/tollgate/v1/event_pb.ts';
import { itemClosed, itemOpened, opaqueAdded } from '../../generation/events.ts';
import { itemOf, withItem } from '../../generation/guard/serialise.ts';

/**
 * Signatures of calls as reasoning items before them: the interface has no place for one in a call, and its clients bring reasoning items back. What follows is
 * numbered anew. An event that comes again gives the same events again: the last ones are seen before they are charged and after it. Source: wire.md C3 (signature).
 */
export class CallSignatures {
  /** The new numbers of items, by choice and old number. */
  readonly #numbers: number[][] = [];
  /** Whether a number is another one than before. */
  #isShifted = false;

  push(events: readonly GenerationEvent[]): GenerationEvent[] {
    const shown: GenerationEvent[] = [];
    for (const event of events) {
      if (event.event.case === 'itemOpened') this.#open(event, event.event.value, shown);
      else shown.push(this.#isShifted ? this.#renumbered(event) : event);
    }
    return shown;
  }

  #renumbered(event: GenerationEvent): GenerationEvent {
    const item = itemOf(event);
    return item === undefined ? event : withItem(event, this.#numbers[event.choice]?.[item] ?? item);
  }

  #open(whole: GenerationEvent, { item, content }: ItemOpened, shown: GenerationEvent[]): void {
    const { choice } = whole;
    this.#numbers[choice] ??= [];
    const numbers = this.#numbers[choice];
    const signature = signatureOf(content);
    const next = (numbers.at(-1) ?? -1) + 1;
    const number = numbers[item] ?? (signature === undefined ? next : next + 1);
    numbers[item] = number;
    this.#isShifted ||= number !== item;
    if (content?.content.case !== 'toolCall' || signature === undefined) {
      shown.push(withItem(whole, number));
      return;
    }
    const reasoning = create(ItemSchema, { turn: content.turn, content: { case: 'reasoning', value: {} } });
    const { signature: _, ...unsigned } = content.content.value;
    shown.push(
      itemOpened(choice, number - 1, reasoning),
      opaqueAdded(choice, number - 1, signature),
      itemClosed(choice, number - 1),
      itemOpened(choice, number, { ...content, content: { case: 'toolCall', value: unsigned } }),
    );
  }
}

/** Signatures that stand before calls in their calls again, where upstreams want them; the input is not changed. */
export function withCallSignatures(items: readonly Item[]): Item[] {
  return items.flatMap((item, index) => {
    const { content } = item;
    const signature = loneSignature(items[index - 1]);
    if (content.case === 'toolCall' && content.value.signature === undefined && signature !== undefined) {
      return [{ ...item, content: { case: 'toolCall' as const, value: { ...content.value, signature } } }];
    }
    const next = items[index + 1]?.content;
    const goesToNext = next?.case === 'toolCall' && next.value.signature === undefined;
    return goesToNext && loneSignature(item) !== undefined ? [] : [item];
  });
}

/** The kind of what Gemini's upstreams sign calls with. */
const signatureKind = 'gemini.thought_signature';

/** The signature of a reasoning item that has nothing else. */
function loneSignature(item: Item | undefined): Opaque | undefined {
  if (item?.content.case !== 'reasoning') return undefined;
  const { parts, opaque } = item.content.value;
  const [only] = opaque;
  return parts.length === 0 && opaque.length === 1 && only?.kind === signatureKind ? only : undefined;
}

function signatureOf(item: Item | undefined): Opaque | undefined {
  const signature = item?.content.case === 'toolCall' ? item.content.value.signature : undefined;
  return signature?.kind === signatureKind ? signature : undefined;
}
