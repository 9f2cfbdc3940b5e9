import { ExtensionScope, type GenerationEvent, type Usage } from '../gen/tollgate/v1/event_pb.ts';
import { started, usageReported } from '../generation/events.ts';
import { PerChoice } from '../generation/guard/per-choice.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import type { SseMessage } from '../lib/sse.ts';
import type { EventParser, Json, JsonObject } from './codec.ts';
import { completedWith } from './completed-with.ts';
import { extend, type ProtocolExtras } from './extras.ts';
import { countIn, listIn, objectIn, frameJson, textIn } from './json.ts';
import { noTier, parseServiceTier } from './service-tier.ts';
import { malformed } from './upstream-error.ts';
import { toReportedFailure } from './openai-error.ts';
import { type OpenAiUsage, parseTimings } from './openai-usage.ts';

/** The known members of a chunk. `obfuscation` is padding of one connection, and is not passed on. */
const known = new Set([
  'id',
  'object',
  'created',
  'model',
  'choices',
  'usage',
  'service_tier',
  'system_fingerprint',
  'obfuscation',
  'error',
]);

/** Parses one choice of an answer that comes in chunks. */
export interface ChoiceReader {
  /** True once the choice has a finish reason. */
  readonly isFinished: boolean;
  /** True if it has text, reasoning or a call. */
  readonly hasContent: boolean;
  /** Reads a chunk's part of this choice. */
  push(choice: JsonObject, events: GenerationEvent[]): void;
  /**
   * Ends the choice at the end of a complete answer, with the finish reason that its content implies if it has none. Throws `UpstreamFailure`
   * `malformed` if it can't end there.
   */
  end(events: GenerationEvent[]): void;
}

/** The differences between the protocols whose answers consist of such chunks. */
export interface ChunkDialect {
  readonly extras: ProtocolExtras;
  readonly usage: OpenAiUsage;
  /** Returns whether a choice has only known members, and no content except text. */
  isPlainChoice(choice: JsonObject): boolean;
  openChoice(context: ChoiceContext): ChoiceReader;
}

/** The facts about the answer that the parser of a choice needs. */
export interface ChoiceContext {
  readonly index: number;
  readonly provider: string;
  readonly answerId: () => string;
}

/** The context of the choices of one answer. */
interface ChunkContext extends Omit<ChoiceContext, 'index'> {
  readonly dialect: ChunkDialect;
}

function openChoice(index: number, { dialect, provider, answerId }: ChunkContext): ChoiceReader {
  return dialect.openChoice({ index, provider, answerId });
}

/**
 * Converts an upstream's chunks to events, tolerating the deviations of compatible servers. Throws `UpstreamFailure`: `reported` if the
 * stream reports a failure, `malformed` if it does not follow the protocol, `truncated` if a choice never finished, unless both
 * usage and `[DONE]` came (a missing `[DONE]` alone does not matter). Source: docs/interfaces/chat-completions.md "Stream"; translation cases SS-01, US-06, US-11, US-12, FI-06, MI-07.
 */
export class ChunkParser implements EventParser {
  readonly #dialect: ChunkDialect;
  readonly #choices: PerChoice<ChoiceReader, ChunkContext>;
  /** Returns whether a chunk has only known members, and neither calls nor usage, whose members are checked when they are parsed. */
  readonly #isPlain = (chunk: JsonObject): boolean => {
    for (const name in chunk) if (!known.has(name) && chunk[name] !== null) return false;
    if (chunk['usage'] != null) return false;
    for (const choice of listIn(chunk['choices'])) {
      const fields = objectIn(choice);
      if (fields !== undefined && !this.#dialect.isPlainChoice(fields)) return false;
    }
    return true;
  };
  /** The first chunk's `id`, `created` and `model`. */
  #identity: readonly Json[] = [];
  #usage: Usage | undefined;
  #tier = noTier;
  #state: 'new' | 'started' | 'completed' = 'new';

  constructor(dialect: ChunkDialect, provider: string) {
    this.#dialect = dialect;
    const answerId = (): string => JSON.stringify(this.#identity);
    this.#choices = new PerChoice(openChoice, { dialect, provider, answerId });
  }

  push({ event, data }: SseMessage, events: GenerationEvent[]): void {
    if (this.#state === 'completed') return;
    const text = data.trim();
    if (text === '[DONE]') return this.#end(events, this.#usage !== undefined);
    const isNamed = event !== '' && event !== 'message';
    const chunk = frameJson(text, this.#isPlain);
    if (event === 'error') throw toReportedFailure(chunk ?? text);
    const body = objectIn(chunk);
    if (body === undefined || (isNamed && body['choices'] === undefined && body['error'] === undefined)) {
      // Some servers send other events between the chunks.
      if (isNamed || text === '') return;
      throw malformed('the data of an event is not a JSON object');
    }
    this.chunk(body, events);
  }

  end(events: GenerationEvent[]): void {
    if (this.#state !== 'completed') this.#end(events, false);
  }

  /** Ends an answer that was not streamed. */
  endWhole(events: GenerationEvent[]): void {
    this.#end(
      events,
      this.#choices.all().every(({ isFinished, hasContent }) => isFinished || hasContent),
    );
  }

  /** `isComplete`: the server says that the answer is complete, even if a choice has no finish reason. */
  #end(events: GenerationEvent[], isComplete: boolean): void {
    const choices = this.#choices.all();
    const isWhole = isComplete || choices.every(({ isFinished }) => isFinished);
    if (choices.length === 0 || !isWhole) throw new UpstreamFailure('truncated');
    for (const choice of choices) choice.end(events);
    this.#state = 'completed';
    events.push(completedWith(this.#usage, this.#tier));
  }

  /** Parses one chunk; a whole answer is a chunk whose choices have a `message`. */
  chunk(body: JsonObject, events: GenerationEvent[]): void {
    if (body['error'] != null) throw toReportedFailure(body);
    if (body['object'] === 'error') throw toReportedFailure(body);
    this.#begin(body, events);
    extend(events, 0, ExtensionScope.RESPONSE, this.#dialect.extras.unknown(body, known));
    // llama.cpp reports the stop sequence outside of the choices; some versions have it in `__verbose`.
    const word = textIn(body['stopping_word']) || textIn(objectIn(body['__verbose'])?.['stopping_word']);
    const sent = listIn(body['choices']);
    // By position, because this runs for every chunk: `entries()` makes an array for each choice.
    for (let position = 0; position < sent.length; position += 1) {
      const fields = objectIn(sent[position]);
      if (fields === undefined) continue;
      const choice = word === '' ? fields : { stop_reason: word, ...fields };
      this.#choices.get(countIn(choice['index']) ?? position).push(choice, events);
      this.#report(choice['usage'], events);
    }
    const tier = parseServiceTier(body['service_tier']);
    if (tier !== noTier) this.#tier = tier;
    const usage = body['usage'] ?? objectIn(body['x_groq'])?.['usage'];
    if (usage == null) this.#reportTimings(body['timings'], events);
    else this.#report(usage, events);
  }

  #begin(body: JsonObject, events: GenerationEvent[]): void {
    if (this.#state !== 'new') return;
    this.#state = 'started';
    this.#identity = [body['id'] ?? '', body['created'] ?? '', body['model'] ?? ''];
    events.push(started({ model: textIn(body['model']), systemFingerprint: textIn(body['system_fingerprint']) }));
  }

  /** Reports the count so far, which the usage at the end replaces. */
  #reportTimings(value: Json | undefined, events: GenerationEvent[]): void {
    const usage = value == null ? undefined : parseTimings(value);
    if (usage !== undefined) events.push(usageReported(usage));
  }

  /** Reports usage. Counts are cumulative in every chunk: the last ones replace all before. */
  #report(value: Json | undefined, events: GenerationEvent[]): void {
    if (value == null) return;
    const usage = this.#dialect.usage.parse(value);
    if (usage === undefined) return;
    this.#usage = usage;
    events.push(usageReported(usage));
  }
}

/** Parses a whole answer into the events that a stream of it would have given. Throws `UpstreamFailure` `malformed` or `reported`. */
export function parseWholeAnswer(parser: ChunkParser, answer: JsonObject): GenerationEvent[] {
  const events: GenerationEvent[] = [];
  parser.chunk(answer, events);
  try {
    parser.endWhole(events);
    return events;
  } catch (cause) {
    throw new UpstreamFailure('malformed', { cause });
  }
}
