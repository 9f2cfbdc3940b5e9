import assert from 'node:assert/strict';
import {
  type Annotation,
  type Item,
  type Opaque,
  type Part,
  Protocol,
  type ServerTool,
  ToolKind,
} from '../../gen/tollgate/v1/content_pb.ts';
import type { Delta, GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { sseEvent } from '../../lib/sse.ts';
import { SurrogateGate } from '../../lib/surrogates.ts';
import type { JsonObject } from '../codec.ts';
import { objectIn } from '../json.ts';
import { CitationRenderer } from './citation.ts';
import { extraMembers } from './extra.ts';
import { redactedKind, signatureOf } from './thought-blobs.ts';

/** The deltas of a block: what stands before and after the JSON of the new text. */
const textDelta = ['{"type":"text_delta","text":', '}'] as const;
const thinkingDelta = ['{"type":"thinking_delta","thinking":', '}'] as const;
const inputDelta = ['{"type":"input_json_delta","partial_json":', '}'] as const;

type DeltaForm = typeof textDelta | typeof thinkingDelta | typeof inputDelta;

/** The block that is being written. */
interface OpenBlock {
  readonly head: string;
  readonly tail: string;
  readonly gate: SurrogateGate;
}

/** The item that is being written: Messages shows one after the other. */
interface OpenItem {
  readonly item: Item;
  readonly citations: CitationRenderer;
  /** Blobs that wait for the end of the thoughts. */
  readonly seals: Opaque[];
}

/**
 * Items as content blocks: contiguous indices, one block open at a time, every delta inside its block. A message's parts are a block each; the parts
 * of thoughts share one. Source: wire.md B3; cases TS-13, TS-14, RE-19, FI-15.
 */
export class BlockRenderer {
  hasCalls = false;
  hasRefusal = false;
  #index = -1;
  #block: OpenBlock | undefined;
  #item: OpenItem | undefined;

  push(event: GenerationEvent['event']): string[] {
    const frames: string[] = [];
    switch (event.case) {
      case 'itemOpened':
        this.#openItem(event.value.content, frames);
        break;
      case 'partOpened':
        this.#openPart(event.value.content, frames);
        break;
      case 'delta':
        this.#delta(event.value, frames);
        break;
      case 'annotationAdded':
        if (event.value.annotation !== undefined) this.#annotate(event.value.annotation, frames);
        break;
      case 'opaqueAdded':
        if (event.value.opaque !== undefined) this.#addOpaque(event.value.opaque, frames);
        break;
      case 'partClosed':
        if (this.#open.item.content.case === 'message') this.#closeBlock(frames);
        break;
      case 'itemClosed':
        this.#closeItem(frames);
        break;
      default:
    }
    return frames;
  }

  get #open(): OpenItem {
    assert(this.#item !== undefined, 'no item is open');
    return this.#item;
  }

  #openItem(item: Item | undefined, frames: string[]): void {
    assert(item !== undefined, 'an item opened without content');
    this.#item = { item, citations: new CitationRenderer(), seals: [] };
    const { content } = item;
    if (content.case === 'serverTool') {
      this.#serverTool(content.value, frames);
      return;
    }
    if (content.case !== 'toolCall') return;
    this.hasCalls = true;
    const { callId: id, name, signature } = content.value;
    if (signature !== undefined) this.#sealBefore(signature, frames);
    this.#openBlock({ type: 'tool_use', id, name, input: {}, ...extraMembers(item.extra) }, inputDelta, frames);
    if (content.value.kind === ToolKind.CUSTOM) frames.push(this.#deltaFrame('"{\\"input\\":\\""'));
  }

  /** What another protocol sealed a call with: thoughts are the one place for it that every client sends back. */
  #sealBefore(signature: Opaque, frames: string[]): void {
    this.#openBlock({ type: 'thinking', thinking: '', signature: '' }, thinkingDelta, frames);
    frames.push(this.#otherDelta({ type: 'signature_delta', signature: signatureOf([signature]) }));
    this.#closeBlock(frames);
  }

  /** The block as it came; what it was called with stands in a delta, where readers of streams look for it. */
  #serverTool({ protocol, json }: ServerTool, frames: string[]): void {
    if (protocol !== Protocol.MESSAGES) return;
    const block = JSON.parse(json) as JsonObject;
    const input = objectIn(block['input']);
    if (input === undefined) {
      this.#openBlock(block, inputDelta, frames);
    } else {
      this.#openBlock({ ...block, input: {} }, inputDelta, frames);
      frames.push(this.#deltaFrame(JSON.stringify(JSON.stringify(input))));
    }
    this.#closeBlock(frames);
  }

  #openPart(part: Part | undefined, frames: string[]): void {
    const { item } = this.#open;
    const members = { ...extraMembers(item.extra), ...extraMembers(part?.extra) };
    switch (part?.content.case) {
      case 'refusal':
        this.hasRefusal = true;
        return this.#openBlock({ type: 'text', text: '', ...members }, textDelta, frames);
      case 'text':
        return this.#openBlock({ type: 'text', text: '', ...members }, textDelta, frames);
      case 'reasoningText':
      case 'summaryText':
        // Further parts of the same thoughts go on in their block.
        if (this.#block === undefined) return this.#openThoughts(frames);
        frames.push(...this.#flushed(), this.#deltaFrame('"\\n\\n"'));
        break;
      default:
    }
  }

  #openThoughts(frames: string[]): void {
    const block = { type: 'thinking', thinking: '', signature: '', ...extraMembers(this.#open.item.extra) };
    this.#openBlock(block, thinkingDelta, frames);
  }

  #openBlock(block: JsonObject, [before, after]: DeltaForm, frames: string[]): void {
    this.#closeBlock(frames);
    this.#index += 1;
    const index = this.#index;
    this.#block = {
      head: `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":${before}`,
      tail: `${after}}\n\n`,
      gate: new SurrogateGate(),
    };
    frames.push(
      sseEvent('content_block_start', JSON.stringify({ type: 'content_block_start', index, content_block: block })),
    );
  }

  /** A delta of the open block; `json` is the JSON of its text. */
  #deltaFrame(json: string): string {
    assert(this.#block !== undefined, 'a delta outside of a block');
    return this.#block.head + json + this.#block.tail;
  }

  #delta({ text }: Delta, frames: string[]): void {
    if (this.#block === undefined) return;
    const ready = this.#block.gate.push(text);
    if (ready !== '') frames.push(this.#textFrame(ready));
  }

  #textFrame(text: string): string {
    const { content } = this.#open.item;
    const json = JSON.stringify(text);
    const isCustom = content.case === 'toolCall' && content.value.kind === ToolKind.CUSTOM;
    // Free text is a string inside of the input's JSON.
    return this.#deltaFrame(isCustom ? JSON.stringify(json.slice(1, -1)) : json);
  }

  #flushed(): string[] {
    const rest = this.#block?.gate.end() ?? '';
    return rest === '' ? [] : [this.#textFrame(rest)];
  }

  #annotate(annotation: Annotation, frames: string[]): void {
    const citation = this.#open.citations.render(annotation);
    if (citation === undefined || this.#block === undefined) return;
    frames.push(...this.#flushed(), this.#otherDelta({ type: 'citations_delta', citation }));
  }

  #otherDelta(delta: JsonObject): string {
    const members = { type: 'content_block_delta', index: this.#index, delta };
    return sseEvent('content_block_delta', JSON.stringify(members));
  }

  #addOpaque(opaque: Opaque, frames: string[]): void {
    const { item, seals } = this.#open;
    if (item.content.case !== 'reasoning') return;
    if (opaque.kind !== redactedKind) {
      seals.push(opaque);
      return;
    }
    this.#endThoughts(frames);
    const block = { type: 'redacted_thinking', data: opaque.data, ...extraMembers(item.extra) };
    this.#openBlock(block, thinkingDelta, frames);
    this.#closeBlock(frames);
  }

  /** Thoughts that were sealed end with their signature, which readers take from one delta. */
  #endThoughts(frames: string[]): void {
    const { seals } = this.#open;
    if (seals.length > 0) {
      if (this.#block === undefined) this.#openThoughts(frames);
      frames.push(
        ...this.#flushed(),
        this.#otherDelta({ type: 'signature_delta', signature: signatureOf(seals.splice(0)) }),
      );
    }
    this.#closeBlock(frames);
  }

  #closeItem(frames: string[]): void {
    const { item } = this.#open;
    if (item.content.case === 'reasoning') this.#endThoughts(frames);
    if (item.content.case === 'toolCall' && item.content.value.kind === ToolKind.CUSTOM) {
      frames.push(...this.#flushed(), this.#deltaFrame('"\\"}"'));
    }
    this.#closeBlock(frames);
    this.#item = undefined;
  }

  #closeBlock(frames: string[]): void {
    if (this.#block === undefined) return;
    frames.push(
      ...this.#flushed(),
      sseEvent('content_block_stop', JSON.stringify({ type: 'content_block_stop', index: this.#index })),
    );
    this.#block = undefined;
  }
}
