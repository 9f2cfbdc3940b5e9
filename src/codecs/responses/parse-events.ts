import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { ExtensionScope, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { extension, finished, started, usageReported } from '../../generation/events.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import type { SseMessage } from '../../lib/sse.ts';
import type { EventParser, Json, JsonObject } from '../codec.ts';
import { completedWith } from '../completed-with.ts';
import { extend, extendFrame } from '../extras.ts';
import { countIn, defined, frameJson, listIn, objectIn, objectsIn, textIn } from '../json.ts';
import { parseServiceTier } from '../service-tier.ts';
import { findUnknownMembers, type Shape, makeShape } from '../unknown-members.ts';
import { malformed } from '../upstream-error.ts';
import { extras } from './extras.ts';
import { ItemParser } from './item-parser.ts';
import type { ItemPlace } from './open-items.ts';
import { toReportedFailure } from './parse-error.ts';
import { parseUsage } from './usage.ts';

/** Members of a response object that have a field in our events, or that the gateway sets itself. */
const parsedMembers =
  'id object created_at completed_at status incomplete_details error model output usage service_tier conversation billing';
/** Members of a response object that repeat the request. */
const requestMembers =
  'previous_response_id instructions tools tool_choice parallel_tool_calls max_tool_calls max_output_tokens truncation text reasoning ' +
  'temperature top_p presence_penalty frequency_penalty top_logprobs store background metadata safety_identifier prompt_cache_key user ' +
  'prompt prompt_cache_retention output_text';
const responseShape = makeShape(`${parsedMembers} ${requestMembers}`);
const lifecycleFrame = makeShape('type sequence_number response');
const beginning = makeShape('type sequence_number', { response: responseShape });

/**
 * Converts an upstream's frames to events. Throws `UpstreamFailure`: `reported` if the stream reports a failure, `malformed` if it does not
 * follow the protocol, `truncated` if no terminal event came. Source: docs/interfaces/responses.md "Stream"; docs/errors.md "Errors of providers";
 * translation cases LI-05, LI-06, SV-02, TS-22, FI-17.
 */
export class ResponsesStreamParser implements EventParser {
  readonly #items: ItemParser;
  #state: 'new' | 'started' | 'completed' = 'new';

  /** True if the current frame is a delta with only known members. Set once per frame. */
  #isPlain = false;
  readonly #checkPlain = (frame: JsonObject): boolean => (this.#isPlain = isPlain(frame));

  constructor(provider: string) {
    this.#items = new ItemParser(provider);
  }

  push({ event, data }: SseMessage, events: GenerationEvent[]): void {
    if (this.#state === 'completed') return;
    const body = objectIn(frameJson(data, this.#checkPlain));
    if (body === undefined) {
      if (event === 'error') throw toReportedFailure(data);
      // Some servers send other events between those of the protocol.
      const isOther = event !== '' && event !== 'message' && !event.startsWith('response.');
      if (isOther || data.trim() === '' || data.trim() === '[DONE]') return;
      throw malformed('the data of an event is not a JSON object');
    }
    if (event === 'error') throw toReportedFailure(body);
    this.#event(textIn(body['type']) || event, body, events);
  }

  end(): void {
    if (this.#state !== 'completed') throw new UpstreamFailure('truncated');
  }

  /** Converts an answer that was not streamed to the events of a stream. */
  whole(response: JsonObject): GenerationEvent[] {
    const events: GenerationEvent[] = [];
    const isAnswer = listIn(response['output']).length > 0;
    this.#terminal(textIn(response['status']) || (isAnswer ? 'completed' : ''), response, events);
    return events;
  }

  #event(type: string, body: JsonObject, events: GenerationEvent[]): void {
    // Some servers send only the error, without a type.
    if (type === 'error' || (type === '' && body['error'] != null)) throw toReportedFailure(body);
    const lifecycle = /^response\.(created|queued|in_progress|completed|incomplete|failed|cancelled)$/.exec(type)?.[1];
    if (lifecycle === 'created' || lifecycle === 'queued' || lifecycle === 'in_progress') {
      this.#start(events, objectIn(body['response'])?.['model'], findUnknownMembers(body, beginning));
      return;
    }
    if (lifecycle !== undefined) {
      const response = objectIn(body['response']) ?? {};
      if (this.#state === 'new') this.#start(events, response['model']);
      extendFrame(events, undefined, extras.unknownInFrame(type, body, lifecycleFrame));
      this.#terminal(textIn(response['status']) || lifecycle, response, events);
      return;
    }
    const at = { index: countIn(body['output_index']), id: textIn(body['item_id']) };
    const shape = itemFrames[type];
    if (!this.#isPlain && this.#state !== 'new' && shape !== undefined) {
      extendFrame(events, this.#items.numberAt(at, body), extras.unknownInFrame(type, body, shape));
    }
    const handler = handlers[type];
    if (handler === undefined) return this.#unknown(type, { at, body }, events);
    this.#start(events);
    handler(this.#items, { at, body }, events);
  }

  /** Passes on an event of an unknown type, for clients of the protocol. */
  #unknown(type: string, { at, body }: ItemEvent, events: GenerationEvent[]): void {
    if (this.#state === 'new' || type === '' || repeated.has(type)) return;
    const event = extension(0, ExtensionScope.EVENT, extras.of({ ...body, type }));
    const item = this.#items.numberAt(at, body);
    if (item !== undefined && event.event.case === 'extension') event.event.value.item = item;
    events.push(event);
  }

  /** Emits `started`, once. `model`: the model that the upstream reports, if any; `rest`: the unknown members of the first frame. */
  #start(events: GenerationEvent[], model?: Json, rest?: JsonObject): void {
    if (this.#state !== 'new') return;
    this.#state = 'started';
    const extra = rest === undefined ? undefined : extras.of(rest);
    events.push(started({ model: textIn(model), ...defined({ extra }) }));
  }

  #terminal(status: string, response: JsonObject, events: GenerationEvent[]): void {
    if (status === 'failed' || status === 'cancelled' || response['error'] != null) throw toReportedFailure(response);
    if (status !== 'completed' && status !== 'incomplete') {
      throw malformed(`an answer that ends ${status || 'without a status'}`);
    }
    this.#start(events, response['model']);
    this.#items.output(objectsIn(response['output']), events);
    const native = textIn(objectIn(response['incomplete_details'])?.['reason']) || status;
    const reason = this.#toReason(status, native);
    this.#items.end(status === 'incomplete', events);
    const rest = findUnknownMembers(response, responseShape);
    if (rest !== undefined) extend(events, 0, ExtensionScope.RESPONSE, extras.of(rest));
    const usage = parseUsage(response['usage']);
    if (usage !== undefined) events.push(usageReported(usage));
    const isKnown = status === 'completed' || native === 'max_output_tokens' || native === 'content_filter';
    events.push(finished(0, reason, { native, ...(isKnown ? {} : { protocol: Protocol.RESPONSES }) }));
    events.push(completedWith(usage, parseServiceTier(response['service_tier'])));
    this.#state = 'completed';
  }

  /**
   * Maps a status to a finish reason. An unknown reason for being incomplete counts as LENGTH; a complete answer that has a refusal part
   * counts as REFUSAL.
   */
  #toReason(status: string, native: string): FinishReason {
    if (status === 'incomplete') {
      return native === 'content_filter' ? FinishReason.CONTENT_FILTER : FinishReason.LENGTH;
    }
    if (this.#items.hasCalls) return FinishReason.TOOL_CALLS;
    return this.#items.hasRefusal ? FinishReason.REFUSAL : FinishReason.STOP;
  }
}

/** Events that repeat others, or that concern only one connection. */
const repeated = new Set([
  'ping',
  'keepalive',
  'response.output_text.done',
  'response.refusal.done',
  'response.reasoning_text.done',
  'response.reasoning.done',
  'response.reasoning_summary_text.done',
]);

const place = 'type sequence_number item_id output_index';
/** The members of item frames; items and parts are parsed separately. */
const itemFrames: Readonly<Record<string, Shape>> = {
  'response.output_item.added': makeShape(`${place} item`),
  'response.output_item.done': makeShape(`${place} item`),
  'response.content_part.added': makeShape(`${place} content_index part`),
  'response.content_part.done': makeShape(`${place} content_index part`),
  'response.reasoning_summary_part.added': makeShape(`${place} summary_index part`),
  'response.reasoning_summary_part.done': makeShape(`${place} summary_index part`),
  'response.output_text.annotation.added': makeShape(`${place} content_index annotation_index annotation`),
  'response.output_text.delta': makeShape(`${place} content_index delta logprobs obfuscation`),
  'response.output_text.done': makeShape(`${place} content_index text logprobs`),
  'response.refusal.delta': makeShape(`${place} content_index delta obfuscation`),
  'response.refusal.done': makeShape(`${place} content_index refusal`),
  'response.reasoning_summary_text.delta': makeShape(`${place} summary_index delta obfuscation`),
  'response.reasoning_summary_text.done': makeShape(`${place} summary_index text`),
  'response.function_call_arguments.delta': makeShape(`${place} delta obfuscation`),
  'response.function_call_arguments.done': makeShape(`${place} name arguments`),
  'response.custom_tool_call_input.delta': makeShape(`${place} delta obfuscation`),
  'response.custom_tool_call_input.done': makeShape(`${place} input`),
};

/** Returns whether a frame is a delta with known members only. */
function isPlain(frame: JsonObject): boolean {
  const type = textIn(frame['type']);
  const shape = type.endsWith('.delta') ? itemFrames[type] : undefined;
  return shape !== undefined && findUnknownMembers(frame, shape) === undefined;
}

/** One event of an item. */
interface ItemEvent {
  readonly at: ItemPlace;
  readonly body: JsonObject;
}

type Handler = (items: ItemParser, event: ItemEvent, events: GenerationEvent[]) => void;

const contentPlace = ({ body }: ItemEvent) =>
  ({ list: 'content', index: countIn(body['content_index']) ?? 0 }) as const;
const summaryPlace = ({ body }: ItemEvent) =>
  ({ list: 'summary', index: countIn(body['summary_index']) ?? 0 }) as const;

const textDelta =
  (type: string): Handler =>
  (items, event, events) =>
    items.text(event.at, { ...contentPlace(event), type }, event.body, events);
const argumentsDelta: Handler = (items, { at, body }, events) => items.arguments(at, textIn(body['delta']), events);
const summaryDelta: Handler = (items, event, events) =>
  items.text(event.at, { ...summaryPlace(event), type: 'summary_text' }, event.body, events);

/**
 * The handler for each event of an item. `*_text.done` and `refusal.done` have none: the complete text is read from `content_part.done` and
 * `output_item.done`, which also have the citations and logprobs.
 */
const handlers: Readonly<Record<string, Handler>> = {
  'response.output_item.added': (items, { at, body }, events) =>
    items.start(at.index, objectIn(body['item']) ?? {}, events),
  'response.output_item.done': (items, { at, body }, events) =>
    items.done(at.index, objectIn(body['item']) ?? {}, events),
  'response.content_part.added': (items, event, events) => {
    items.part(event.at, contentPlace(event), objectIn(event.body['part']) ?? {}, events);
  },
  'response.content_part.done': (items, event, events) =>
    items.wholePart(event.at, contentPlace(event), objectIn(event.body['part']) ?? {}, events),
  'response.output_text.delta': textDelta('output_text'),
  'response.refusal.delta': textDelta('refusal'),
  'response.reasoning_text.delta': textDelta('reasoning_text'),
  'response.reasoning.delta': textDelta('reasoning_text'),
  'response.output_text.annotation.added': (items, event, events) =>
    items.annotate(event.at, contentPlace(event), objectIn(event.body['annotation']), events),
  'response.reasoning_summary_part.added': (items, event, events) => {
    items.part(event.at, summaryPlace(event), objectIn(event.body['part']) ?? { type: 'summary_text' }, events);
  },
  'response.reasoning_summary_part.done': (items, event, events) =>
    items.wholePart(event.at, summaryPlace(event), objectIn(event.body['part']) ?? {}, events),
  'response.reasoning_summary_text.delta': summaryDelta,
  'response.function_call_arguments.delta': argumentsDelta,
  'response.custom_tool_call_input.delta': argumentsDelta,
  'response.function_call_arguments.done': (items, { at, body }, events) =>
    items.wholeArguments(at, textIn(body['arguments']), events),
  'response.custom_tool_call_input.done': (items, { at, body }, events) =>
    items.wholeArguments(at, textIn(body['input']), events),
};

/** Parses a whole answer into the events that a stream of it would have given. Throws `UpstreamFailure` `malformed` or `reported`. */
export function parseWhole(body: Json, provider: string): GenerationEvent[] {
  const response = objectIn(body);
  if (response === undefined) {
    throw malformed('the answer is not a JSON object');
  }
  if (response['object'] !== 'response' && response['error'] != null) throw toReportedFailure(response);
  return new ResponsesStreamParser(provider).whole(response);
}
