import type { DeltaKind } from '../../gen/tollgate/v1/event_pb.ts';
import type { JsonObject } from '../codec.ts';
import { objectsIn, textIn } from '../json.ts';

/** The kind of an item. Items of the kind `server` (every type that is not listed below) are replaced by their complete form when they are done; all others are assembled from their deltas. */
export type ItemKind = 'message' | 'reasoning' | 'call' | 'custom' | 'compaction' | 'server';

const kinds: Readonly<Record<string, ItemKind>> = {
  message: 'message',
  reasoning: 'reasoning',
  function_call: 'call',
  custom_tool_call: 'custom',
  compaction: 'compaction',
};

/** Returns the kind of an item of the Responses interface. */
export function findItemKind(item: JsonObject): ItemKind {
  return kinds[textIn(item['type'])] ?? 'server';
}

/** The list of its item that a part is in, and its index there. */
export interface PartPlace {
  readonly list: 'content' | 'summary';
  readonly index: number;
}

/** A part of an item, and the text that it has received so far. */
export interface OpenPart {
  readonly number: number;
  readonly place: PartPlace;
  /** UNSPECIFIED if `DeltaKind` has no value for this part. */
  readonly kind: DeltaKind;
  /** The part as it was when it began. */
  readonly begun: JsonObject;
  text: string;
  annotations: number;
  isClosed: boolean;
}

/** An item of the upstream's answer. */
export interface OpenItem {
  readonly kind: ItemKind;
  /** The item as it was when it began. */
  readonly begun: JsonObject;
  readonly number: number;
  readonly index: number | undefined;
  /** By list and index: "content 0", "summary 1". */
  readonly parts: Map<string, OpenPart>;
  /** A call's arguments so far. */
  text: string;
  isDone: boolean;
  /** True once the item was found in the final output. */
  isConfirmed: boolean;
}

/** How an event identifies its item. Servers may omit either. */
export interface ItemPlace {
  /** Index in the output; undefined if the event does not give it. */
  readonly index: number | undefined;
  /** The upstream's id; '' if the event does not give it. */
  readonly id: string;
}

/**
 * Finds the item that an event belongs to: by its id, which some servers change with each event; else by its index in the output, which
 * some omit or get wrong; else the item that began last.
 */
export class OpenItems {
  readonly #items: OpenItem[] = [];

  /** Returns all items, in the order in which they began. */
  all(): readonly OpenItem[] {
    return this.#items;
  }

  /** Adds an item that begins, and returns it. */
  open(item: JsonObject, index: number | undefined): OpenItem {
    const opened: OpenItem = {
      kind: findItemKind(item),
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

  /** Returns the item that an event adds content to; undefined if there is none. */
  findGrowing({ index, id }: ItemPlace): OpenItem | undefined {
    const named = this.#byId(id);
    if (named !== undefined) return named;
    // If several items have the same index, the one that began last is being written.
    return index === undefined ? this.#items.findLast(item => !item.isDone) : this.#items.findLast(at(index));
  }

  /** Returns the item that an event names by its id or its index; undefined if it is unknown. */
  findNamed({ index, id }: ItemPlace): OpenItem | undefined {
    return this.#byId(id) ?? (index === undefined ? undefined : this.#items.findLast(at(index)));
  }

  /** Returns the known item that an event says begins; undefined if the item is new. */
  findBegun(item: JsonObject, index: number | undefined): OpenItem | undefined {
    const id = textIn(item['id']);
    const named = this.#byId(id);
    if (named !== undefined) return isSameKind(named, item) ? named : undefined;
    const placed = index === undefined ? undefined : this.#items.findLast(at(index));
    if (placed === undefined || placed.isDone || !isSameKind(placed, item)) return undefined;
    return id === '' || readId(placed) === '' ? placed : undefined;
  }

  /** Returns the item that an event says is done; undefined if it never began. */
  findEnded(item: JsonObject, index: number | undefined): OpenItem | undefined {
    const named = this.#byId(textIn(item['id']));
    if (named !== undefined && isSameKind(named, item)) return named;
    const running = this.#items.filter(each => !each.isDone && isSameKind(each, item) && agrees(each, item));
    return index === undefined ? running[0] : running.find(at(index));
  }

  /** Returns the received item that an item of the final output is, and marks it as confirmed; undefined if none was received. Each item is returned once. */
  confirm(item: JsonObject, index: number): OpenItem | undefined {
    const left = this.#items.filter(each => !each.isConfirmed && isSameKind(each, item));
    const id = textIn(item['id']);
    const found =
      left.find(each => id !== '' && readId(each) === id) ??
      left.find(each => each.index === index && agrees(each, item)) ??
      left.find(each => agrees(each, item));
    if (found !== undefined) found.isConfirmed = true;
    return found;
  }

  #byId(id: string): OpenItem | undefined {
    return id === '' ? undefined : this.#items.findLast(item => readId(item) === id);
  }
}

const at =
  (index: number) =>
  (item: OpenItem): boolean =>
    item.index === index;

function readId({ begun }: OpenItem): string {
  return textIn(begun['id']);
}

function isSameKind({ kind, begun }: OpenItem, item: JsonObject): boolean {
  return kind === findItemKind(item) && (kind !== 'server' || begun['type'] === item['type']);
}

/** Returns whether a complete item may be the one that was received so far under another id, or without an id. */
function agrees(open: OpenItem, item: JsonObject): boolean {
  const callId = textIn(item['call_id']);
  const knownCallId = textIn(open.begun['call_id']);
  if (callId !== '' && knownCallId !== '') return callId === knownCallId;
  const received = open.text + [...open.parts.values()].map(part => part.text).join('');
  return readItemText(item).trimStart().startsWith(received.trim());
}

function readItemText(item: JsonObject): string {
  const parts = [...objectsIn(item['summary']), ...objectsIn(item['content'])];
  const texts = parts.map(part => textIn(part['text']) || textIn(part['refusal']));
  return texts.join('') + (textIn(item['arguments']) || textIn(item['input']));
}
