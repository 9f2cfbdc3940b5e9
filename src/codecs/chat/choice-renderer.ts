import assert from 'node:assert/strict';
import {
  type Extra,
  type Item,
  ItemStatus,
  type Opaque,
  type Part,
  type ServerTool,
  type TokenLogprob,
  ToolKind,
} from '../../gen/tollgate/v1/content_pb.ts';
import {
  type Delta,
  DeltaKind,
  ExtensionScope,
  type Finished,
  type GenerationEvent,
} from '../../gen/tollgate/v1/event_pb.ts';
import { exactText } from '../../lib/exact-json.ts';
import { SurrogateGate } from '../../lib/surrogates.ts';
import type { JsonObject } from '../codec.ts';
import { makePart, reasoningTextContent, summaryTextContent } from '../content.ts';
import { renderAnnotation } from './annotation.ts';
import type { ChunkFrame } from './chunk-frame.ts';
import { renderFinishReason } from './finish-reason.ts';
import { renderTokens } from './logprobs.ts';
import { renderImage } from './made-images.ts';
import { renderBlobDetails, detailType, placeMember } from './reasoning-details.ts';
import { extras } from './extras.ts';
import { callMembers, signatureMembers } from './tool-call.ts';

/** An item that is being written. */
interface OpenItem {
  /** The item's index among the calls, or among the reasoning blocks, of the choice. */
  readonly index: number;
  /** The form of a call; `legacy` is the deprecated `function_call`. Undefined for other items. */
  readonly callForm: 'function' | 'custom' | 'legacy' | undefined;
  /** Members that only Chat has, and the position of the reasoning. */
  readonly extra: JsonObject;
  /** The item's extra, whatever its protocol. */
  readonly itemExtra: Extra | undefined;
  /** Holds back half of a surrogate pair until the other half comes; it belongs to the kind of the last delta. */
  readonly gate: SurrogateGate;
  deltaKind: DeltaKind;
  /** The reasoning so far, for an envelope that must contain it. */
  readonly reasoning: Part[];
  /** The item's blobs. They are sent at its end, because their form depends on all of them. */
  readonly blobs: Opaque[];
  /** True until some of the text or of the arguments was sent. */
  empty: boolean;
}

/** Renders the chunks of one choice. A chunk is a constant beginning, the JSON of the new content, and a constant end. */
export class ChoiceRenderer {
  readonly #frame: ChunkFrame;
  readonly #legacyFunctions: boolean;
  readonly #index: number;
  readonly #beforeText: string;
  readonly #afterText: string;
  readonly #items = new Map<number, OpenItem>();
  #begun = false;
  #calls = 0;
  #reasoningItems = 0;
  #images = 0;
  /** UTF-16 units of the text so far. */
  #textLength = 0;
  #finished: Finished | undefined;
  /** Unknown members that wait for the next chunk, with a comma before each: those of the choice, and those of its delta. */
  #choiceMembers = '';
  #deltaMembers = '';

  constructor(index: number, frame: ChunkFrame, legacyFunctions: boolean) {
    this.#index = index;
    this.#frame = frame;
    this.#legacyFunctions = legacyFunctions;
    this.#beforeText = `${frame.head}{"index":${index},"delta":{"content":`;
    this.#afterText = `},"logprobs":null,"finish_reason":null}${frame.tail}`;
  }

  /** Writes the chunk with the role, the first one of a choice. */
  begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.#chunk('"role":"assistant","content":"","refusal":null');
  }

  push(event: GenerationEvent['event']): void {
    this.begin();
    switch (event.case) {
      case 'itemOpened':
        this.#open(event.value.item, event.value.content);
        break;
      case 'delta':
        this.#delta(event.value);
        break;
      case 'partOpened':
        this.#openPart(this.#item(event.value.item), event.value.content);
        break;
      case 'annotationAdded': {
        const annotation = event.value.annotation === undefined ? undefined : renderAnnotation(event.value.annotation);
        if (annotation !== undefined) this.#chunk(`"annotations":[${exactText(annotation)}]`);
        break;
      }
      case 'opaqueAdded':
        if (event.value.opaque !== undefined) this.#addOpaque(this.#item(event.value.item), event.value.opaque);
        break;
      case 'partClosed':
        this.#closePart(this.#item(event.value.item));
        break;
      case 'itemClosed':
        this.#closeItem(event.value.item, event.value.status);
        break;
      case 'finished':
        this.#finished = event.value;
        break;
      default:
    }
  }

  /** Keeps unknown members for the next chunk. If others already wait, those are first sent in a separate chunk. */
  extend(scope: ExtensionScope, members: string): void {
    const taken = scope === ExtensionScope.DELTA ? this.#deltaMembers : this.#choiceMembers;
    if (taken !== '') this.flush();
    if (scope === ExtensionScope.DELTA) this.#deltaMembers = members;
    else this.#choiceMembers = members;
  }

  /** Writes a chunk with unknown members of a call that has begun. */
  extendCall(number: number, members: JsonObject): void {
    const item = this.#items.get(number);
    if (item?.callForm === 'legacy' || item?.callForm === undefined) return;
    this.#chunk(`"tool_calls":[${exactText({ index: item.index, ...members })}]`);
  }

  /** Writes a chunk with the image of an item, if it has one. */
  addImage(item: Pick<ServerTool, 'protocol' | 'json'>): void {
    const image = renderImage(item, this.#images);
    if (image === undefined) return;
    this.#images += 1;
    this.#chunk(`"images":[${exactText(image)}]`);
  }

  /** Writes a chunk with only the waiting unknown members. */
  flush(): void {
    this.begin();
    this.#chunk('');
  }

  /** Writes the chunk with the finish reason, if the choice has finished; `members` are added to that chunk. */
  finish(members: string): void {
    if (this.#finished === undefined) return;
    if (this.#deltaMembers !== '') this.flush();
    const reason = renderFinishReason(this.#finished, this.#calls > 0);
    const shown = this.#legacyFunctions && reason === 'tool_calls' ? 'function_call' : reason;
    const choice = `{"index":${this.#index},"delta":{},"logprobs":null,"finish_reason":${JSON.stringify(shown)}${this.#choiceMembers}}`;
    this.#choiceMembers = '';
    this.#frame.writeChoice(choice, members);
  }

  #chunk(delta: string, logprobs = 'null'): void {
    const members = delta === '' ? this.#deltaMembers.slice(1) : delta + this.#deltaMembers;
    const choice = `{"index":${this.#index},"delta":{${members}},"logprobs":${logprobs},"finish_reason":null${this.#choiceMembers}}`;
    this.#deltaMembers = '';
    this.#choiceMembers = '';
    this.#frame.writeChoice(choice);
  }

  #textChunk(text: string): void {
    const waits = this.#deltaMembers !== '' || this.#choiceMembers !== '' || this.#frame.hasMembers;
    const json = JSON.stringify(text);
    if (waits) this.#chunk(`"content":${json}`);
    else this.#frame.write(this.#beforeText + json + this.#afterText);
  }

  #item(number: number): OpenItem {
    const item = this.#items.get(number);
    assert(item !== undefined, `item ${number} is not open`);
    return item;
  }

  #open(number: number, item: Item | undefined): void {
    assert(item !== undefined, 'an item opened without content');
    const { content } = item;
    const isCall = content.case === 'toolCall';
    const index = isCall ? this.#calls : this.#reasoningItems;
    const open: OpenItem = {
      index,
      callForm: isCall ? this.#callForm(content.value.kind) : undefined,
      extra: content.case === 'reasoning' ? this.#reasoningMembers(item) : {},
      itemExtra: item.extra,
      gate: new SurrogateGate(),
      reasoning: [],
      blobs: [],
      deltaKind: DeltaKind.UNSPECIFIED,
      empty: true,
    };
    this.#items.set(number, open);
    if (content.case === 'reasoning') this.#reasoningItems += 1;
    if (content.case === 'serverTool') this.addImage(content.value);
    if (!isCall) return;
    this.#calls += 1;
    if (open.callForm === 'legacy') {
      const { name } = content.value;
      if (index === 0) this.#chunk(`"function_call":${JSON.stringify({ name, arguments: '' })}`);
    } else {
      const start = { index, ...callMembers(item, content.value, '') };
      this.#chunk(`"tool_calls":[${exactText(start)}]`);
    }
  }

  #openPart({ reasoning }: OpenItem, part: Part | undefined): void {
    if (part?.content.case === 'summaryText') reasoning.push(makePart(summaryTextContent('')));
    else if (part?.content.case === 'reasoningText') reasoning.push(makePart(reasoningTextContent('')));
  }

  #reasoningMembers({ extra }: Item): JsonObject {
    return { ...extras.members(extra), ...placeMember({ calls: this.#calls, text: this.#textLength }) };
  }

  #callForm(kind: ToolKind): OpenItem['callForm'] {
    if (kind === ToolKind.CUSTOM) return 'custom';
    return this.#legacyFunctions ? 'legacy' : 'function';
  }

  #addOpaque(item: OpenItem, opaque: Opaque): void {
    if (item.callForm === undefined) {
      item.blobs.push(opaque);
      return;
    }
    const signed = signatureMembers(opaque);
    if (signed === undefined || item.callForm === 'legacy') return;
    this.#chunk(`"tool_calls":[${JSON.stringify({ index: item.index, ...signed })}]`);
  }

  #delta({ item: number, kind, text, logprobs }: Delta): void {
    const item = this.#item(number);
    item.deltaKind = kind;
    if (kind === DeltaKind.TEXT) this.#textLength += text.length;
    const last = item.reasoning.at(-1)?.content;
    if (last?.case === 'reasoningText' || last?.case === 'summaryText') last.value.text += text;
    const ready = item.gate.push(text);
    if (logprobs.length > 0) {
      item.empty = false;
      this.#scoredChunk(kind, ready, logprobs);
    } else if (ready !== '') this.#send(item, ready);
  }

  #scoredChunk(kind: DeltaKind, text: string, logprobs: readonly TokenLogprob[]): void {
    const tokens = JSON.stringify(renderTokens(logprobs));
    if (kind === DeltaKind.REFUSAL) {
      return this.#chunk(`"refusal":${JSON.stringify(text)}`, `{"content":null,"refusal":${tokens}}`);
    }
    this.#chunk(`"content":${JSON.stringify(text)}`, `{"content":${tokens},"refusal":null}`);
  }

  #send(item: OpenItem, text: string): void {
    item.empty = false;
    if (item.deltaKind === DeltaKind.TEXT) this.#textChunk(text);
    else this.#otherChunk(item, text);
  }

  #otherChunk(item: OpenItem, text: string): void {
    const json = JSON.stringify(text);
    switch (item.deltaKind) {
      case DeltaKind.REFUSAL:
        return this.#chunk(`"refusal":${json}`);
      case DeltaKind.ARGUMENTS:
        return this.#argumentsChunk(item, json);
      case DeltaKind.REASONING: {
        const entry = exactText({ type: detailType.text, text, ...item.extra, index: item.index });
        return this.#chunk(`"reasoning_content":${json},"reasoning_details":[${entry}]`);
      }
      case DeltaKind.SUMMARY: {
        const entry = exactText({ type: detailType.summary, summary: text, ...item.extra, index: item.index });
        return this.#chunk(`"reasoning_content":${json},"reasoning_details":[${entry}]`);
      }
      default:
    }
  }

  #argumentsChunk({ callForm, index }: OpenItem, json: string): void {
    switch (callForm) {
      case 'custom':
        return this.#chunk(`"tool_calls":[{"index":${index},"custom":{"input":${json}}}]`);
      case 'legacy':
        // The deprecated form can express only one call.
        if (index === 0) this.#chunk(`"function_call":{"arguments":${json}}`);
        break;
      default:
        return this.#chunk(`"tool_calls":[{"index":${index},"function":{"arguments":${json}}}]`);
    }
  }

  #closePart(item: OpenItem): void {
    const rest = item.gate.end();
    if (rest !== '') this.#send(item, rest);
  }

  #closeItem(number: number, status: ItemStatus): void {
    const item = this.#item(number);
    this.#closePart(item);
    this.#items.delete(number);
    for (const blob of renderBlobDetails(item.blobs, { parts: item.reasoning, extra: item.itemExtra })) {
      const entry = { ...blob, ...item.extra, index: item.index };
      this.#chunk(`"reasoning_details":[${exactText(entry)}]`);
    }
    const isFunction = item.callForm === 'function' || item.callForm === 'legacy';
    if (!isFunction || !item.empty || status === ItemStatus.INCOMPLETE) return;
    // Strict clients refuse a call without any arguments (translation case TS-10).
    this.#argumentsChunk(item, '"{}"');
  }
}
