import { create } from '@bufbuild/protobuf';
import { type Item, ItemSchema, type Opaque } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent, ItemOpened } from '../../gen/tollgate/v1/event_pb.ts';
import { itemClosed, itemOpened, opaqueAdded } from '../../generation/events.ts';
import { itemNumber, withItem } from '../../generation/guard/serialise.ts';

/**
 * Sends signatures of calls as reasoning items before the calls, and signatures of texts as reasoning items after the texts. The Responses interface has no field for signatures, but its clients send reasoning items back. Later items are renumbered. Pushing an event twice returns the same events,
 * because the last events of an answer are pushed both before and after it is charged. Source:
 * docs/interfaces/README.md "Translation".
 */
export class CallSignatures {
  /** The new numbers of items, by choice and old number. */
  readonly #numbers: number[][] = [];
  /** The last number that was given, by choice. */
  readonly #last: number[] = [];
  /** The signatures of the message that is open, by choice. */
  readonly #ofText: Opaque[][] = [];
  /** True if any item has another number than before. */
  #isShifted = false;

  push(events: readonly GenerationEvent[]): GenerationEvent[] {
    const shown: GenerationEvent[] = [];
    for (const event of events) {
      const { choice, event: step } = event;
      if (step.case === 'itemOpened') this.#open(event, step.value, shown);
      else if (step.case === 'opaqueAdded' && step.value.part !== undefined) this.#keep(choice, step.value.opaque);
      else {
        shown.push(this.#isShifted ? this.#renumber(event) : event);
        if (step.case === 'itemClosed') this.#addSignatures(choice, step.value.item, shown);
      }
    }
    return shown;
  }

  #keep(choice: number, signature: Opaque | undefined): void {
    if (signature !== undefined) this.#ofText[choice]?.push(signature);
  }

  /** Adds items for the signatures of a message that has closed. */
  #addSignatures(choice: number, item: number, shown: GenerationEvent[]): void {
    let number = this.#numbers[choice]?.[item] ?? item;
    for (const signature of this.#ofText[choice]?.splice(0) ?? []) {
      number += 1;
      shown.push(...signatureItem(choice, number, signature));
    }
    this.#last[choice] = Math.max(this.#last[choice] ?? 0, number);
  }

  #renumber(event: GenerationEvent): GenerationEvent {
    const item = itemNumber(event);
    return item === undefined ? event : withItem(event, this.#numbers[event.choice]?.[item] ?? item);
  }

  #open(whole: GenerationEvent, { item, content }: ItemOpened, shown: GenerationEvent[]): void {
    const { choice } = whole;
    this.#numbers[choice] ??= [];
    const numbers = this.#numbers[choice];
    const signature = findSignature(content);
    const next = (this.#last[choice] ?? -1) + 1;
    this.#ofText[choice] = [];
    const number = numbers[item] ?? (signature === undefined ? next : next + 1);
    numbers[item] = number;
    this.#last[choice] = Math.max(number, this.#last[choice] ?? 0);
    this.#isShifted ||= number !== item;
    if (content?.content.case !== 'toolCall' || signature === undefined) {
      shown.push(withItem(whole, number));
      return;
    }
    const { signature: _, ...unsigned } = content.content.value;
    shown.push(
      ...signatureItem(choice, number - 1, signature),
      itemOpened(choice, number, { ...content, content: { case: 'toolCall', value: unsigned } }),
    );
  }
}

/** Returns the events of a reasoning item that has only a signature. */
function signatureItem(choice: number, number: number, signature: Opaque): GenerationEvent[] {
  const reasoning = create(ItemSchema, { content: { case: 'reasoning', value: {} } });
  return [itemOpened(choice, number, reasoning), opaqueAdded(choice, number, signature), itemClosed(choice, number)];
}

/** Returns items with the signatures before calls put back into the calls, where upstreams need them. The input is not changed. */
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

/** The kind of the signatures that Gemini upstreams add to calls. */
const signatureKind = 'gemini.thought_signature';

/** Returns the signature of a reasoning item that has only a signature; undefined for any other item. */
function loneSignature(item: Item | undefined): Opaque | undefined {
  if (item?.content.case !== 'reasoning') return undefined;
  const { parts, opaque } = item.content.value;
  const [only] = opaque;
  return parts.length === 0 && opaque.length === 1 && only?.kind === signatureKind ? only : undefined;
}

function findSignature(item: Item | undefined): Opaque | undefined {
  const signature = item?.content.case === 'toolCall' ? item.content.value.signature : undefined;
  return signature?.kind === signatureKind ? signature : undefined;
}
