import {
  type Extra,
  type Item,
  ItemStatus,
  type Part,
  Phase,
  Role,
  ToolKind,
} from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, ExtensionScope, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import * as emit from '../../generation/events.ts';
import type { Json, JsonObject } from '../codec.ts';
import * as make from '../content.ts';
import { exactText } from '../../lib/exact-json.ts';
import { defined, isWholeJson, listIn, objectIn, textIn, unknownMembers } from '../json.ts';
import { parseAnnotation } from './annotation.ts';
import { compactionKind, encryptedKind, itemIdKind } from './blobs.ts';
import { extras } from './extras.ts';
import { parseTokens } from '../logprobs.ts';
import {
  type ItemKind,
  type ItemPlace,
  type OpenItem,
  OpenItems,
  type OpenPart,
  type PartPlace,
} from './open-items.ts';

const shared = ['type', 'id', 'status'] as const;
const knownMembers: Readonly<Record<Exclude<ItemKind, 'server'>, ReadonlySet<string>>> = {
  message: new Set([...shared, 'role', 'content', 'phase']),
  reasoning: new Set([...shared, 'summary', 'content', 'encrypted_content']),
  call: new Set([...shared, 'call_id', 'name', 'namespace', 'arguments']),
  custom: new Set([...shared, 'call_id', 'name', 'namespace', 'input']),
  compaction: new Set([...shared, 'encrypted_content']),
};

/**
 * Parses an upstream's items. Servers send different subsets of the interface's events. Content that did not come in deltas is therefore
 * read from the last event of its text, part or item, or from the final output, so that the result is the same. Source: docs/interfaces/responses.md
 * "Stream"; translation cases TS-22, RE-16, RP-02.
 */
export class ItemParser {
  hasCalls = false;
  hasRefusal = false;
  readonly #provider: string;
  readonly #items = new OpenItems();
  /** A call that ended without arguments. What follows shows whether the call needs none or was cut off by a limit. */
  #empty: OpenItem | undefined;

  constructor(provider: string) {
    this.#provider = provider;
  }

  /** Starts an item; does nothing if it has already begun. */
  start(index: number | undefined, item: JsonObject, events: GenerationEvent[]): void {
    if (this.#items.findBegun(item, index) === undefined) this.#start(index, item, events);
  }

  /**
   * Returns the number of the item that an event names; undefined if it names none, or one that is emitted only when it is complete.
   */
  numberAt(at: ItemPlace, body: JsonObject): number | undefined {
    const item = objectIn(body['item']);
    const open = item === undefined ? this.#items.findNamed(at) : this.#items.findBegun(item, at.index);
    return open === undefined || open.isDone ? undefined : open.number;
  }

  /** Starts a part; does nothing if it has already begun. */
  part(at: ItemPlace, place: PartPlace, part: JsonObject, events: GenerationEvent[]): void {
    const open = this.#items.findGrowing(at);
    if (open !== undefined) this.#part(open, place, part, events);
  }

  /** Adds text to a part; starts the part if the upstream did not. */
  text(
    at: ItemPlace,
    place: PartPlace & { readonly type: string },
    event: JsonObject,
    events: GenerationEvent[],
  ): void {
    const open = this.#items.findGrowing(at);
    const part = open === undefined ? undefined : this.#part(open, place, { type: place.type }, events);
    if (open === undefined || part === undefined || part.isClosed) return;
    this.#add(open, part, { text: textIn(event['delta']), logprobs: event['logprobs'] }, events);
  }

  /** Adds text to a call's arguments. */
  arguments(at: ItemPlace, text: string, events: GenerationEvent[]): void {
    const open = this.#items.findGrowing(at);
    if (open !== undefined) this.#arguments(open, text, events);
  }

  /** Reads the complete arguments of a call, and emits what has not come before. */
  wholeArguments(at: ItemPlace, text: string, events: GenerationEvent[]): void {
    const open = this.#items.findGrowing(at);
    if (open !== undefined) this.#wholeArguments(open, text, events);
  }

  /** Reads a complete part, and emits what has not come before. */
  wholePart(at: ItemPlace, place: PartPlace, part: JsonObject, events: GenerationEvent[]): void {
    const open = this.#items.findGrowing(at);
    if (open !== undefined) this.#wholePart(open, place, part, events);
  }

  /** Adds a citation to a text. */
  annotate(at: ItemPlace, place: PartPlace, annotation: JsonObject | undefined, events: GenerationEvent[]): void {
    const open = this.#items.findGrowing(at);
    const part = open === undefined ? undefined : this.#part(open, place, { type: 'output_text' }, events);
    if (open !== undefined && part !== undefined && !part.isClosed) this.#annotate(open, part, annotation, events);
  }

  /** Reads a complete item, emits what has not come before, and closes the item. */
  done(index: number | undefined, item: JsonObject, events: GenerationEvent[]): void {
    const open = this.#items.findEnded(item, index) ?? this.#start(index, item, events, true);
    if (!open.isDone) this.#done(open, item, events);
  }

  /** Reads the final output, and adds the items and parts that were not streamed. */
  output(output: readonly JsonObject[], events: GenerationEvent[]): void {
    for (const [index, item] of output.entries()) {
      const open = this.#items.confirm(item, index);
      if (open === undefined) {
        const added = this.#start(index, item, events, true);
        added.isConfirmed = true;
        if (!added.isDone) this.#done(added, item, events);
      } else if (open.isDone) this.#addMissing(open, item, events);
      else this.#done(open, item, events);
    }
  }

  /** Closes the items that are still open at the end of the answer. `cut`: a limit or a filter ended the answer. */
  end(cut: boolean, events: GenerationEvent[]): void {
    const status = cut ? ItemStatus.INCOMPLETE : ItemStatus.COMPLETED;
    this.#endEmpty(status, events);
    for (const open of this.#items.all()) if (!open.isDone) this.#close(open, { status, item: open.begun }, events);
  }

  /** Opens an item. `isWhole`: it is complete; a tool's is then closed. */
  #start(index: number | undefined, item: JsonObject, events: GenerationEvent[], isWhole = false): OpenItem {
    this.#endEmpty(ItemStatus.COMPLETED, events);
    const open = this.#items.open(item, index);
    const { kind } = open;
    if (kind === 'call' || kind === 'custom') this.hasCalls = true;
    if (kind !== 'server') events.push(emit.itemOpened(0, open.number, itemFrom(kind, item)));
    else {
      events.push(emit.itemOpened(0, open.number, make.makeItem(extras.serverTool(item), 0)));
      events.push(emit.itemClosed(0, open.number, isWhole ? ItemStatus.COMPLETED : ItemStatus.IN_PROGRESS));
      open.isDone = isWhole;
    }
    return open;
  }

  /** Returns the open part at a place, and opens it if necessary; undefined if the item is done, or if the contract has no such part. */
  #part(open: OpenItem, place: PartPlace, part: JsonObject, events: GenerationEvent[]): OpenPart | undefined {
    if (open.isDone || (open.kind !== 'message' && open.kind !== 'reasoning')) return undefined;
    const content = contentFrom(part, place.list);
    const kind = toDeltaKind(content);
    const key = `${place.list} ${place.index}`;
    const known = open.parts.get(key);
    if (known?.kind === kind) return known;
    // Content of another kind at the same place is another part.
    const other = known === undefined ? findWritten(open, place, part) : open.parts.get(`${key} ${kind}`);
    if (other?.kind === kind) return other;
    for (const each of open.parts.values()) this.#closePart(open, each, events);
    if (content.case === 'refusal') this.hasRefusal = true;
    const opened = { number: open.parts.size, place, kind, text: '', annotations: 0, isClosed: false, begun: part };
    open.parts.set(known === undefined ? key : `${key} ${kind}`, opened);
    const extra = content.case === 'unknown' ? undefined : extras.unknown(part, knownPartMembers);
    events.push(emit.partOpened(0, [open.number, opened.number], make.makePart(content, extra)));
    return opened;
  }

  #arguments(open: OpenItem, text: string, events: GenerationEvent[]): void {
    if (open.isDone || (open.kind !== 'call' && open.kind !== 'custom') || text === '') return;
    open.text += text;
    events.push(emit.delta(0, [open.number, 0], { kind: DeltaKind.ARGUMENTS, text }));
  }

  #wholeArguments(open: OpenItem, text: string, events: GenerationEvent[]): void {
    if (text.startsWith(open.text)) this.#arguments(open, text.slice(open.text.length), events);
  }

  #wholePart(open: OpenItem, place: PartPlace, part: JsonObject, events: GenerationEvent[]): void {
    const known = this.#part(open, place, part, events);
    if (known === undefined || known.isClosed) return;
    if (known.kind === DeltaKind.UNSPECIFIED) return this.#closePart(open, known, events, part);
    const text = readText(part);
    const rest = text.startsWith(known.text) ? text.slice(known.text.length) : '';
    // Log probabilities came with the deltas; if there were no deltas, the complete part has them.
    this.#add(open, known, { text: rest, logprobs: known.text === '' ? part['logprobs'] : [] }, events);
    const cited = listIn(part['annotations']).slice(known.annotations);
    for (const annotation of cited) this.#annotate(open, known, objectIn(annotation), events);
    this.#closePart(open, known, events, part);
  }

  /** Reads the parts of a complete item. A part is the one with its index; by its order if the upstream numbered its events otherwise. */
  #wholeParts(open: OpenItem, item: JsonObject, events: GenerationEvent[]): void {
    const parts = partsIn(item);
    for (const list of ['summary', 'content'] as const) {
      const whole = parts.filter(({ place }) => place.list === list);
      const streamed = [...open.parts.values()].filter(({ place }) => place.list === list);
      const isShifted = streamed.some(({ place, text }) => !readText(whole[place.index]?.part).startsWith(text));
      for (const [order, { part }] of whole.entries()) {
        const index = isShifted ? (streamed[order]?.place.index ?? whole.length + order) : order;
        this.#wholePart(open, { list, index }, part, events);
      }
    }
  }

  #done(open: OpenItem, item: JsonObject, events: GenerationEvent[]): void {
    const status = item['status'] === 'incomplete' ? ItemStatus.INCOMPLETE : ItemStatus.COMPLETED;
    this.#wholeParts(open, item, events);
    if (open.kind === 'call' || open.kind === 'custom') {
      this.#wholeArguments(open, textIn(item['arguments']) || textIn(item['input']), events);
      if (open.kind === 'call' && open.text === '' && status === ItemStatus.COMPLETED) {
        open.isDone = true;
        this.#empty = open;
        return;
      }
    }
    this.#close(open, { status, item }, events);
  }

  #endEmpty(status: ItemStatus, events: GenerationEvent[]): void {
    const empty = this.#empty;
    this.#empty = undefined;
    if (empty !== undefined) this.#close(empty, { status, item: empty.begun }, events);
  }

  /** Adds an item with the parts of `item` whose kind did not come before; they can't be added to `open`, which is done. */
  #addMissing(open: OpenItem, item: JsonObject, events: GenerationEvent[]): void {
    const known = new Set([...open.parts.values()].map(({ kind }) => kind));
    const missing = partsIn(item).filter(({ place, part }) => {
      return !known.has(toDeltaKind(contentFrom(part, place.list)));
    });
    if (missing.length === 0) return;
    const added = this.#start(undefined, { ...item, id: '' }, events);
    added.isConfirmed = true;
    for (const { place, part } of missing) this.#wholePart(added, place, part, events);
    this.#close(added, { status: ItemStatus.COMPLETED, item: {} }, events);
  }

  #add(
    open: OpenItem,
    part: OpenPart,
    { text, logprobs }: { text: string; logprobs: Json | undefined },
    events: GenerationEvent[],
  ): void {
    const likely = part.kind === DeltaKind.TEXT ? parseTokens(logprobs) : [];
    if (text === '' && likely.length === 0) return;
    part.text += text;
    events.push(emit.delta(0, [open.number, part.number], { kind: part.kind, text, logprobs: likely }));
  }

  #annotate(open: OpenItem, part: OpenPart, annotation: JsonObject | undefined, events: GenerationEvent[]): void {
    if (annotation === undefined || part.kind !== DeltaKind.TEXT) return;
    part.annotations += 1;
    events.push(emit.annotationAdded(0, [open.number, part.number], parseAnnotation(annotation)));
  }

  /** Closes a part. `whole`: the complete part, if the upstream sent it. */
  #closePart(open: OpenItem, part: OpenPart, events: GenerationEvent[], whole: JsonObject = {}): void {
    if (part.isClosed) return;
    part.isClosed = true;
    const isUnknown = part.kind === DeltaKind.UNSPECIFIED;
    const extra = isUnknown ? extras.of({ ...part.begun, ...whole }) : newMembers(whole, part.begun, knownPartMembers);
    const closed = emit.partClosed(0, [open.number, part.number]);
    if (closed.event.case === 'partClosed' && extra !== undefined) closed.event.value.extra = extra;
    events.push(closed);
  }

  #close(open: OpenItem, { status, item }: { status: ItemStatus; item: JsonObject }, events: GenerationEvent[]): void {
    open.isDone = true;
    const { number, kind } = open;
    if (kind === 'server') {
      const whole = emit.extension(0, ExtensionScope.ITEM, extras.of(item));
      if (whole.event.case === 'extension') whole.event.value.item = number;
      events.push(whole);
      return;
    }
    for (const part of open.parts.values()) this.#closePart(open, part, events);
    if (kind === 'reasoning') this.#seal(number, item, events);
    if (kind === 'compaction') {
      events.push(
        emit.opaqueAdded(0, number, make.makeOpaque(compactionKind, textIn(item['encrypted_content']), this.#provider)),
      );
    }
    // Servers end a call that was cut off by their limit as if it were complete.
    const isCut = kind === 'call' && open.text !== '' && !isWholeJson(open.text);
    const closed = emit.itemClosed(0, number, isCut ? ItemStatus.INCOMPLETE : status);
    const phase = phases[textIn(item['phase'])];
    const extra = newMembers(item, open.begun, knownMembers[kind]);
    if (closed.event.case === 'itemClosed') Object.assign(closed.event.value, defined({ phase, extra }));
    events.push(closed);
  }

  /** Emits the encrypted reasoning of an item, and the id that it is bound to. */
  #seal(number: number, item: JsonObject, events: GenerationEvent[]): void {
    const data = textIn(item['encrypted_content']);
    const id = textIn(item['id']);
    if (data === '') return;
    events.push(emit.opaqueAdded(0, number, make.makeOpaque(encryptedKind, data, this.#provider)));
    if (id !== '') events.push(emit.opaqueAdded(0, number, make.makeOpaque(itemIdKind, id, this.#provider)));
  }
}

const phases: Readonly<Record<string, Phase>> = {
  commentary: Phase.COMMENTARY,
  final_answer: Phase.FINAL_ANSWER,
};

function itemFrom(kind: Exclude<ItemKind, 'server'>, item: JsonObject): Item {
  const extra = extras.unknown(item, knownMembers[kind]);
  const namespace = textIn(item['namespace']);
  const call = {
    callId: textIn(item['call_id']) || textIn(item['id']),
    name: textIn(item['name']),
    ...(namespace === '' ? {} : { namespace }),
  };
  switch (kind) {
    case 'message':
      return make.makeItem(make.messageContent(Role.ASSISTANT, []), 0, extra);
    case 'reasoning':
      return make.makeItem(make.reasoningContent({}), 0, extra);
    case 'call':
      return make.makeItem(make.toolCallContent(call), 0, extra);
    case 'custom':
      return make.makeItem(make.toolCallContent({ ...call, kind: ToolKind.CUSTOM }), 0, extra);
    case 'compaction':
      return make.makeItem({ case: 'compaction', value: { $typeName: 'tollgate.v1.Compaction' } }, 0, extra);
  }
}

/** Returns the parts of a complete item, with their places. */
/** Returns the text of a complete part; '' if it has none. */
function readText(part: JsonObject = {}): string {
  return textIn(part['text']) || textIn(part['refusal']);
}

/** Returns the part that is being written, if a complete part at another index continues its text. */
function findWritten(open: OpenItem, { list }: PartPlace, part: JsonObject): OpenPart | undefined {
  const text = readText(part);
  return [...open.parts.values()].find(
    each => !each.isClosed && each.place.list === list && each.text !== '' && text.startsWith(each.text),
  );
}

function partsIn(item: JsonObject): { readonly place: PartPlace; readonly part: JsonObject }[] {
  return (['summary', 'content'] as const).flatMap(list =>
    listIn(item[list]).map((part, index) => ({ place: { list, index }, part: objectIn(part) ?? {} })),
  );
}

const knownPartMembers = new Set(['type', 'text', 'refusal', 'annotations', 'logprobs']);

/**
 * Returns the unknown members that a complete value has and that it did not have when it began; undefined if there are none.
 */
function newMembers(whole: JsonObject, begun: JsonObject, known: ReadonlySet<string>): Extra | undefined {
  const unknown = unknownMembers(whole, known);
  if (unknown === undefined) return undefined;
  const added = Object.entries(unknown).filter(([name, value]) => exactText(value) !== exactText(begun[name] ?? null));
  return added.length === 0 ? undefined : extras.of(Object.fromEntries(added));
}

/** Returns the content of a part by its type, without its text; a part of an unknown type is carried unchanged. */
function contentFrom(part: JsonObject, list: PartPlace['list']): Part['content'] {
  const type = textIn(part['type']);
  if (list === 'summary') return make.summaryTextContent('');
  if (type === 'output_text' || type === 'text') return make.textContent('');
  if (type === 'refusal') return make.refusalContent('');
  if (type === 'reasoning_text') return make.reasoningTextContent('');
  return type === 'summary_text' ? make.summaryTextContent('') : extras.unknownPart(part);
}

function toDeltaKind(content: Part['content']): DeltaKind {
  switch (content.case) {
    case 'refusal':
      return DeltaKind.REFUSAL;
    case 'reasoningText':
      return DeltaKind.REASONING;
    case 'summaryText':
      return DeltaKind.SUMMARY;
    case 'unknown':
      return DeltaKind.UNSPECIFIED;
    default:
      return DeltaKind.TEXT;
  }
}
