import assert from 'node:assert/strict';
import { type Item, ItemStatus, type Opaque, type TokenLogprob, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import {
  type Delta,
  DeltaKind,
  ExtensionScope,
  type Finished,
  type GenerationEvent,
} from '../../gen/tollgate/v1/event_pb.ts';
import { SurrogateGate } from '../../lib/surrogates.ts';
import type { JsonObject } from '../codec.ts';
import { renderAnnotation } from './annotation.ts';
import type { ChunkFrame } from './chunk-frame.ts';
import { renderFinishReason } from './finish-reason.ts';
import { renderTokens } from './logprobs.ts';
import { detailOfOpaque, detailType, extraMembers, placeMember } from './reasoning-details.ts';
import { callMembers, signatureMembers } from './tool-call.ts';

/** An item that is being written. */
interface OpenItem {
  /** Its place among the calls or the blocks of thoughts of the choice. */
  readonly index: number;
  /** A call of a custom tool, or the deprecated form of a function's. */
  readonly callForm: 'function' | 'custom' | 'legacy' | undefined;
  /** Members that only Chat knows, and the place of thoughts. */
  readonly extra: JsonObject;
  /** A half character may wait in it; it is of the kind of the last delta. */
  readonly gate: SurrogateGate;
  deltaKind: DeltaKind;
  /** Nothing of the text or the arguments was sent. */
  empty: boolean;
}

/** The chunks of one choice: constant beginnings and endings around the JSON of what is new. */
export class ChoiceRenderer {
  readonly #frame: ChunkFrame;
  readonly #legacyFunctions: boolean;
  readonly #index: number;
  readonly #beforeText: string;
  readonly #afterText: string;
  readonly #items = new Map<number, OpenItem>();
  #begun = false;
  #calls = 0;
  #thoughts = 0;
  /** UTF-16 units of the text so far. */
  #textLength = 0;
  #finished: Finished | undefined;
  /** Unknown members that wait for the next chunk, with a comma before each: of the choice, and of its delta. */
  #choiceMembers = '';
  #deltaMembers = '';

  constructor(index: number, frame: ChunkFrame, legacyFunctions: boolean) {
    this.#index = index;
    this.#frame = frame;
    this.#legacyFunctions = legacyFunctions;
    this.#beforeText = `${frame.head}{"index":${index},"delta":{"content":`;
    this.#afterText = `},"logprobs":null,"finish_reason":null}${frame.tail}`;
  }

  /** The chunk with the role, which comes before all others of a choice. */
  begin(): string[] {
    if (this.#begun) return [];
    this.#begun = true;
    return [this.#chunk('"role":"assistant","content":"","refusal":null')];
  }

  push(event: GenerationEvent['event']): string[] {
    const frames = this.begin();
    switch (event.case) {
      case 'itemOpened':
        this.#open(event.value.item, event.value.content, frames);
        break;
      case 'delta':
        this.#delta(event.value, frames);
        break;
      case 'annotationAdded': {
        const annotation = event.value.annotation === undefined ? undefined : renderAnnotation(event.value.annotation);
        if (annotation !== undefined) frames.push(this.#chunk(`"annotations":[${JSON.stringify(annotation)}]`));
        break;
      }
      case 'opaqueAdded':
        if (event.value.opaque !== undefined) this.#addOpaque(this.#item(event.value.item), event.value.opaque, frames);
        break;
      case 'partClosed':
        this.#closePart(this.#item(event.value.item), frames);
        break;
      case 'itemClosed':
        this.#closeItem(event.value.item, event.value.status, frames);
        break;
      case 'finished':
        this.#finished = event.value;
        break;
      default:
    }
    return frames;
  }

  /** Unknown members for the next chunk; a chunk that had nothing but unknown members goes first. */
  extend(scope: ExtensionScope, members: string): string[] {
    const taken = scope === ExtensionScope.DELTA ? this.#deltaMembers : this.#choiceMembers;
    const frames = taken === '' ? [] : this.flush();
    if (scope === ExtensionScope.DELTA) this.#deltaMembers = members;
    else this.#choiceMembers = members;
    return frames;
  }

  /** A chunk with the unknown members that wait, and nothing else. */
  flush(): string[] {
    return [...this.begin(), this.#chunk('')];
  }

  /** The chunk with the finish; `members` of the chunk itself stand in it. Empty where the choice never finished. */
  finish(members: string): string[] {
    if (this.#finished === undefined) return [];
    const frames = this.#deltaMembers === '' ? [] : this.flush();
    const reason = renderFinishReason(this.#finished.reason, this.#calls > 0);
    const shown = this.#legacyFunctions && reason === 'tool_calls' ? 'function_call' : reason;
    const choice = `{"index":${this.#index},"delta":{},"logprobs":null,"finish_reason":"${shown}"${this.#choiceMembers}}`;
    this.#choiceMembers = '';
    frames.push(this.#frame.chunk(choice, members));
    return frames;
  }

  #chunk(delta: string, logprobs = 'null'): string {
    const members = delta === '' ? this.#deltaMembers.slice(1) : delta + this.#deltaMembers;
    const choice = `{"index":${this.#index},"delta":{${members}},"logprobs":${logprobs},"finish_reason":null${this.#choiceMembers}}`;
    this.#deltaMembers = '';
    this.#choiceMembers = '';
    return this.#frame.chunk(choice);
  }

  #textChunk(text: string): string {
    const waits = this.#deltaMembers !== '' || this.#choiceMembers !== '' || this.#frame.hasMembers;
    const json = JSON.stringify(text);
    return waits ? this.#chunk(`"content":${json}`) : this.#beforeText + json + this.#afterText;
  }

  #item(number: number): OpenItem {
    const item = this.#items.get(number);
    assert(item !== undefined, `item ${number} is not open`);
    return item;
  }

  #open(number: number, item: Item | undefined, frames: string[]): void {
    assert(item !== undefined, 'an item opened without content');
    const { content } = item;
    const isCall = content.case === 'toolCall';
    const index = isCall ? this.#calls : this.#thoughts;
    const open: OpenItem = {
      index,
      callForm: isCall ? this.#callForm(content.value.kind) : undefined,
      extra: content.case === 'reasoning' ? this.#thoughtMembers(item) : {},
      gate: new SurrogateGate(),
      deltaKind: DeltaKind.UNSPECIFIED,
      empty: true,
    };
    this.#items.set(number, open);
    if (content.case === 'reasoning') this.#thoughts += 1;
    if (!isCall) return;
    this.#calls += 1;
    if (open.callForm === 'legacy') {
      const { name } = content.value;
      if (index === 0) frames.push(this.#chunk(`"function_call":${JSON.stringify({ name, arguments: '' })}`));
    } else {
      const start = { index, ...callMembers(item, content.value, '') };
      frames.push(this.#chunk(`"tool_calls":[${JSON.stringify(start)}]`));
    }
  }

  #thoughtMembers({ extra }: Item): JsonObject {
    return { ...extraMembers(extra), ...placeMember({ calls: this.#calls, text: this.#textLength }) };
  }

  #callForm(kind: ToolKind): OpenItem['callForm'] {
    if (kind === ToolKind.CUSTOM) return 'custom';
    return this.#legacyFunctions ? 'legacy' : 'function';
  }

  #addOpaque(item: OpenItem, opaque: Opaque, frames: string[]): void {
    if (item.callForm === undefined) {
      const entry = { ...detailOfOpaque(opaque), ...item.extra, index: item.index };
      frames.push(this.#chunk(`"reasoning_details":[${JSON.stringify(entry)}]`));
      return;
    }
    const signed = signatureMembers(opaque);
    if (signed === undefined || item.callForm === 'legacy') return;
    frames.push(this.#chunk(`"tool_calls":[${JSON.stringify({ index: item.index, ...signed })}]`));
  }

  #delta({ item: number, kind, text, logprobs }: Delta, frames: string[]): void {
    const item = this.#item(number);
    item.deltaKind = kind;
    if (kind === DeltaKind.TEXT) this.#textLength += text.length;
    const ready = item.gate.push(text);
    if (logprobs.length > 0) {
      item.empty = false;
      frames.push(this.#scoredChunk(kind, ready, logprobs));
    } else if (ready !== '') this.#send(item, ready, frames);
  }

  #scoredChunk(kind: DeltaKind, text: string, logprobs: readonly TokenLogprob[]): string {
    const tokens = JSON.stringify(renderTokens(logprobs));
    if (kind === DeltaKind.REFUSAL) {
      return this.#chunk(`"refusal":${JSON.stringify(text)}`, `{"content":null,"refusal":${tokens}}`);
    }
    return this.#chunk(`"content":${JSON.stringify(text)}`, `{"content":${tokens},"refusal":null}`);
  }

  #send(item: OpenItem, text: string, frames: string[]): void {
    item.empty = false;
    const frame = item.deltaKind === DeltaKind.TEXT ? this.#textChunk(text) : this.#otherChunk(item, text);
    if (frame !== undefined) frames.push(frame);
  }

  #otherChunk(item: OpenItem, text: string): string | undefined {
    const json = JSON.stringify(text);
    switch (item.deltaKind) {
      case DeltaKind.REFUSAL:
        return this.#chunk(`"refusal":${json}`);
      case DeltaKind.ARGUMENTS:
        return this.#argumentsChunk(item, json);
      case DeltaKind.REASONING: {
        const entry = JSON.stringify({ type: detailType.text, text, ...item.extra, index: item.index });
        return this.#chunk(`"reasoning_content":${json},"reasoning_details":[${entry}]`);
      }
      case DeltaKind.SUMMARY: {
        const entry = JSON.stringify({ type: detailType.summary, summary: text, ...item.extra, index: item.index });
        return this.#chunk(`"reasoning_content":${json},"reasoning_details":[${entry}]`);
      }
      default:
        return undefined;
    }
  }

  #argumentsChunk({ callForm, index }: OpenItem, json: string): string | undefined {
    switch (callForm) {
      case 'custom':
        return this.#chunk(`"tool_calls":[{"index":${index},"custom":{"input":${json}}}]`);
      case 'legacy':
        // The deprecated form has room for one call.
        return index === 0 ? this.#chunk(`"function_call":{"arguments":${json}}`) : undefined;
      default:
        return this.#chunk(`"tool_calls":[{"index":${index},"function":{"arguments":${json}}}]`);
    }
  }

  #closePart(item: OpenItem, frames: string[]): void {
    const rest = item.gate.end();
    if (rest !== '') this.#send(item, rest, frames);
  }

  #closeItem(number: number, status: ItemStatus, frames: string[]): void {
    const item = this.#item(number);
    this.#closePart(item, frames);
    this.#items.delete(number);
    const isFunction = item.callForm === 'function' || item.callForm === 'legacy';
    if (!isFunction || !item.empty || status === ItemStatus.INCOMPLETE) return;
    // Strict clients refuse a call without any arguments (case TS-10).
    const frame = this.#argumentsChunk(item, '"{}"');
    if (frame !== undefined) frames.push(frame);
  }
}
