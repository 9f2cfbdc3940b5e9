import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { itemOpened } from '../events.ts';
import type { FlatNames } from './flat-names.ts';
import { type EndedCall, vendorCall } from './vendor-calls.ts';
import type { VendorTool } from './vendor-tools.ts';

/** A call of a vendor's tool that is still being written. */
interface HeldCall extends EndedCall {
  readonly item: Item;
  args: string;
}

/** Gives the calls of an answer the form in which the client knows their tools: in their group, or typed. Typed ones are held until they are whole. */
export class CallRestorer {
  readonly #flat: FlatNames;
  readonly #plain: ReadonlyMap<string, VendorTool>;
  /** By choice and item. */
  readonly #held = new Map<string, HeldCall>();

  constructor(flat: FlatNames, plain: ReadonlyMap<string, VendorTool>) {
    this.#flat = flat;
    this.#plain = plain;
  }

  /** The same events, calls restored. */
  restored(events: GenerationEvent[]): GenerationEvent[] {
    return events.flatMap(event => this.#restore(event));
  }

  #restore(whole: GenerationEvent): GenerationEvent[] {
    const { choice, event } = whole;
    switch (event.case) {
      case 'itemOpened':
        return this.#open(whole, event.value.item, event.value.content);
      case 'delta': {
        const held = this.#held.get(`${choice} ${event.value.item}`);
        if (held === undefined) return [whole];
        held.args += event.value.text;
        return [];
      }
      case 'itemClosed': {
        const at = `${choice} ${event.value.item}`;
        const held = this.#held.get(at);
        if (held === undefined) return [whole];
        this.#held.delete(at);
        const content = vendorCall(held, event.value.status);
        return [itemOpened(choice, event.value.item, { ...held.item, content }), whole];
      }
      default:
        return [whole];
    }
  }

  #open(whole: GenerationEvent, number: number, item: Item | undefined): GenerationEvent[] {
    if (item?.content.case !== 'toolCall') return [whole];
    const call = item.content.value;
    const type = this.#plain.get(call.name)?.callType;
    if (type !== undefined) {
      const { callId } = call;
      this.#held.set(`${whole.choice} ${number}`, { item, callId, type, args: call.arguments });
      return [];
    }
    const group = this.#flat.restore(call.name);
    if (group === undefined) return [whole];
    return [itemOpened(whole.choice, number, { ...item, content: { case: 'toolCall', value: { ...call, ...group } } })];
  }
}
