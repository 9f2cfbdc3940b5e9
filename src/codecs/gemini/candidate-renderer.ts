import assert from 'node:assert/strict';
import {
  type Extra,
  type Item,
  ItemStatus,
  type MediaSource,
  type Opaque,
  type Part,
  type ServerTool,
  type TokenLogprob,
  ToolKind,
} from '../../gen/tollgate/v1/content_pb.ts';
import {
  type AnnotationAdded,
  type Delta,
  DeltaKind,
  type Finished,
  type GenerationEvent,
  type OpaqueAdded,
} from '../../gen/tollgate/v1/event_pb.ts';
import { readMadeImage } from '../../generation/made-image.ts';
import { SurrogateGate } from '../../lib/surrogates.ts';
import type { JsonObject } from '../codec.ts';
import { makePart, reasoningTextContent, summaryTextContent } from '../content.ts';
import { exactJson, objectIn } from '../json.ts';
import { madeCallId } from './call-id.ts';
import { extras } from './extras.ts';
import { Grounding } from './render-citations.ts';
import { renderFinishReason } from './render-finish.ts';
import { renderLogprobs } from './render-logprobs.ts';
import { sealReasoning } from './sealed-signature.ts';
import { partSignatureKind, reasoningSignatureKind } from './signature.ts';

/** An item that is being rendered. */
interface OpenItem {
  readonly content: Item;
  /** Holds back half of a surrogate pair until the other half comes. */
  readonly gate: SurrogateGate;
  /** The reasoning so far, for the seal. */
  readonly reasoning: Part[];
  readonly blobs: Opaque[];
  /** The kind of the last delta. */
  kind: DeltaKind;
  /** The arguments so far of a call. */
  arguments: string;
  extra: Extra | undefined;
}

/**
 * Renders one candidate: its events become parts, which wait until a chunk takes them. Without chunks, texts of one item become one part. Calls come whole.
 * Source: docs/interfaces/gemini.md "Answer", "Signatures".
 */
export class CandidateRenderer {
  readonly #index: number;
  readonly #showsThoughts: boolean;
  readonly #items = new Map<number, OpenItem>();
  readonly #grounding = new Grounding();
  #parts: JsonObject[] = [];
  /** Members of the candidate and of its content that wait for a chunk. */
  #members: JsonObject = {};
  #contentMembers: JsonObject = {};
  /** Members that wait for the next part. */
  #partMembers: JsonObject | undefined;
  /** The item that the last waiting part belongs to. */
  #lastItem: number | undefined;
  /** The text of the answer, and where the open part begins in it. */
  #text = '';
  #partStart = 0;
  /** A signature for the next part of text or the next call. */
  #seal: string | undefined;
  /** The seal that a text has had, for the first call of the turn too: some clients keep only that. */
  #callSeal: string | undefined;
  #logprobs: TokenLogprob[] = [];
  #logprobSum = 0;
  #logprobCount = 0;
  #hasRefusal = false;
  #hasContent = false;
  /** True if the upstream's own grounding was passed on. */
  #isGrounded = false;
  #finished: Finished | undefined;

  constructor(index: number, showsThoughts: boolean) {
    this.#index = index;
    this.#showsThoughts = showsThoughts;
  }

  /** True if the candidate has had content. */
  get hasContent(): boolean {
    return this.#hasContent;
  }

  /** Adds members that only this protocol has. */
  extend(members: JsonObject): void {
    if (members['groundingMetadata'] !== undefined) this.#isGrounded = true;
    Object.assign(this.#members, members);
  }

  /** Adds members that only this protocol has to the next part of an item, or to the content. */
  extendContent(item: number | undefined, members: JsonObject): void {
    if (item === undefined) Object.assign(this.#contentMembers, members);
    else this.#partMembers = members;
  }

  push(event: GenerationEvent['event']): void {
    switch (event.case) {
      case 'itemOpened':
        return this.#open(event.value.item, event.value.content);
      case 'partOpened':
        return this.#openPart(event.value.item, event.value.content);
      case 'delta':
        return this.#delta(event.value);
      case 'annotationAdded':
        return this.#annotate(event.value);
      case 'opaqueAdded':
        return this.#addOpaque(event.value);
      case 'partClosed':
        this.#flushText(event.value.item);
        this.#grounding.endPart(this.#text.length);
        return;
      case 'itemClosed':
        return this.#close(event.value.item, event.value.status);
      case 'finished':
        this.#finished = event.value;
        break;
      default:
    }
  }

  /** Returns what waits as a candidate of a chunk, of the last one if `isLast`; undefined if nothing does. */
  take(isLast = false): JsonObject | undefined {
    // Members that come after the finish reason, such as its message, belong into the same chunk.
    const members = isLast || this.#finished === undefined ? this.#members : {};
    const contentMembers = this.#contentMembers;
    if (this.#logprobs.length > 0) members['logprobsResult'] ??= renderLogprobs(this.#logprobs);
    const hasContent = this.#parts.length > 0 || Object.keys(contentMembers).length > 0;
    if (!hasContent && Object.keys(members).length === 0) return undefined;
    const parts = this.#parts;
    this.#contentMembers = {};
    this.#parts = [];
    if (members === this.#members) this.#members = {};
    this.#logprobs = [];
    this.#lastItem = undefined;
    const content = hasContent ? { content: { role: 'model', parts, ...contentMembers } } : {};
    return { ...content, ...members, index: this.#index };
  }

  /** Returns the last candidate, with the finish reason and what waits. */
  finish(): JsonObject {
    assert(this.#finished !== undefined, `candidate ${this.#index} never finished`);
    this.#flushSeal();
    const grounding = this.#grounding.render(this.#text);
    if (grounding !== undefined && !this.#isGrounded) this.#members['groundingMetadata'] = grounding;
    if (this.#logprobCount > 0) this.#members['avgLogprobs'] ??= this.#logprobSum / this.#logprobCount;
    const { content, ...members } = this.take(true) ?? {};
    return {
      content: content ?? { role: 'model', parts: [] },
      finishReason: renderFinishReason(this.#finished, this.#hasRefusal),
      ...members,
      index: this.#index,
    };
  }

  #item(number: number): OpenItem {
    const item = this.#items.get(number);
    assert(item !== undefined, `item ${number} is not open`);
    return item;
  }

  #open(number: number, content: Item | undefined): void {
    assert(content !== undefined, 'an item opened without content');
    const gate = new SurrogateGate();
    const { extra } = content;
    const texts = { kind: DeltaKind.UNSPECIFIED, arguments: '', extra };
    this.#items.set(number, { content, gate, reasoning: [], blobs: [], ...texts });
    if (content.content.case !== 'serverTool') return;
    const own = extras.own(content.content.value) ?? toImagePart(content.content.value);
    if (own !== undefined) this.#push(own, number);
  }

  /** Adds the image of an item of a tool that another provider ran, if it has one. */
  addImage(number: number, item: Pick<ServerTool, 'protocol' | 'json'>): void {
    const image = toImagePart(item);
    if (image !== undefined) this.#push(image, number);
  }

  #openPart(number: number, part: Part | undefined): void {
    const { reasoning } = this.#item(number);
    this.#partStart = this.#text.length;
    switch (part?.content.case) {
      case 'summaryText':
        reasoning.push(makePart(summaryTextContent('')));
        return;
      case 'reasoningText':
        reasoning.push(makePart(reasoningTextContent('')));
        return;
      case 'image':
      case 'audio':
      case 'video':
      case 'file': {
        const media = renderMedia(part.content.value.source);
        if (media !== undefined) this.#push(media, number);
        break;
      }
      default:
    }
  }

  #delta({ item: number, kind, text, logprobs }: Delta): void {
    const item = this.#item(number);
    item.kind = kind;
    if (kind === DeltaKind.ARGUMENTS) {
      item.arguments += text;
      return;
    }
    if (kind === DeltaKind.REFUSAL) this.#hasRefusal = true;
    const last = item.reasoning.at(-1)?.content;
    if (last?.case === 'reasoningText' || last?.case === 'summaryText') last.value.text += text;
    for (const token of logprobs) {
      this.#logprobs.push(token);
      this.#logprobSum += token.logprob;
      this.#logprobCount += 1;
    }
    const ready = item.gate.push(text);
    if (ready !== '') this.#writeText(number, kind, ready);
  }

  #writeText(number: number, kind: DeltaKind, text: string): void {
    const isThought = kind === DeltaKind.REASONING || kind === DeltaKind.SUMMARY;
    if (isThought && !this.#showsThoughts) {
      this.#partMembers = undefined;
      return;
    }
    const last = this.#lastPart(number);
    if (!isThought) this.#text += text;
    if (last !== undefined && typeof last['text'] === 'string') {
      last['text'] += text;
      return;
    }
    this.#push(isThought ? { text, thought: true } : { text, ...this.#takeSeal(false) }, number);
  }

  #flushText(number: number): void {
    const item = this.#item(number);
    const rest = item.gate.end();
    if (rest !== '') this.#writeText(number, item.kind, rest);
  }

  #annotate({ annotation }: AnnotationAdded): void {
    if (annotation !== undefined) this.#grounding.add(annotation, this.#partStart);
  }

  #addOpaque({ item: number, opaque }: OpaqueAdded): void {
    if (opaque === undefined) return;
    const item = this.#item(number);
    if (item.content.content.case === 'message' && opaque.kind === partSignatureKind) {
      return this.#sign(number, opaque.data);
    }
    if (item.content.content.case !== 'compaction') item.blobs.push(opaque);
  }

  /** Puts Google's own signature on the text that it came with. */
  #sign(number: number, thoughtSignature: string): void {
    const last = this.#lastPart(number);
    if (last !== undefined && last['thoughtSignature'] === undefined) last['thoughtSignature'] = thoughtSignature;
    else this.#push({ text: '', thoughtSignature }, number);
  }

  #close(number: number, status: ItemStatus): void {
    this.#flushText(number);
    const item = this.#item(number);
    this.#items.delete(number);
    const { content } = item.content;
    if (this.#partMembers !== undefined && content.case === 'message') this.#push({ text: '' }, number);
    if (content.case === 'toolCall') return this.#writeCall(number, item, status);
    if (content.case === 'reasoning') return this.#endReasoning(number, item);
    if (content.case === 'message' && item.blobs.length > 0) this.#setSeal(seal(item));
  }

  /** A call that was cut is left out: a client could run it with missing arguments. */
  #writeCall(number: number, { content: { content }, arguments: text, blobs }: OpenItem, status: ItemStatus): void {
    if (content.case !== 'toolCall' || status === ItemStatus.INCOMPLETE) return;
    const { callId, name, kind, signature = blobs[0] } = content.value;
    const id = callId === '' || madeCallId.test(callId) ? {} : { id: callId };
    const { functionCall: own, ...members } = this.#partMembers ?? {};
    this.#partMembers = members;
    const functionCall = { ...id, name, args: readArguments(kind, text), ...objectIn(own) };
    const native = signature?.kind === partSignatureKind ? { thoughtSignature: signature.data } : undefined;
    this.#push({ functionCall, ...(native ?? this.#takeSeal(true)) }, number);
  }

  #endReasoning(number: number, item: OpenItem): void {
    const { blobs, reasoning } = item;
    const [first] = blobs;
    if (first?.kind === reasoningSignatureKind) {
      const last = this.#lastPart(number);
      if (last === undefined) this.#push({ text: '', thought: true, thoughtSignature: first.data }, number);
      else last['thoughtSignature'] = first.data;
      return;
    }
    if (first?.kind === partSignatureKind) return this.#setSeal(first.data);
    // The seal contains unsigned thoughts too: clients may leave thoughts out, and some providers want them back.
    if (blobs.length > 0 || reasoning.length > 0) this.#setSeal(seal(item));
  }

  #setSeal(signature: string): void {
    this.#flushSeal();
    this.#seal = signature;
    this.#callSeal = undefined;
  }

  /** Returns the waiting signature as a member of the next part. */
  #takeSeal(isCall: boolean): JsonObject {
    const signature = this.#seal ?? (isCall ? this.#callSeal : undefined);
    if (signature === undefined) return {};
    this.#callSeal = isCall ? undefined : signature;
    this.#seal = undefined;
    return { thoughtSignature: signature };
  }

  /** Writes a signature that no part follows. */
  #flushSeal(): void {
    const signature = this.#seal;
    if (signature === undefined) return;
    this.#seal = undefined;
    this.#push({ text: '', thoughtSignature: signature }, undefined);
  }

  /** Returns the waiting part that more of an item belongs to; undefined if there is none, or if members wait for a new part. */
  #lastPart(item: number): JsonObject | undefined {
    return this.#lastItem === item && this.#partMembers === undefined ? this.#parts.at(-1) : undefined;
  }

  #push(part: JsonObject, item: number | undefined): void {
    this.#hasContent = true;
    this.#parts.push({ ...part, ...this.#partMembers });
    this.#partMembers = undefined;
    this.#lastItem = item;
  }
}

function seal({ blobs, reasoning, extra }: OpenItem): string {
  return sealReasoning(blobs, { parts: reasoning, extra });
}

/** Returns the arguments as an object: free text is the member `input`, and text that is no object `_unparsed`. */
function readArguments(kind: ToolKind, text: string): JsonObject {
  if (kind === ToolKind.CUSTOM) return { input: text };
  if (text.trim() === '') return {};
  return objectIn(exactJson(text)) ?? { _unparsed: text };
}

function renderMedia(source: MediaSource | undefined): JsonObject | undefined {
  if (source === undefined) return undefined;
  const { mediaType } = source;
  const type = mediaType === '' ? {} : { mimeType: mediaType };
  switch (source.source.case) {
    case 'base64':
      return { inlineData: { ...type, data: source.source.value } };
    case 'url':
      return { fileData: { ...type, fileUri: source.source.value } };
    default:
      return undefined;
  }
}

function toImagePart(item: Pick<ServerTool, 'protocol' | 'json'>): JsonObject | undefined {
  const image = readMadeImage(item);
  if (image === undefined) return undefined;
  const { mediaType: mimeType, base64: data, url } = image;
  return data === '' ? { fileData: { mimeType, fileUri: url } } : { inlineData: { mimeType, data } };
}
