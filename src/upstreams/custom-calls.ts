import { ItemStatus, ToolKind } from '../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, type GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { delta, itemClosed, itemOpened } from '../generation/events.ts';

/**
 * Restores calls of free-form tools if the upstream got these as functions with one string argument, `input`. The arguments are held back until they are complete, because an incomplete JSON string can't be decoded. A call whose JSON broke off is marked as incomplete.
 * Source: docs/interfaces/README.md "Tool calls".
 */
export class CustomCalls {
  readonly #names: ReadonlySet<string>;
  /** The arguments of open calls so far, by choice and item. */
  readonly #open = new Map<string, string>();

  constructor({ tools }: GenerateRequest) {
    this.#names = new Set(tools.flatMap(({ tool }) => (tool.case === 'custom' ? [tool.value.name] : [])));
  }

  /** Returns the events with calls of free-form tools restored. */
  restored(events: GenerationEvent[]): GenerationEvent[] {
    return this.#names.size === 0 ? events : events.flatMap(event => this.#restore(event));
  }

  #restore(whole: GenerationEvent): GenerationEvent[] {
    const { choice, event } = whole;
    switch (event.case) {
      case 'itemOpened': {
        const item = event.value.content;
        if (item?.content.case !== 'toolCall' || !this.#names.has(item.content.value.name)) return [whole];
        this.#open.set(`${choice} ${event.value.item}`, '');
        const call = { ...item.content.value, kind: ToolKind.CUSTOM };
        return [itemOpened(choice, event.value.item, { ...item, content: { case: 'toolCall', value: call } })];
      }
      case 'delta': {
        const at = `${choice} ${event.value.item}`;
        const held = this.#open.get(at);
        if (held === undefined) return [whole];
        this.#open.set(at, held + event.value.text);
        return [];
      }
      case 'itemClosed': {
        const at = `${choice} ${event.value.item}`;
        const held = this.#open.get(at);
        if (held === undefined) return [whole];
        this.#open.delete(at);
        const { item } = event.value;
        const { text, isWhole } = parseInput(held);
        const end = isWhole ? whole : itemClosed(choice, item, ItemStatus.INCOMPLETE);
        return text === '' ? [end] : [delta(choice, [item, 0], { kind: DeltaKind.ARGUMENTS, text }), end];
      }
      default:
        return [whole];
    }
  }
}

/** Returns the text in the arguments; the arguments unchanged if the upstream wrote something else. */
function parseInput(args: string): { readonly text: string; readonly isWhole: boolean } {
  if (args === '') return { text: '', isWhole: true };
  const whole = inputIn(args);
  if (whole !== undefined) return { text: whole, isWhole: true };
  // At the point where the JSON broke off, an escape of up to six characters ("\u0041") may be incomplete, so up to five characters are removed.
  for (let length = args.length; length >= Math.max(0, args.length - 5); length -= 1) {
    const text = inputIn(`${args.slice(0, length)}"}`);
    if (text !== undefined) return { text, isWhole: false };
  }
  return { text: args, isWhole: false };
}

/** Returns `input` of the arguments; undefined if they are not JSON. */
function inputIn(args: string): string | undefined {
  try {
    const parsed = JSON.parse(args) as unknown;
    const { input } = (typeof parsed === 'object' && parsed !== null ? parsed : {}) as { input?: unknown };
    return typeof input === 'string' ? input : args;
  } catch {
    return undefined;
  }
}
