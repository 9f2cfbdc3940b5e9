import { type Item, ItemStatus, type Part, Phase, Role, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import * as emit from '../../generation/events.ts';
import type { Json, JsonObject } from '../codec.ts';
import * as make from '../content.ts';
import { isWholeJson, listIn, objectIn, textIn } from '../json.ts';
import { parseAnnotation } from './annotation.ts';
import { compactionKind, encryptedKind, itemIdKind } from './blobs.ts';
import { extras } from './extras.ts';
import { parseTokens } from '../logprobs.ts';

/** Whether an item of the type is put together from its deltas; others are taken as they are when they are done. */
type Kind = 'message' | 'reasoning' | 'call' | 'custom' | 'compaction' | 'server';

const kinds: Readonly<Record<string, Kind>> = {
  message: 'message',
  reasoning: 'reasoning',
  function_call: 'call',
  custom_tool_call: 'custom',
  compaction: 'compaction',
};

const shared = ['type', 'id', 'status'] as const;
const knownOf: Readonly<Record<Exclude<Kind, 'server'>, ReadonlySet<string>>> = {
  message: new Set([...shared, 'role', 'content', 'phase']),
  reasoning: new Set([...shared, 'summary', 'content', 'encrypted_content']),
  call: new Set([...shared, 'call_id', 'name', 'namespace', 'arguments']),
  custom: new Set([...shared, 'call_id', 'name', 'namespace', 'input']),
  compaction: new Set([...shared, 'encrypted_content']),
};

/** A part of an item, and how much of its text has come. */
interface OpenPart {
  readonly number: number;
  readonly kind: DeltaKind;
  text: string;
  annotations: number;
  isClosed: boolean;
}

/** An item of the upstream's answer that is not done. */
interface OpenItem {
  readonly kind: Kind;
  readonly number: number;
  /** By their place: "content 0", "summary 1". */
  readonly parts: Map<string, OpenPart>;
  /** What came of a call's arguments. */
  text: string;
  isDone: boolean;
}

/** Where a part stands in its item, and what it is. */
interface PartPlace {
  readonly list: 'content' | 'summary';
  readonly index: number;
}

/**
 * Items of an upstream to items of the model. Deltas find their item by its place in the output; what only stands in the last event of a text, a part or an item is
 * taken from there, so that nothing depends on which of the interface's many events a server sends. Source: wire.md B2 (X40 to X46, R26); cases TS-22, RE-16, RP-02.
 */
export class ItemParser {
  hasCalls = false;
  hasRefusal = false;
  readonly #provider: string;
  readonly #open = new Map<number, OpenItem>();
  #items = 0;

  constructor(provider: string) {
    this.#provider = provider;
  }

  /** Whether the item at a place of the output has begun. */
  has(outputIndex: number): boolean {
    return this.#open.has(outputIndex);
  }

  /** An item begins. One that is told again has begun already. */
  start(outputIndex: number, item: JsonObject, events: GenerationEvent[]): void {
    if (this.#open.has(outputIndex)) return;
    const kind = kinds[textIn(item['type'])] ?? 'server';
    const open: OpenItem = { kind, number: this.#items, parts: new Map(), text: '', isDone: false };
    this.#items += 1;
    this.#open.set(outputIndex, open);
    if (kind === 'call' || kind === 'custom') this.hasCalls = true;
    // What the upstream's own tools do is known when it is done.
    if (kind !== 'server') events.push(emit.itemOpened(0, open.number, itemFrom(kind, item)));
  }

  /** A part begins; one that is told again has begun already. Undefined where its item is not known or is done. */
  part(outputIndex: number, place: PartPlace, part: JsonObject, events: GenerationEvent[]): OpenPart | undefined {
    const open = this.#open.get(outputIndex);
    if (open === undefined || open.isDone) return undefined;
    const key = `${place.list} ${place.index}`;
    const known = open.parts.get(key);
    if (known !== undefined) return known;
    const content = contentFrom(textIn(part['type']), place.list);
    if (content === undefined) return undefined;
    for (const each of open.parts.values()) this.#closePart(open, each, events);
    if (content.case === 'refusal') this.hasRefusal = true;
    const kind = kindOf(content);
    const opened = { number: open.parts.size, kind, text: '', annotations: 0, isClosed: false };
    open.parts.set(key, opened);
    events.push(
      emit.partOpened(0, [open.number, opened.number], make.partOf(content, extras.unknown(part, knownOfPart))),
    );
    return opened;
  }

  /** More of a part's text, which begins with it where the upstream did not say so. */
  text(
    outputIndex: number,
    place: PartPlace & { readonly type: string },
    event: JsonObject,
    events: GenerationEvent[],
  ): void {
    const open = this.#open.get(outputIndex);
    const part = this.part(outputIndex, place, { type: place.type }, events);
    if (open === undefined || part === undefined || part.isClosed) return;
    this.#add(open, part, { text: textIn(event['delta']), logprobs: event['logprobs'] }, events);
  }

  /** More of a call's arguments. */
  arguments(outputIndex: number, text: string, events: GenerationEvent[]): void {
    const open = this.#open.get(outputIndex);
    if (open === undefined || open.isDone || (open.kind !== 'call' && open.kind !== 'custom') || text === '') return;
    open.text += text;
    events.push(emit.delta(0, [open.number, 0], { kind: DeltaKind.ARGUMENTS, text }));
  }

  /** The whole of a call's arguments: what did not come before. */
  wholeArguments(outputIndex: number, text: string, events: GenerationEvent[]): void {
    const come = this.#open.get(outputIndex)?.text ?? '';
    if (text.startsWith(come)) this.arguments(outputIndex, text.slice(come.length), events);
  }

  /** The whole of a part: what did not come before. */
  wholePart(outputIndex: number, place: PartPlace, part: JsonObject, events: GenerationEvent[]): void {
    const open = this.#open.get(outputIndex);
    const known = this.part(outputIndex, place, part, events);
    if (open === undefined || known === undefined || known.isClosed) return;
    const text = textIn(part['text']) || textIn(part['refusal']);
    const rest = text.startsWith(known.text) ? text.slice(known.text.length) : '';
    // Likelihoods came with the deltas; where none came they are those of the whole.
    this.#add(open, known, { text: rest, logprobs: known.text === '' ? part['logprobs'] : [] }, events);
    const cited = listIn(part['annotations']).slice(known.annotations);
    for (const annotation of cited) this.#annotate(open, known, objectIn(annotation), events);
    this.#closePart(open, known, events);
  }

  /** A citation of a text. */
  annotate(outputIndex: number, place: PartPlace, annotation: JsonObject | undefined, events: GenerationEvent[]): void {
    const open = this.#open.get(outputIndex);
    const part = this.part(outputIndex, place, { type: 'output_text' }, events);
    if (open !== undefined && part !== undefined && !part.isClosed) this.#annotate(open, part, annotation, events);
  }

  /** An item is done: what did not come before is taken from it. */
  done(outputIndex: number, item: JsonObject, events: GenerationEvent[]): void {
    this.start(outputIndex, item, events);
    const open = this.#open.get(outputIndex);
    if (open === undefined || open.isDone) return;
    const status = item['status'] === 'incomplete' ? ItemStatus.INCOMPLETE : ItemStatus.COMPLETED;
    switch (open.kind) {
      case 'message':
      case 'reasoning':
        this.#wholeParts(outputIndex, item, events);
        break;
      case 'call':
      case 'custom':
        this.wholeArguments(outputIndex, textIn(item['arguments']) || textIn(item['input']), events);
        break;
      default:
    }
    this.#close(open, { status, item }, events);
  }

  /** The answer has ended: `cut` where a limit or a filter ended it. Items that are not done end with it. */
  end(cut: boolean, events: GenerationEvent[]): void {
    const status = cut ? ItemStatus.INCOMPLETE : ItemStatus.COMPLETED;
    for (const open of this.#open.values()) if (!open.isDone) this.#close(open, { status, item: {} }, events);
  }

  #wholeParts(outputIndex: number, item: JsonObject, events: GenerationEvent[]): void {
    for (const list of ['summary', 'content'] as const) {
      for (const [index, part] of listIn(item[list]).entries()) {
        this.wholePart(outputIndex, { list, index }, objectIn(part) ?? {}, events);
      }
    }
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

  #closePart(open: OpenItem, part: OpenPart, events: GenerationEvent[]): void {
    if (part.isClosed) return;
    part.isClosed = true;
    events.push(emit.partClosed(0, [open.number, part.number]));
  }

  #close(open: OpenItem, { status, item }: { status: ItemStatus; item: JsonObject }, events: GenerationEvent[]): void {
    open.isDone = true;
    const { number, kind } = open;
    if (kind === 'server') {
      if (Object.keys(item).length === 0) return;
      events.push(
        emit.itemOpened(0, number, make.itemOf(extras.serverTool(item), 0)),
        emit.itemClosed(0, number, status),
      );
      return;
    }
    for (const part of open.parts.values()) this.#closePart(open, part, events);
    if (kind === 'reasoning') this.#seal(number, item, events);
    if (kind === 'compaction') {
      events.push(
        emit.opaqueAdded(0, number, make.opaqueOf(compactionKind, textIn(item['encrypted_content']), this.#provider)),
      );
    }
    // Servers end a call that their limit has cut as if it were whole.
    const isCut = kind === 'call' && open.text !== '' && !isWholeJson(open.text);
    const closed = emit.itemClosed(0, number, isCut ? ItemStatus.INCOMPLETE : status);
    const phase = phases[textIn(item['phase'])];
    if (closed.event.case === 'itemClosed' && phase !== undefined) closed.event.value.phase = phase;
    events.push(closed);
  }

  /** Encrypted thoughts, and the id that they are bound to. */
  #seal(number: number, item: JsonObject, events: GenerationEvent[]): void {
    const data = textIn(item['encrypted_content']);
    const id = textIn(item['id']);
    if (data === '') return;
    events.push(emit.opaqueAdded(0, number, make.opaqueOf(encryptedKind, data, this.#provider)));
    if (id !== '') events.push(emit.opaqueAdded(0, number, make.opaqueOf(itemIdKind, id, this.#provider)));
  }
}

const phases: Readonly<Record<string, Phase>> = {
  commentary: Phase.COMMENTARY,
  final_answer: Phase.FINAL_ANSWER,
};

function itemFrom(kind: Exclude<Kind, 'server'>, item: JsonObject): Item {
  const extra = extras.unknown(item, knownOf[kind]);
  const namespace = textIn(item['namespace']);
  const call = {
    callId: textIn(item['call_id']) || textIn(item['id']),
    name: textIn(item['name']),
    ...(namespace === '' ? {} : { namespace }),
  };
  switch (kind) {
    case 'message':
      return make.itemOf(make.messageContent(Role.ASSISTANT, []), 0, extra);
    case 'reasoning':
      return make.itemOf(make.reasoningContent({}), 0, extra);
    case 'call':
      return make.itemOf(make.toolCallContent(call), 0, extra);
    case 'custom':
      return make.itemOf(make.toolCallContent({ ...call, kind: ToolKind.CUSTOM }), 0, extra);
    case 'compaction':
      return make.itemOf({ case: 'compaction', value: { $typeName: 'tollgate.v1.Compaction' } }, 0, extra);
  }
}

const knownOfPart = new Set(['type', 'text', 'refusal', 'annotations', 'logprobs']);

/** The content of a part by its type; undefined where the model has none for it. */
function contentFrom(type: string, list: PartPlace['list']): Part['content'] | undefined {
  if (list === 'summary') return make.summaryTextContent('');
  if (type === 'output_text' || type === 'text') return make.textContent('');
  if (type === 'refusal') return make.refusalContent('');
  if (type === 'reasoning_text') return make.reasoningTextContent('');
  return type === 'summary_text' ? make.summaryTextContent('') : undefined;
}

function kindOf(content: Part['content']): DeltaKind {
  switch (content.case) {
    case 'refusal':
      return DeltaKind.REFUSAL;
    case 'reasoningText':
      return DeltaKind.REASONING;
    case 'summaryText':
      return DeltaKind.SUMMARY;
    default:
      return DeltaKind.TEXT;
  }
}
