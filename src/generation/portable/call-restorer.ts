import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { itemOpened } from '../events.ts';
import type { FlatNames } from './flat-names.ts';
import { type EndedCall, toProviderDefinedCall } from './provider-defined-calls.ts';
import type { ProviderDefinedTool } from './provider-defined-tools.ts';

/** A call of a provider-defined tool that is not complete yet. */
interface OpenCall extends EndedCall {
  readonly item: Item;
  args: string;
}

/**
 * Converts the calls of an answer to the form in which the client defined the tools: as tools of a group (`namespace`), or as calls of a provider-defined type (`shell_call`). Calls of a provider-defined type are buffered until they are complete.
 */
export class CallRestorer {
  readonly #flat: FlatNames;
  readonly #providerDefinedTools: ReadonlyMap<string, ProviderDefinedTool>;
  /** The calls of provider-defined tools that are not complete yet, by choice and item. */
  readonly #buffered = new Map<string, OpenCall>();

  constructor(flat: FlatNames, providerDefinedTools: ReadonlyMap<string, ProviderDefinedTool>) {
    this.#flat = flat;
    this.#providerDefinedTools = providerDefinedTools;
  }

  /** Returns the events with their calls converted. Events of a buffered call are left out until it is complete. */
  restored(events: GenerationEvent[]): GenerationEvent[] {
    return events.flatMap(event => this.#restoreEvent(event));
  }

  #restoreEvent(original: GenerationEvent): GenerationEvent[] {
    const { choice, event } = original;
    switch (event.case) {
      case 'itemOpened':
        return this.#open(original, event.value.item, event.value.content);
      case 'delta': {
        const call = this.#buffered.get(`${choice} ${event.value.item}`);
        if (call === undefined) return [original];
        call.args += event.value.text;
        return [];
      }
      case 'itemClosed': {
        const key = `${choice} ${event.value.item}`;
        const call = this.#buffered.get(key);
        if (call === undefined) return [original];
        this.#buffered.delete(key);
        const content = toProviderDefinedCall(call, event.value.status);
        return [itemOpened(choice, event.value.item, { ...call.item, content }), original];
      }
      default:
        return [original];
    }
  }

  #open(original: GenerationEvent, number: number, item: Item | undefined): GenerationEvent[] {
    if (item?.content.case !== 'toolCall') return [original];
    const call = item.content.value;
    const type = this.#providerDefinedTools.get(call.name)?.callType;
    if (type !== undefined) {
      const { callId } = call;
      this.#buffered.set(`${original.choice} ${number}`, { item, callId, type, args: call.arguments });
      return [];
    }
    const group = this.#flat.restore(call.name);
    if (group === undefined) return [original];
    return [
      itemOpened(original.choice, number, { ...item, content: { case: 'toolCall', value: { ...call, ...group } } }),
    ];
  }
}
