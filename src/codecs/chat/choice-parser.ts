import { ItemStatus, Protocol, Role } from '../../gen/tollgate/v1/content_pb.ts';
import type { Item, Part, TokenLogprob } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, ExtensionScope, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import * as emit from '../../generation/events.ts';
import type { Json, JsonObject } from '../codec.ts';
import * as make from '../content.ts';
import { extend } from '../extras.ts';
import { listIn, objectIn, objectsIn, textIn } from '../json.ts';
import { parseTokens } from '../logprobs.ts';
import type { ChoiceContext, ChoiceReader } from '../openai-stream.ts';
import { malformed } from '../upstream-error.ts';
import { parseAnnotation } from './annotation.ts';
import { toReportedFailure } from '../openai-error.ts';
import { extras } from './extras.ts';
import { parseFinishReason } from './finish-reason.ts';
import { readDetailExtra, readDetailOpaque, type ReasoningDetail } from './reasoning-details.ts';
import { ToolCallsParser } from './tool-calls-parser.ts';

const knownChoiceMembers = new Set(['index', 'delta', 'message', 'finish_reason', 'logprobs', 'usage', 'error']);
const knownDeltaMembers = new Set([
  'role',
  'content',
  'refusal',
  'tool_calls',
  'function_call',
  'reasoning_content',
  'reasoning',
  'reasoning_text',
  'reasoning_details',
  'annotations',
  'images',
]);

/** Returns whether a choice has only known members, and no content except text. */
export function isPlainChoice(choice: JsonObject): boolean {
  for (const name in choice) if (!knownChoiceMembers.has(name) && choice[name] !== null) return false;
  const written = objectIn(choice['delta']) ?? {};
  if (choice['logprobs'] != null || choice['message'] !== undefined) return false;
  for (const name in written) if (!knownDeltaMembers.has(name) || typeof written[name] === 'object') return false;
  return true;
}

type PartKind = (typeof DeltaKind)['TEXT' | 'REFUSAL' | 'REASONING' | 'SUMMARY'];

const emptyPart: Readonly<Record<PartKind, () => Part['content']>> = {
  [DeltaKind.TEXT]: () => make.textContent(''),
  [DeltaKind.REFUSAL]: () => make.refusalContent(''),
  [DeltaKind.REASONING]: () => make.reasoningTextContent(''),
  [DeltaKind.SUMMARY]: () => make.summaryTextContent(''),
};

/** The message or reasoning block that is being written. */
interface OpenItem {
  readonly item: number;
  readonly kind: 'message' | 'reasoning';
  /** The upstream's index of the reasoning block; undefined if it gives none. */
  readonly block: number | undefined;
  parts: number;
  partKind: PartKind | undefined;
}

/**
 * Parses one choice of an upstream's answer. Chat does not mark items: reasoning, text and calls are distinguished by their fields, and each
 * ends when another begins. Content after a finish reason continues the answer, and the last finish reason counts (docs/interfaces/README.md "Finish
 * reasons"). Source: docs/interfaces/chat-completions.md "Stream"; translation cases RE-02, RE-08, RE-25, TS-11, FI-03.
 */
export class ChoiceParser implements ChoiceReader {
  readonly #index: number;
  readonly #context: ChoiceContext;
  /** Undefined until a call comes. */
  #calls: ToolCallsParser | undefined;
  #items = 0;
  #hasDeltas = false;
  #open: OpenItem | undefined;
  /** The upstream's latest finish reason; undefined until the first one. */
  #native: string | undefined;

  constructor(context: ChoiceContext) {
    this.#index = context.index;
    this.#context = context;
  }

  get isFinished(): boolean {
    return this.#native !== undefined;
  }

  get hasContent(): boolean {
    return this.#items > 0 || (this.#calls?.count ?? 0) > 0;
  }

  /**
   * Ends the choice. Throws `UpstreamFailure` `malformed` if its finish reason says that there are tool calls but none came: the client
   * would wait for them (translation case FI-12).
   */
  end(events: GenerationEvent[]): void {
    const calls = this.#calls?.count ?? 0;
    if (this.#native === undefined) {
      this.#close(FinishReason.STOP, events);
      const reason = calls > 0 ? FinishReason.TOOL_CALLS : FinishReason.STOP;
      events.push(emit.finished(this.#index, reason, { native: '' }));
      return;
    }
    const reason = parseFinishReason(this.#native);
    this.#close(reason, events);
    if (reason === FinishReason.TOOL_CALLS && calls === 0) {
      throw malformed(`finish_reason ${this.#native} without a call`);
    }
  }

  push(choice: JsonObject, events: GenerationEvent[]): void {
    if (choice['error'] != null) throw toReportedFailure(choice['error']);
    const delta = objectIn(choice['delta']);
    // Some servers repeat the whole message beside each delta.
    if (delta !== undefined) this.#hasDeltas = true;
    const written = delta ?? (this.#hasDeltas ? undefined : objectIn(choice['message']));
    extend(events, this.#index, ExtensionScope.CHOICE, extras.unknown(choice, knownChoiceMembers));
    const logprobs = objectIn(choice['logprobs']);
    if (written !== undefined) this.#delta(written, logprobs, events);
    const reason = textIn(choice['finish_reason']);
    if (reason !== '') this.#finish(reason, choice, events);
  }

  #delta(written: JsonObject, logprobs: JsonObject | undefined, events: GenerationEvent[]): void {
    extend(events, this.#index, ExtensionScope.DELTA, extras.unknown(written, knownDeltaMembers));
    this.#readReasoning(written, events);
    this.#content(written['content'], tokensIn(logprobs, 'content'), events);
    this.#write(DeltaKind.REFUSAL, textIn(written['refusal']), events, tokensIn(logprobs, 'refusal'));
    const annotations = written['annotations'];
    if (annotations !== undefined) this.#annotate(listIn(annotations), events);
    if (written['images'] != null) this.#images(objectsIn(written['images']), events);
    const calls = written['tool_calls'];
    if (calls != null) this.#pushCalls(listIn(calls), events);
    const legacy = objectIn(written['function_call']);
    if (legacy !== undefined && (this.#calls !== undefined || textIn(legacy['name']) !== '')) {
      this.#pushCalls([{ index: 0, function: legacy }], events);
    }
  }

  #pushCalls(entries: readonly Json[], events: GenerationEvent[]): void {
    this.#calls ??= this.#openCalls();
    this.#calls.push(entries, events);
  }

  #openCalls(): ToolCallsParser {
    const { index, provider, answerId } = this.#context;
    const openItem = (events: GenerationEvent[]): number => {
      this.#closeOpen(ItemStatus.COMPLETED, events);
      return this.#nextItem();
    };
    return new ToolCallsParser({ choice: index, provider, answerId, openItem });
  }

  /** Reads the images that a model made (OpenRouter). */
  #images(images: readonly JsonObject[], events: GenerationEvent[]): void {
    for (const image of images) {
      this.#closeOpen(ItemStatus.COMPLETED, events);
      const item = this.#nextItem();
      events.push(emit.itemOpened(this.#index, item, make.makeItem(extras.serverTool(image), 0)));
      events.push(emit.itemClosed(this.#index, item));
    }
  }

  #annotate(annotations: readonly Json[], events: GenerationEvent[]): void {
    for (const value of annotations) {
      const annotation = objectIn(value);
      if (annotation === undefined) continue;
      const open = this.#openPart('message', DeltaKind.TEXT, events);
      events.push(emit.annotationAdded(this.#index, [open.item, open.parts - 1], parseAnnotation(annotation)));
    }
  }

  #readReasoning(written: JsonObject, events: GenerationEvent[]): void {
    if (written['reasoning_details'] !== undefined) {
      const details = listIn(written['reasoning_details'])
        .map(objectIn)
        .filter(each => each !== undefined);
      for (const detail of details) this.#detail(detailIn(detail), events);
      // Providers that send both members put the same text into both.
      if (details.some(detail => textIn(detail['text']) !== '' || textIn(detail['summary']) !== '')) return;
    }
    const text =
      textIn(written['reasoning_content']) || textIn(written['reasoning']) || textIn(written['reasoning_text']);
    this.#write(DeltaKind.REASONING, text, events);
  }

  #detail(detail: ReasoningDetail, events: GenerationEvent[]): void {
    const opaque = readDetailOpaque(detail, this.#context.provider);
    const text = detail.text ?? '';
    const summary = detail.summary ?? '';
    if (opaque === undefined && text === '' && summary === '') return;
    const block = detail.index ?? undefined;
    if (this.#open?.kind !== 'reasoning' || (block !== undefined && this.#open.block !== block)) {
      const redacted = opaque?.kind === 'anthropic.redacted';
      this.#openItem(
        'reasoning',
        make.makeItem(make.reasoningContent({ redacted }), 0, readDetailExtra(detail, opaque)),
        events,
        block,
      );
    }
    this.#write(DeltaKind.SUMMARY, summary, events);
    this.#write(DeltaKind.REASONING, text, events);
    if (opaque !== undefined && this.#open !== undefined)
      events.push(emit.opaqueAdded(this.#index, this.#open.item, opaque));
  }

  /** Parses content: a text, or a list of parts, which some providers send. */
  #content(content: Json | undefined, logprobs: TokenLogprob[] | undefined, events: GenerationEvent[]): void {
    if (!Array.isArray(content)) return this.#write(DeltaKind.TEXT, textIn(content), events, logprobs);
    for (const value of content) {
      const part = objectIn(value);
      if (part?.['type'] === 'thinking') {
        const pieces = listIn(part['thinking']).map(piece => textIn(objectIn(piece)?.['text']));
        this.#write(DeltaKind.REASONING, textIn(part['thinking']) || pieces.join(''), events);
      } else this.#write(DeltaKind.TEXT, textIn(part?.['text']), events, logprobs);
    }
  }

  #write(kind: PartKind, text: string, events: GenerationEvent[], logprobs?: TokenLogprob[]): void {
    if (text === '' && (logprobs === undefined || logprobs.length === 0)) return;
    const isReasoning = kind === DeltaKind.REASONING || kind === DeltaKind.SUMMARY;
    const { item, parts } = this.#openPart(isReasoning ? 'reasoning' : 'message', kind, events);
    const added = logprobs === undefined ? { kind, text } : { kind, text, logprobs };
    events.push(emit.delta(this.#index, [item, parts - 1], added));
  }

  #openPart(kind: OpenItem['kind'], partKind: PartKind, events: GenerationEvent[]): OpenItem {
    let open = this.#open;
    if (open?.kind !== kind) {
      const content = kind === 'message' ? make.messageContent(Role.ASSISTANT, []) : make.reasoningContent({});
      open = this.#openItem(kind, make.makeItem(content, 0), events);
    }
    if (open.partKind === partKind) return open;
    this.#closePart(open, events);
    open.partKind = partKind;
    open.parts += 1;
    events.push(emit.partOpened(this.#index, [open.item, open.parts - 1], make.makePart(emptyPart[partKind]())));
    return open;
  }

  #openItem(kind: OpenItem['kind'], content: Item, events: GenerationEvent[], block?: number): OpenItem {
    this.#calls?.closeWhole(events);
    this.#closeOpen(ItemStatus.COMPLETED, events);
    const open: OpenItem = { item: this.#nextItem(), kind, block, parts: 0, partKind: undefined };
    this.#open = open;
    events.push(emit.itemOpened(this.#index, open.item, content));
    return open;
  }

  #nextItem(): number {
    this.#items += 1;
    return this.#items - 1;
  }

  #closePart(open: OpenItem, events: GenerationEvent[]): void {
    if (open.partKind !== undefined) events.push(emit.partClosed(this.#index, [open.item, open.parts - 1]));
  }

  #closeOpen(status: ItemStatus, events: GenerationEvent[]): void {
    if (this.#open === undefined) return;
    this.#closePart(this.#open, events);
    events.push(emit.itemClosed(this.#index, this.#open.item, status));
    this.#open = undefined;
  }

  #close(reason: FinishReason, events: GenerationEvent[]): void {
    const wasCut = reason === FinishReason.LENGTH || reason === FinishReason.CONTENT_FILTER;
    this.#closeOpen(wasCut ? ItemStatus.INCOMPLETE : ItemStatus.COMPLETED, events);
    this.#calls?.finish(wasCut, events);
  }

  #finish(native: string, choice: JsonObject, events: GenerationEvent[]): void {
    if (native === 'error') throw toReportedFailure(choice['error'] ?? null);
    const reason = parseFinishReason(native);
    this.#close(reason, events);
    const matched = reason === FinishReason.STOP ? matchedStopIn(choice) : '';
    // Some servers repeat the finish reason in the chunk with the usage.
    if (native === this.#native && matched === '') return;
    const unknown = reason === FinishReason.OTHER ? { protocol: Protocol.CHAT } : {};
    const stop = matched === '' ? {} : { matchedStop: matched };
    events.push(emit.finished(this.#index, reason, { native, ...stop, ...unknown }));
    this.#native = native;
  }
}

/** Returns the log probabilities of a delta's text; undefined if it has none, which is usual. */
function tokensIn(logprobs: JsonObject | undefined, member: 'content' | 'refusal'): TokenLogprob[] | undefined {
  return logprobs === undefined ? undefined : parseTokens(logprobs[member]);
}

/**
 * Returns the matched stop sequence that the server reports (vLLM, SGLang, llama.cpp; translation case EF-13); '' if it reports
 * none.
 */
function matchedStopIn(choice: JsonObject): string {
  return textIn(choice['stop_reason']) || textIn(choice['matched_stop']) || textIn(choice['stopping_word']);
}

/** Returns an entry of `reasoning_details`, without known members whose values have a wrong type. */
function detailIn(detail: JsonObject): ReasoningDetail {
  const { index, ...rest } = detail;
  for (const name of ['type', 'text', 'summary', 'data', 'signature', 'format']) {
    if (typeof rest[name] !== 'string') delete rest[name];
  }
  return { ...rest, ...(typeof index === 'number' ? { index } : {}) };
}
