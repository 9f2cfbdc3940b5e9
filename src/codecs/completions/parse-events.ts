import { ItemStatus, Protocol, Role } from '../../gen/tollgate/v1/content_pb.ts';
import { DeltaKind, ExtensionScope, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import * as emit from '../../generation/events.ts';
import type { Json, JsonObject } from '../codec.ts';
import { makeItem, messageContent, makePart, textContent } from '../content.ts';
import { extend } from '../extras.ts';
import { listIn, objectIn, textIn } from '../json.ts';
import { type ChoiceReader, type ChunkDialect, ChunkParser, parseWholeAnswer } from '../openai-stream.ts';
import { malformed } from '../upstream-error.ts';
import { extras, usage } from './extras.ts';

/** Members of a choice that have a field in our events; all others (`logprobs` too) are passed on to clients of the protocol. */
const knownChoiceMembers = new Set(['index', 'text', 'finish_reason']);

const byNative: Readonly<Record<string, FinishReason>> = {
  stop: FinishReason.STOP,
  length: FinishReason.LENGTH,
  content_filter: FinishReason.CONTENT_FILTER,
};

/** Parses one choice, which is a text. */
class CompletionChoice implements ChoiceReader {
  readonly #index: number;
  #isOpen = false;
  #isClosed = false;
  #native: string | undefined;

  constructor(index: number) {
    this.#index = index;
  }

  get isFinished(): boolean {
    return this.#native !== undefined;
  }

  get hasContent(): boolean {
    return this.#isOpen;
  }

  push(choice: JsonObject, events: GenerationEvent[]): void {
    const text = textIn(choice['text']);
    const carried = choice['logprobs'] === null ? { ...choice, logprobs: undefined } : choice;
    extend(events, this.#index, ExtensionScope.CHOICE, extras.unknown(carried, knownChoiceMembers));
    if (text !== '' && !this.#isClosed) {
      this.#open(events);
      events.push(emit.delta(this.#index, [0, 0], { kind: DeltaKind.TEXT, text }));
    }
    const native = textIn(choice['finish_reason']);
    if (native !== '' && !this.#isClosed) this.#finish(native, events);
  }

  end(events: GenerationEvent[]): void {
    if (!this.isFinished) this.#finish('', events);
  }

  #open(events: GenerationEvent[]): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    events.push(emit.itemOpened(this.#index, 0, makeItem(messageContent(Role.ASSISTANT, []), 0)));
    events.push(emit.partOpened(this.#index, [0, 0], makePart(textContent(''))));
  }

  #finish(native: string, events: GenerationEvent[]): void {
    const reason = native === '' ? FinishReason.STOP : (byNative[native] ?? FinishReason.OTHER);
    const wasCut = reason === FinishReason.LENGTH || reason === FinishReason.CONTENT_FILTER;
    if (this.#isOpen) {
      events.push(emit.partClosed(this.#index, [0, 0]));
      events.push(emit.itemClosed(this.#index, 0, wasCut ? ItemStatus.INCOMPLETE : ItemStatus.COMPLETED));
    }
    const unknown = reason === FinishReason.OTHER ? { protocol: Protocol.COMPLETIONS } : {};
    events.push(emit.finished(this.#index, reason, { native, ...unknown }));
    this.#isClosed = true;
    this.#native = native;
  }
}

const dialect: ChunkDialect = {
  extras,
  usage,
  isPlainChoice: choice =>
    Object.keys(choice).every(
      name => knownChoiceMembers.has(name) || choice[name] === null || choice[name] === undefined,
    ),
  openChoice: ({ index }) => new CompletionChoice(index),
};

/** Returns the parser of a stream. */
export function openStream(provider: string): ChunkParser {
  return new ChunkParser(dialect, provider);
}

/** Parses a whole answer into the events that a stream of it would have given. Throws `UpstreamFailure` `malformed` or `reported`. */
export function parseWhole(body: Json, provider: string): GenerationEvent[] {
  const answer = objectIn(body);
  if (answer === undefined) throw malformed('the answer is not a JSON object');
  return parseWholeAnswer(openStream(provider), { ...answer, choices: [...listIn(answer['choices'])] });
}
