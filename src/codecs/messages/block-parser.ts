import { type Extra, type Item, ItemStatus, type Part, Role } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import * as emit from '../../generation/events.ts';
import type { JsonObject } from '../codec.ts';
import * as make from '../content.ts';
import { exactText } from '../../lib/exact-json.ts';
import { extendFrame } from '../extras.ts';
import { exactJson, isWholeJson, listIn, objectIn, textIn } from '../json.ts';
import { findUnknownMembers, type Shape, makeShape } from '../unknown-members.ts';
import { toUrlAnnotation } from './citation.ts';
import { extras } from './extras.ts';
import { readBlobs, redactedKind } from './reasoning-blobs.ts';

const knownMembers: Readonly<Record<string, ReadonlySet<string>>> = {
  text: new Set(['type', 'text', 'citations']),
  thinking: new Set(['type', 'thinking', 'signature']),
  redacted_thinking: new Set(['type', 'data']),
  tool_use: new Set(['type', 'id', 'name', 'input']),
};

/** The known members of a delta frame, by the type of the delta. */
const deltaFrames: Readonly<Record<string, Shape>> = {
  text_delta: deltaFrame('text'),
  thinking_delta: deltaFrame('thinking'),
  signature_delta: deltaFrame('signature'),
  citations_delta: deltaFrame('citation'),
  input_json_delta: deltaFrame('partial_json'),
};
const unknownDelta = makeShape('type index');

function deltaFrame(member: string): Shape {
  return makeShape('type index', { delta: makeShape(`type ${member}`) });
}

/** Returns whether a frame is a delta that has only known members. */
export function isPlainDelta(frame: JsonObject): boolean {
  const shape = deltaFrames[textIn(objectIn(frame['delta'])?.['type'])];
  return shape !== undefined && findUnknownMembers(frame, shape) === undefined;
}

/** A block of the upstream's answer that has not ended yet. */
interface OpenBlock {
  readonly kind: 'text' | 'thinking' | 'redacted' | 'call' | 'server';
  readonly item: number;
  /** The block as it was in its start frame. */
  readonly block: JsonObject;
  /** The tool input received so far. */
  input: string;
  signature: string;
  /** The events of a `server` block, which are held back until the block ends. */
  readonly held: GenerationEvent[];
}

/** A delta frame and the index of its block. */
interface DeltaFrame {
  readonly index: number;
  readonly frame: JsonObject;
  /** True if `isPlainDelta` found no unknown members in the frame; false if the frame was not checked. */
  readonly isPlain: boolean;
}

/** Parses content blocks into items, one for each block, numbered in order. A delta belongs to the block with its index (translation cases TS-14, TS-19). */
export class BlockParser {
  hasCalls = false;
  readonly #provider: string;
  readonly #open = new Map<number, OpenBlock>();
  /** A call that ended without input. The call is complete if another block follows, and incomplete if a limit ends the answer here. */
  #empty: OpenBlock | undefined;
  #items = 0;

  constructor(provider: string) {
    this.#provider = provider;
  }

  /** Starts a block; ends a block that is still open at the same index. */
  start(index: number, block: JsonObject, events: GenerationEvent[]): void {
    if (this.#open.has(index)) this.stop(index, events);
    this.#endEmpty(ItemStatus.COMPLETED, events);
    const type = textIn(block['type']);
    if (type === '') return;
    const open: OpenBlock = { kind: findKind(type), item: this.#items, block, input: '', signature: '', held: [] };
    this.#items += 1;
    this.#open.set(index, open);
    switch (open.kind) {
      case 'text':
        this.#openPart(
          make.makeItem(make.messageContent(Role.ASSISTANT, []), 0),
          make.makePart(make.textContent(''), readBlockExtra(block)),
          events,
        );
        this.#add(open, DeltaKind.TEXT, textIn(block['text']), events);
        for (const citation of listIn(block['citations'])) this.#cite(open, objectIn(citation), events);
        return;
      case 'thinking': {
        const item = make.makeItem(make.reasoningContent({}), 0, readBlockExtra(block));
        this.#openPart(item, make.makePart(make.reasoningTextContent('')), events);
        this.#add(open, DeltaKind.REASONING, textIn(block['thinking']), events);
        open.signature = textIn(block['signature']);
        return;
      }
      case 'redacted':
        events.push(
          emit.itemOpened(
            0,
            open.item,
            make.makeItem(make.reasoningContent({ redacted: true }), 0, readBlockExtra(block)),
          ),
        );
        return;
      case 'call': {
        this.hasCalls = true;
        const content = make.toolCallContent({ callId: textIn(block['id']), name: textIn(block['name']) });
        events.push(emit.itemOpened(0, open.item, make.makeItem(content, 0, readBlockExtra(block))));
        break;
      }
      case 'server':
    }
  }

  /**
   * Returns the item number of the open block at an index; undefined if none is open, or if its kind is `server`, because the item of such a
   * block is opened only when the block ends.
   */
  itemAt(index: number): number | undefined {
    const open = this.#open.get(index);
    return open === undefined || open.kind === 'server' ? undefined : open.item;
  }

  /** Adds a delta to its block; ignores deltas of blocks that never started. */
  delta({ index, frame, isPlain }: DeltaFrame, events: GenerationEvent[]): void {
    const open = this.#open.get(index);
    if (open === undefined) return;
    const delta = objectIn(frame['delta']) ?? {};
    const type = textIn(delta['type']);
    const rest = isPlain
      ? undefined
      : extras.unknownInFrame('content_block_delta', frame, deltaFrames[type] ?? unknownDelta);
    if (rest !== undefined) extendFrame(open.kind === 'server' ? open.held : events, open.item, rest);
    switch (type) {
      case 'text_delta':
        if (open.kind === 'text') this.#add(open, DeltaKind.TEXT, textIn(delta['text']), events);
        return;
      case 'thinking_delta':
        if (open.kind === 'thinking') this.#add(open, DeltaKind.REASONING, textIn(delta['thinking']), events);
        return;
      case 'signature_delta':
        // As in the official clients, the last of several signatures counts.
        open.signature = textIn(delta['signature']);
        return;
      case 'citations_delta':
        this.#cite(open, objectIn(delta['citation']), events);
        return;
      case 'input_json_delta': {
        const text = textIn(delta['partial_json']);
        open.input += text;
        if (open.kind === 'call') this.#add(open, DeltaKind.ARGUMENTS, text, events);
        break;
      }
      default:
    }
  }

  /** Ends the block at an index. */
  stop(index: number, events: GenerationEvent[]): void {
    const open = this.#open.get(index);
    if (open === undefined) return;
    this.#open.delete(index);
    if (open.kind !== 'call' || open.input !== '' || hasInput(open.block)) {
      this.#close(open, ItemStatus.COMPLETED, events);
      return;
    }
    this.#endEmpty(ItemStatus.COMPLETED, events);
    this.#empty = open;
  }

  /** Closes the open blocks at the end of the answer. `cut`: a limit or a refusal ended the answer. */
  end(cut: boolean, events: GenerationEvent[]): void {
    const status = cut ? ItemStatus.INCOMPLETE : ItemStatus.COMPLETED;
    this.#endEmpty(status, events);
    for (const [index, open] of this.#open) {
      this.#open.delete(index);
      this.#close(open, status, events);
    }
  }

  #endEmpty(status: ItemStatus, events: GenerationEvent[]): void {
    const empty = this.#empty;
    this.#empty = undefined;
    if (empty !== undefined) this.#close(empty, status, events);
  }

  #openPart(item: Item, part: Part, events: GenerationEvent[]): void {
    const number = this.#items - 1;
    events.push(emit.itemOpened(0, number, item), emit.partOpened(0, [number, 0], part));
  }

  #add(open: OpenBlock, kind: DeltaKind, text: string, events: GenerationEvent[]): void {
    if (text !== '') events.push(emit.delta(0, [open.item, 0], { kind, text }));
  }

  #cite(open: OpenBlock, citation: JsonObject | undefined, events: GenerationEvent[]): void {
    if (open.kind !== 'text' || citation === undefined) return;
    events.push(emit.annotationAdded(0, [open.item, 0], extras.annotation(citation)));
    const address = toUrlAnnotation(citation);
    if (address !== undefined) events.push(emit.annotationAdded(0, [open.item, 0], address));
  }

  #close(open: OpenBlock, status: ItemStatus, events: GenerationEvent[]): void {
    const { item, kind, block, input } = open;
    if (kind === 'server') {
      const opened = emit.itemOpened(0, item, serverItem(block, input));
      events.push(opened, ...open.held, emit.itemClosed(0, item, status));
      return;
    }
    if (kind === 'call') {
      if (input === '' && hasInput(block)) this.#add(open, DeltaKind.ARGUMENTS, exactText(block['input']), events);
      // Upstreams end a truncated call with the same frames as a complete one.
      const isWhole = input === '' || isWholeJson(input);
      events.push(emit.itemClosed(0, item, isWhole ? status : ItemStatus.INCOMPLETE));
      return;
    }
    if (kind !== 'redacted') events.push(emit.partClosed(0, [item, 0]));
    const blobs =
      kind === 'redacted'
        ? [make.makeOpaque(redactedKind, textIn(block['data']), this.#provider)]
        : readBlobs(kind === 'thinking' ? open.signature : '', this.#provider);
    for (const blob of blobs) events.push(emit.opaqueAdded(0, item, blob));
    events.push(emit.itemClosed(0, item, status));
  }
}

/** Returns whether the first frame of a call already contains its input. */
function hasInput(block: JsonObject): boolean {
  return Object.keys(objectIn(block['input']) ?? {}).length > 0;
}

function findKind(type: string): OpenBlock['kind'] {
  if (type === 'text' || type === 'thinking') return type;
  if (type === 'redacted_thinking') return 'redacted';
  return type === 'tool_use' ? 'call' : 'server';
}

function readBlockExtra(block: JsonObject): Extra | undefined {
  return extras.unknown(block, knownMembers[textIn(block['type'])] ?? new Set());
}

/** Returns the item of a server tool's block, with the streamed input in its member `input`. */
function serverItem(block: JsonObject, input: string): Item {
  const called = input === '' ? undefined : exactJson(input);
  return make.makeItem(extras.serverTool(called === undefined ? block : { ...block, input: called }), 0);
}
