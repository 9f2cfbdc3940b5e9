import type { DeltaKind } from '../../gen/tollgate/v1/event_pb.ts';
import type { JsonObject } from '../codec.ts';
import { objectsIn, textIn } from '../json.ts';

/** Whether an item of the type is put together from its deltas; others are taken as they are when they are done. */
export type ItemKind = 'message' | 'reasoning' | 'call' | 'custom' | 'compaction' | 'server';

const kinds: Readonly<Record<string, ItemKind>> = {
  message: 'message',
  reasoning: 'reasoning',
  function_call: 'call',
  custom_tool_call: 'custom',
  compaction: 'compaction',
};

/** What an item of the interface is. */
export function kindOfItem(item: JsonObject): ItemKind {
  return kinds[textIn(item['type'])] ?? 'server';
}

/** A part of an item, and how much of its text has come. */
export interface OpenPart {
  readonly number: number;
  /** Unspecified: the model does not know what it is. */
  readonly kind: DeltaKind;
  /** As it began. */
  readonly begun: JsonObject;
  text: string;
  annotations: number;
  isClosed: boolean;
}

/** An item of the upstream's answer. */
export interface OpenItem {
  readonly kind: ItemKind;
  /** As it began. */
  readonly begun: JsonObject;
  readonly number: number;
  readonly index: number | undefined;
  /** By their place: "content 0", "summary 1". */
  readonly parts: Map<string, OpenPart>;
  /** What came of a call's arguments. */
  text: string;
  isDone: boolean;
  /** It stands in the output with which the answer ended. */
  isConfirmed: boolean;
}

/** What an event says of which item it belongs to: servers leave out either. */
export interface ItemPlace {
  /** In the output; undefined: not said. */
  readonly index: number | undefined;
  /** Of the upstream's; '': not said. */
  readonly id: string;
}

/**
 * The items of an answer, and which of them an event means: by its id, which some servers make anew for each event; by its place in the output, which some leave out or get wrong; else
 * the one that began last.
 */
export class OpenItems {
  readonly #items: OpenItem[] = [];

  /** In the order in which they began. */
  all(): readonly OpenItem[] {
    return this.#items;
  }

  /** An item begins. */
  open(item: JsonObject, index: number | undefined): OpenItem {
    const opened: OpenItem = {
      kind: kindOfItem(item),
      begun: item,
      number: this.#items.length,
      index,
      parts: new Map(),
      text: '',
      isDone: false,
      isConfirmed: false,
    };
    this.#items.push(opened);
    return opened;
  }

  /** The item that more comes of; undefined if none is known. */
  growing({ index, id }: ItemPlace): OpenItem | undefined {
    const named = this.#byId(id);
    if (named !== undefined) return named;
    // Of several at one place the one that began last is being written.
    return index === undefined ? this.#items.findLast(item => !item.isDone) : this.#items.findLast(at(index));
  }

  /** The item that an event names by its id or its place; undefined if none is known there. */
  named({ index, id }: ItemPlace): OpenItem | undefined {
    return this.#byId(id) ?? (index === undefined ? undefined : this.#items.findLast(at(index)));
  }

  /** The item that began as this one is said to begin; undefined if it is a new one. */
  begun(item: JsonObject, index: number | undefined): OpenItem | undefined {
    const id = textIn(item['id']);
    const named = this.#byId(id);
    if (named !== undefined) return isSameKind(named, item) ? named : undefined;
    const placed = index === undefined ? undefined : this.#items.findLast(at(index));
    if (placed === undefined || placed.isDone || !isSameKind(placed, item)) return undefined;
    return id === '' || idOf(placed) === '' ? placed : undefined;
  }

  /** The item that is said to be done; undefined if it did not begin before. */
  ended(item: JsonObject, index: number | undefined): OpenItem | undefined {
    const named = this.#byId(textIn(item['id']));
    if (named !== undefined && isSameKind(named, item)) return named;
    const running = this.#items.filter(each => !each.isDone && isSameKind(each, item) && agrees(each, item));
    return index === undefined ? running[0] : running.find(at(index));
  }

  /** The item that the whole output has at a place; undefined if it did not come before. Each item is found once. */
  confirmed(item: JsonObject, index: number): OpenItem | undefined {
    const left = this.#items.filter(each => !each.isConfirmed && isSameKind(each, item));
    const id = textIn(item['id']);
    const found =
      left.find(each => id !== '' && idOf(each) === id) ??
      left.find(each => each.index === index && agrees(each, item)) ??
      left.find(each => agrees(each, item));
    if (found !== undefined) found.isConfirmed = true;
    return found;
  }

  #byId(id: string): OpenItem | undefined {
    return id === '' ? undefined : this.#items.findLast(item => idOf(item) === id);
  }
}

const at =
  (index: number) =>
  (item: OpenItem): boolean =>
    item.index === index;

function idOf({ begun }: OpenItem): string {
  return textIn(begun['id']);
}

function isSameKind({ kind, begun }: OpenItem, item: JsonObject): boolean {
  return kind === kindOfItem(item) && (kind !== 'server' || begun['type'] === item['type']);
}

/** Whether a whole item can be what has come of an item under another id, or none. */
function agrees(open: OpenItem, item: JsonObject): boolean {
  const callId = textIn(item['call_id']);
  const knownCallId = textIn(open.begun['call_id']);
  if (callId !== '' && knownCallId !== '') return callId === knownCallId;
  const come = open.text + [...open.parts.values()].map(part => part.text).join('');
  return textOfItem(item).trimStart().startsWith(come.trim());
}

function textOfItem(item: JsonObject): string {
  const parts = [...objectsIn(item['summary']), ...objectsIn(item['content'])];
  const texts = parts.map(part => textIn(part['text']) || textIn(part['refusal']));
  return texts.join('') + (textIn(item['arguments']) || textIn(item['input']));
}
