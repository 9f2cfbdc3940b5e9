import assert from 'node:assert/strict';
import {
  type Annotation,
  type Item,
  type Opaque,
  type Part,
  type ServerTool,
  ToolKind,
} from '../../gen/tollgate/v1/content_pb.ts';
import type { Delta, GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { exactText } from '../../lib/exact-json.ts';
import { sseEvent } from '../../lib/sse.ts';
import { SurrogateGate } from '../../lib/surrogates.ts';
import type { JsonObject } from '../codec.ts';
import { makePart, reasoningTextContent, summaryTextContent } from '../content.ts';
import { objectIn } from '../json.ts';
import { mergeUnknown } from '../unknown-members.ts';
import { CitationRenderer } from './citation.ts';
import { extras } from './extras.ts';
import { redactedKind, toSignature } from './reasoning-blobs.ts';

/** The JSON of a delta before and after the JSON of the new content. */
const textDelta = ['{"type":"text_delta","text":', '}'] as const;
const thinkingDelta = ['{"type":"thinking_delta","thinking":', '}'] as const;
const inputDelta = ['{"type":"input_json_delta","partial_json":', '}'] as const;

type DeltaForm = typeof textDelta | typeof thinkingDelta | typeof inputDelta;

/** The block that is being written. */
interface OpenBlock {
  readonly head: string;
  readonly tail: string;
  readonly form: DeltaForm;
  readonly gate: SurrogateGate;
}

/** The item that is being written; Messages has one open item at a time. */
interface OpenItem {
  readonly item: Item;
  readonly citations: CitationRenderer;
  /** Blobs that are sent as a signature at the end of the reasoning or the text. */
  readonly blobs: Opaque[];
  /** The reasoning so far. If the signature is an envelope (`reasoning-envelope.ts`), it also contains the reasoning. */
  readonly reasoning: Part[];
}

/**
 * Renders items as content blocks: contiguous indices, one block open at a time, every delta inside its block. Each
 * part of a message is a block; the parts of reasoning share one. Source: docs/interfaces/messages.md "Stream"; cases
 * TS-13, TS-14, RE-19, FI-15.
 */
export class BlockRenderer {
  /** True once a tool call has been opened. */
  hasCalls = false;
  /** True once a refusal has been opened. */
  hasRefusal = false;
  #index = -1;
  #block: OpenBlock | undefined;
  #item: OpenItem | undefined;
  #frames = '';
  /** Unknown members that wait for the next frame of their type. */
  #waiting: Record<string, JsonObject> | undefined;

  /** Returns the frames of an event, joined; '' if there are none. */
  push(event: GenerationEvent['event']): string {
    this.#frames = '';
    switch (event.case) {
      case 'itemOpened':
        this.#openItem(event.value.content);
        break;
      case 'partOpened':
        this.#openPart(event.value.content);
        break;
      case 'delta':
        this.#delta(event.value);
        break;
      case 'annotationAdded':
        if (event.value.annotation !== undefined) this.#annotate(event.value.annotation);
        break;
      case 'opaqueAdded':
        if (event.value.opaque !== undefined) this.#addOpaque(event.value.opaque);
        break;
      case 'partClosed':
        if (this.#open.item.content.case === 'message') this.#closeBlock();
        break;
      case 'itemClosed':
        this.#closeItem();
        break;
      default:
    }
    return this.#frames;
  }

  /**
   * Keeps unknown members for the next frame of a type, and returns ''. A delta of an unknown type is rendered at once instead: its frames are
   * returned; '' if no block is open, and the delta is dropped.
   */
  extend(type: string, members: JsonObject): string {
    this.#frames = '';
    if (type === 'content_block_delta' && objectIn(members['delta'])?.['type'] !== undefined) {
      if (this.#block === undefined) return '';
      this.#flush();
      this.#frame(type, members);
    } else {
      this.#waiting ??= {};
      this.#waiting[type] = mergeUnknown(members, this.#waiting[type] ?? {});
    }
    return this.#frames;
  }

  get #open(): OpenItem {
    assert(this.#item !== undefined, 'no item is open');
    return this.#item;
  }

  #openItem(item: Item | undefined): void {
    assert(item !== undefined, 'an item opened without content');
    this.#item = { item, citations: new CitationRenderer(), blobs: [], reasoning: [] };
    const { content } = item;
    if (content.case === 'serverTool') {
      this.#serverTool(content.value);
      return;
    }
    if (content.case !== 'toolCall') return;
    this.hasCalls = true;
    const { callId: id, name, signature } = content.value;
    if (signature !== undefined) this.#writeSignatureBlock(signature);
    this.#openBlock({ type: 'tool_use', id, name, input: {}, ...extras.members(item.extra) }, inputDelta);
    // Begins the input `{"input":"…"}`, whose only member is the free text; `#closeItem` writes its end.
    if (content.value.kind === ToolKind.CUSTOM) this.#writeDelta('"{\\"input\\":\\""');
  }

  /** Writes another protocol's signature of a text or a call as a reasoning block, because that is the only block that every client sends back. */
  #writeSignatureBlock(blob: Opaque): void {
    this.#openBlock({ type: 'thinking', thinking: '', signature: '' }, thinkingDelta);
    this.#writeDeltaObject({ type: 'signature_delta', signature: toSignature([blob]) });
    this.#closeBlock();
  }

  /** Renders a server tool's block as Messages sent it, but with its input in a delta, as in a stream of the official service. Blocks of other protocols are left out. */
  #serverTool(tool: ServerTool): void {
    const block = extras.own(tool);
    if (block === undefined) return;
    const input = objectIn(block['input']);
    if (input === undefined) {
      this.#openBlock(block, inputDelta);
    } else {
      this.#openBlock({ ...block, input: {} }, inputDelta);
      this.#writeDelta(JSON.stringify(exactText(input)));
    }
  }

  #openPart(part: Part | undefined): void {
    const { item } = this.#open;
    const members = { ...extras.members(item.extra), ...extras.members(part?.extra) };
    switch (part?.content.case) {
      case 'refusal':
        this.hasRefusal = true;
        return this.#openBlock({ type: 'text', text: '', ...members }, textDelta);
      case 'text':
        return this.#openBlock({ type: 'text', text: '', ...members }, textDelta);
      case 'reasoningText':
      case 'summaryText':
        this.#open.reasoning.push(
          makePart(part.content.case === 'summaryText' ? summaryTextContent('') : reasoningTextContent('')),
        );
        // All parts of one reasoning item are in one block.
        if (this.#block === undefined) return this.#openReasoning();
        this.#flush();
        this.#writeDelta('"\\n\\n"');
        break;
      default:
    }
  }

  #openReasoning(): void {
    const block = { type: 'thinking', thinking: '', signature: '', ...extras.members(this.#open.item.extra) };
    this.#openBlock(block, thinkingDelta);
  }

  #openBlock(block: JsonObject, form: DeltaForm): void {
    const [before, after] = form;
    this.#closeBlock();
    this.#index += 1;
    const index = this.#index;
    this.#block = {
      head: `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":${before}`,
      tail: `${after}}\n\n`,
      form,
      gate: new SurrogateGate(),
    };
    this.#frame('content_block_start', { content_block: block });
  }

  /** Writes a frame of the open block, with the unknown members that wait for it. */
  #frame(type: string, members: JsonObject): void {
    const fields = { type, index: this.#index, ...members };
    const waiting = this.#waiting?.[type];
    if (waiting !== undefined) delete this.#waiting?.[type];
    this.#frames += sseEvent(type, exactText(waiting === undefined ? fields : mergeUnknown(fields, waiting)));
  }

  /** Writes a delta of the open block; `json` is the JSON of its text. */
  #writeDelta(json: string): void {
    assert(this.#block !== undefined, 'a delta outside of a block');
    const { head, tail, form } = this.#block;
    if (this.#waiting?.['content_block_delta'] === undefined) this.#frames += head + json + tail;
    else this.#frame('content_block_delta', { delta: JSON.parse(form[0] + json + form[1]) as JsonObject });
  }

  #delta({ text }: Delta): void {
    if (this.#block === undefined) return;
    const last = this.#item?.reasoning.at(-1)?.content;
    if (last?.case === 'reasoningText' || last?.case === 'summaryText') last.value.text += text;
    const ready = this.#block.gate.push(text);
    if (ready !== '') this.#writeText(ready);
  }

  #writeText(text: string): void {
    const { content } = this.#open.item;
    const json = JSON.stringify(text);
    const isCustom = content.case === 'toolCall' && content.value.kind === ToolKind.CUSTOM;
    // Free text is a string inside the JSON of the input.
    this.#writeDelta(isCustom ? JSON.stringify(json.slice(1, -1)) : json);
  }

  /** Writes half of a surrogate pair whose other half never came. */
  #flush(): void {
    const rest = this.#block?.gate.end() ?? '';
    if (rest !== '') this.#writeText(rest);
  }

  #annotate(annotation: Annotation): void {
    const citation = this.#open.citations.render(annotation);
    if (citation === undefined || this.#block === undefined) return;
    this.#flush();
    this.#writeDeltaObject({ type: 'citations_delta', citation });
  }

  #writeDeltaObject(delta: JsonObject): void {
    this.#frame('content_block_delta', { delta });
  }

  #addOpaque(opaque: Opaque): void {
    const { item, blobs } = this.#open;
    if (item.content.case === 'message') blobs.push(opaque);
    // The signature of a call comes with its item, and a compaction has no block.
    if (item.content.case !== 'reasoning') return;
    if (opaque.kind !== redactedKind) {
      blobs.push(opaque);
      return;
    }
    this.#endReasoning();
    const block = { type: 'redacted_thinking', data: opaque.data, ...extras.members(item.extra) };
    this.#openBlock(block, thinkingDelta);
    this.#closeBlock();
  }

  /** Ends the reasoning with its signature in one delta, as clients expect it. */
  #endReasoning(): void {
    const { blobs, reasoning, item } = this.#open;
    if (blobs.length > 0) {
      if (this.#block === undefined) this.#openReasoning();
      this.#flush();
      this.#writeDeltaObject({
        type: 'signature_delta',
        signature: toSignature(blobs.splice(0), { parts: reasoning, extra: item.extra }),
      });
    }
    this.#closeBlock();
  }

  #closeItem(): void {
    const { item } = this.#open;
    if (item.content.case === 'reasoning') this.#endReasoning();
    if (item.content.case === 'toolCall' && item.content.value.kind === ToolKind.CUSTOM) {
      this.#flush();
      this.#writeDelta('"\\"}"');
    }
    this.#closeBlock();
    for (const blob of this.#open.blobs) this.#writeSignatureBlock(blob);
    this.#item = undefined;
  }

  #closeBlock(): void {
    if (this.#block === undefined) return;
    this.#flush();
    // Unknown members that wait for a delta are sent even if no other delta follows.
    if (this.#waiting?.['content_block_delta'] !== undefined) this.#writeDelta('""');
    this.#frame('content_block_stop', {});
    this.#block = undefined;
  }
}
