import { type Extra, type Item, ItemStatus, type Part, Protocol, Role } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, ExtensionScope, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { exactText } from '../../lib/exact-json.ts';
import * as emit from '../../generation/events.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import type { JsonObject } from '../codec.ts';
import * as make from '../content.ts';
import { extend } from '../extras.ts';
import { objectIn, objectsIn, textIn, unknownMembers } from '../json.ts';
import { makeCallId } from './call-id.ts';
import { extras } from './extras.ts';
import { isFailure, parseFinishReason } from './finish-reason.ts';
import { parseLogprobs } from './logprobs.ts';
import { GroundingReader } from './read-grounding.ts';
import { partSignatureKind, reasoningSignatureKind } from './signature.ts';

/** The facts about the answer that a candidate's parser needs. */
export interface CandidateContext {
  readonly index: number;
  readonly provider: string;
  /** Returns the upstream's id of the answer, from which missing call ids are derived. */
  readonly answerId: () => string;
}

/**
 * Parses one candidate of an upstream's answer. The protocol does not mark items: an item of reasoning or text lasts until another kind of
 * part arrives; a call arrives whole. Source: docs/providers.md "The Gemini protocol"; translation cases GE-01, GE-04, RE-22, FI-11, FI-14.
 */
export class CandidateParser {
  readonly #context: CandidateContext;
  readonly #grounding = new GroundingReader();
  #items = 0;
  #calls = 0;
  #open: 'text' | 'reasoning' | undefined;
  /** The members of the chunk with the finish reason that only this protocol has. */
  #lastMembers: Extra | undefined;
  /** The latest finish reason; undefined until the first one. */
  #reason: FinishReason | undefined;

  constructor(context: CandidateContext) {
    this.#context = context;
  }

  get isFinished(): boolean {
    return this.#reason !== undefined;
  }

  get hasContent(): boolean {
    return this.#items > 0;
  }

  /** Ends the candidate at the end of a complete answer, with the finish reason that its content implies if it has none. */
  end(events: GenerationEvent[]): void {
    this.#closeOpen(statusAt(this.#reason), events);
    if (!this.isFinished) this.#emitFinished(parseFinishReason('STOP', this.#calls > 0), '', events);
    extend(events, this.#context.index, ExtensionScope.CHOICE, this.#lastMembers);
  }

  /** Reads the candidate's part of one chunk. Content after a finish reason continues the answer, and the last finish reason counts. */
  push(candidate: JsonObject, events: GenerationEvent[]): void {
    const { index } = this.#context;
    const content = objectIn(candidate['content']) ?? {};
    const parts = objectsIn(content['parts']);
    const reason = textIn(candidate['finishReason']);
    const isLast = reason !== '' && reason !== 'FINISH_REASON_UNSPECIFIED';
    const members = extras.unknown(candidate, known);
    // What comes with the finish reason is about the end.
    if (isLast) this.#lastMembers = members;
    else extend(events, index, ExtensionScope.CHOICE, members);
    extend(events, index, ExtensionScope.DELTA, extras.unknown(content, knownContentMembers));
    this.#grounding.read(objectIn(candidate['groundingMetadata']));
    const logprobs = parseLogprobs(candidate['logprobsResult']);
    for (const part of parts) {
      const isText = part['thought'] !== true && textIn(part['text']) !== '';
      this.#part(part, events, isText ? logprobs.splice(0) : []);
    }
    if (!isLast) return;
    this.#handleFinishReason(reason, textIn(candidate['finishMessage']), events);
  }

  /** Emits the finish of a blocked prompt, for which the upstream sends no candidate. */
  block(native: string, events: GenerationEvent[]): void {
    if (this.isFinished) return;
    this.#emitFinished(FinishReason.CONTENT_FILTER, native, events);
  }

  #part(part: JsonObject, events: GenerationEvent[], logprobs: ReturnType<typeof parseLogprobs>): void {
    const signature = textIn(part['thoughtSignature']);
    const call = objectIn(part['functionCall']);
    if (call !== undefined) {
      this.#call(part, call, events);
      return;
    }
    if (!isTextPart(part)) {
      this.#closeOpen(ItemStatus.COMPLETED, events);
      const item = this.#nextItem();
      events.push(emit.itemOpened(this.#context.index, item, make.makeItem(extras.serverTool(part), 0)));
      events.push(emit.itemClosed(this.#context.index, item));
      return;
    }
    const text = textIn(part['text']);
    if (text === '' && signature === '' && unknownMembers(part, knownPartMembers) === undefined) return;
    const kind = part['thought'] === true ? 'reasoning' : 'text';
    this.#begin(kind, events);
    this.#extendPart(part, events);
    this.#write(kind, text, events, logprobs);
    if (signature !== '') this.#sign(kind, signature, events);
  }

  /** Opens an item for a kind of text, unless the last one is still open. */
  #begin(kind: 'text' | 'reasoning', events: GenerationEvent[]): void {
    if (this.#open === kind) return;
    const { index } = this.#context;
    this.#closeOpen(ItemStatus.COMPLETED, events);
    const [item, part] = kind === 'text' ? emptyMessage() : emptyReasoning();
    this.#open = kind;
    if (kind === 'text') this.#grounding.beginPart();
    events.push(emit.itemOpened(index, this.#nextItem(), item), emit.partOpened(index, [this.#items - 1, 0], part));
  }

  /** Passes on the members of a part that only this protocol has, before its content. */
  #extendPart(part: JsonObject, events: GenerationEvent[], call?: JsonObject): void {
    const inCall = call && unknownMembers(call, knownCallMembers);
    const all = { ...unknownMembers(part, knownPartMembers), ...(inCall && { functionCall: inCall }) };
    if (Object.keys(all).length === 0) return;
    const event = emit.extension(this.#context.index, ExtensionScope.DELTA, extras.of(all));
    if (event.event.case === 'extension') event.event.value.item = this.#items - 1;
    events.push(event);
  }

  #write(
    kind: 'text' | 'reasoning',
    text: string,
    events: GenerationEvent[],
    logprobs: ReturnType<typeof parseLogprobs>,
  ): void {
    const { index } = this.#context;
    if (text === '') return;
    const deltaKind = kind === 'text' ? DeltaKind.TEXT : DeltaKind.SUMMARY;
    if (kind === 'text') this.#grounding.addText(text);
    events.push(emit.delta(index, [this.#items - 1, 0], { kind: deltaKind, text, logprobs }));
  }

  /** Adds the citations of the text that is open. `isLast`: the candidate ends. */
  #cite(isLast: boolean, events: GenerationEvent[]): void {
    if (this.#open !== 'text') return;
    const { index } = this.#context;
    for (const citation of this.#grounding.take(isLast)) {
      events.push(emit.annotationAdded(index, [this.#items - 1, 0], citation));
    }
  }

  /** Adds a signature and closes its item, because the signature does not cover later content. */
  #sign(kind: 'text' | 'reasoning', data: string, events: GenerationEvent[]): void {
    const { index, provider } = this.#context;
    const item = this.#items - 1;
    const blob = make.makeOpaque(kind === 'text' ? partSignatureKind : reasoningSignatureKind, data, provider);
    const added = emit.opaqueAdded(index, item, blob);
    if (kind === 'text' && added.event.case === 'opaqueAdded') added.event.value.part = 0;
    events.push(added);
    this.#closeOpen(ItemStatus.COMPLETED, events);
  }

  #call(part: JsonObject, call: JsonObject, events: GenerationEvent[]): void {
    const signature = textIn(part['thoughtSignature']);
    const { index, provider, answerId } = this.#context;
    this.#closeOpen(ItemStatus.COMPLETED, events);
    const name = textIn(call['name']);
    const args = exactText(objectIn(call['args']) ?? {});
    const callId = textIn(call['id']) || makeCallId(answerId(), `${index} ${this.#calls} ${name} ${args}`);
    this.#calls += 1;
    const signed = signature === '' ? {} : { signature: make.makeOpaque(partSignatureKind, signature, provider) };
    const item = this.#nextItem();
    events.push(emit.itemOpened(index, item, make.makeItem(make.toolCallContent({ callId, name, ...signed }), 0)));
    this.#extendPart(part, events, call);
    events.push(emit.delta(index, [item, 0], { kind: DeltaKind.ARGUMENTS, text: args }), emit.itemClosed(index, item));
  }

  #nextItem(): number {
    this.#items += 1;
    return this.#items - 1;
  }

  #closeOpen(status: ItemStatus, events: GenerationEvent[]): void {
    if (this.#open === undefined) return;
    this.#cite(false, events);
    this.#open = undefined;
    const item = this.#items - 1;
    events.push(emit.partClosed(this.#context.index, [item, 0]), emit.itemClosed(this.#context.index, item, status));
  }

  #handleFinishReason(native: string, message: string, events: GenerationEvent[]): void {
    if (isFailure(native, this.#items === 0)) {
      const fields = message === '' ? {} : { message: message.slice(0, 2_000) };
      throw new UpstreamFailure('reported', { ...fields, cause: new Error(`finishReason ${native}`) });
    }
    this.#emitFinished(parseFinishReason(native, this.#calls > 0), native, events);
  }

  #emitFinished(reason: FinishReason, native: string, events: GenerationEvent[]): void {
    this.#cite(true, events);
    this.#closeOpen(statusAt(reason), events);
    events.push(emit.finished(this.#context.index, reason, { native, protocol: Protocol.GEMINI }));
    this.#reason = reason;
  }
}

/** The members of a candidate that other events have. */
const known = new Set(['content', 'finishReason', 'index']);
const knownContentMembers = new Set(['parts', 'role']);
const knownPartMembers = new Set(['text', 'thought', 'thoughtSignature', 'functionCall']);
const knownCallMembers = new Set(['id', 'name', 'args']);

/** Returns whether a part has text or a signature. Others, as those of the upstream's own tools, are carried unchanged, and sent back in the next request. */
function isTextPart(part: JsonObject): boolean {
  return typeof part['text'] === 'string' || Object.keys(part).every(name => knownPartMembers.has(name));
}

/** Returns the status of an item that is open when its candidate ends. */
function statusAt(reason: FinishReason | undefined): ItemStatus {
  const wasCut = reason === FinishReason.LENGTH || reason === FinishReason.CONTENT_FILTER;
  return wasCut ? ItemStatus.INCOMPLETE : ItemStatus.COMPLETED;
}

function emptyMessage(): [Item, Part] {
  return [make.makeItem(make.messageContent(Role.ASSISTANT, []), 0), make.makePart(make.textContent(''))];
}

/** Returns a reasoning item and its part, which is a summary: Gemini returns reasoning as summaries. */
function emptyReasoning(): [Item, Part] {
  return [make.makeItem(make.reasoningContent({}), 0), make.makePart(make.summaryTextContent(''))];
}
