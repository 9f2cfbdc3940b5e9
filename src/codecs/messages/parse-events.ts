import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { ExtensionScope, FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { finished, started, usageReported } from '../../generation/events.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import { exactText } from '../../lib/exact-json.ts';
import type { SseMessage } from '../../lib/sse.ts';
import type { EventParser, Json, JsonObject } from '../codec.ts';
import { completedWith } from '../completed-with.ts';
import { extend, extendFrame } from '../extras.ts';
import { countIn, defined, frameJson, listIn, objectIn, textIn } from '../json.ts';
import { noTier, parseServiceTier } from '../service-tier.ts';
import { findUnknownMembers, type Shape, makeShape } from '../unknown-members.ts';
import { malformed } from '../upstream-error.ts';
import { BlockParser, isPlainDelta } from './block-parser.ts';
import { extras } from './extras.ts';
import { toReportedFailure } from './parse-error.ts';
import { parseStopReason } from './stop-reason.ts';
import { parseUsage } from './usage.ts';

/** Members of a message that have a field in our events, or that matter only to one connection. */
const messageShape = makeShape('id type role model content stop_reason stop_sequence stop_details usage');
const startShape = makeShape('type', { message: messageShape });
const blockFrame = makeShape('type index content_block');
/** The members of a stream's frames. Blocks, and the last delta of a message, are parsed separately. */
const frameShapes: Readonly<Record<string, Shape>> = {
  content_block_start: blockFrame,
  content_block_stop: blockFrame,
  message_delta: makeShape('type delta usage'),
  message_stop: makeShape('type'),
};
const knownDeltaMembers = new Set(['stop_reason', 'stop_sequence', 'stop_details']);

/**
 * Converts an upstream's frames to events. Throws `UpstreamFailure`: `reported` if the stream reports a failure, `malformed` if it does not
 * follow the protocol, `truncated` if `message_stop` never came. Source: docs/interfaces/messages.md "Stream"; translation cases FI-08, FI-18, LI-03, SV-03,
 * TS-14.
 */
export class MessagesStreamParser implements EventParser {
  readonly #blocks: BlockParser;
  #usage: JsonObject = {};
  #tier = noTier;
  #state: 'new' | 'started' | 'finished' | 'completed' = 'new';
  /** The latest finish reason; the last one counts (docs/interfaces/README.md "Finish reasons"). */
  #reason: FinishReason = FinishReason.UNSPECIFIED;

  /** True if the current frame has only known members. Set once per frame. */
  #isPlain = false;
  readonly #judge = (frame: JsonObject): boolean => (this.#isPlain = isPlainDelta(frame));

  constructor(provider: string) {
    this.#blocks = new BlockParser(provider);
  }

  push({ event, data }: SseMessage, events: GenerationEvent[]): void {
    if (this.#state === 'completed') return;
    const body = objectIn(frameJson(data, this.#judge));
    if (body === undefined) {
      if (event === 'error') throw toReportedFailure(data);
      // Some servers send other events between those of the protocol.
      if (event !== '' && event !== 'message') return;
      if (data.trim() === '' || data.trim() === '[DONE]') return;
      throw malformed('the data of an event is not a JSON object');
    }
    if (event === 'error') throw toReportedFailure(body['error'] == null ? { error: body } : body);
    this.#event(textIn(body['type']) || event, body, events);
  }

  end(): void {
    if (this.#state !== 'completed') throw new UpstreamFailure('truncated');
  }

  /** Converts an answer that was not streamed to the events of a stream. */
  whole(message: JsonObject): GenerationEvent[] {
    const events = [this.#start({ message })];
    for (const [index, block] of listIn(message['content']).entries()) {
      const content = objectIn(block);
      if (content === undefined) continue;
      this.#blocks.start(index, content, events);
      this.#blocks.stop(index, events);
    }
    const { stop_reason = null, stop_sequence = null, stop_details = null } = message;
    this.#finish({ stop_reason, stop_sequence, stop_details }, undefined, events);
    if (this.#state !== 'finished') this.#finishByContent(message, events);
    this.#complete(events);
    return events;
  }

  #event(type: string, body: JsonObject, events: GenerationEvent[]): void {
    if (type === 'error') throw toReportedFailure(body);
    if (type === 'message_start') {
      // A second start is a retry by the upstream itself: it belongs to the same answer (translation case TS-20).
      if (this.#state === 'new') events.push(this.#start(body));
      return;
    }
    if (!/^(content_block_(start|delta|stop)|message_(delta|stop))$/.test(type))
      return this.#unknown(type, body, events);
    if (this.#state === 'new') {
      throw malformed(`${type} before message_start`);
    }
    const index = countIn(body['index']) ?? 0;
    const shape = frameShapes[type];
    if (shape !== undefined) {
      const item = type === 'content_block_stop' ? this.#blocks.itemAt(index) : undefined;
      extendFrame(events, item, extras.unknownInFrame(type, body, shape));
    }
    if (type === 'content_block_start') this.#blocks.start(index, objectIn(body['content_block']) ?? {}, events);
    else if (type === 'content_block_delta') this.#blocks.delta({ index, frame: body, isPlain: this.#isPlain }, events);
    else if (type === 'content_block_stop') this.#blocks.stop(index, events);
    else if (type === 'message_delta') this.#finish(objectIn(body['delta']) ?? {}, body['usage'], events);
    else this.#complete(events);
  }

  /** Passes on an event of an unknown type, for clients of the protocol. */
  #unknown(type: string, body: JsonObject, events: GenerationEvent[]): void {
    if (this.#state === 'new' || type === '' || type === 'ping') return;
    extend(events, 0, ExtensionScope.EVENT, extras.of({ ...body, type }));
  }

  /** Reads `message_start`; `frame` contains the message as it is at its beginning. */
  #start(frame: JsonObject): GenerationEvent {
    const message = objectIn(frame['message']) ?? {};
    this.#state = 'started';
    this.#count(message['usage']);
    const usage = parseUsage(this.#usage);
    const rest = findUnknownMembers(frame, startShape);
    const extra = rest === undefined ? undefined : extras.of(rest);
    return started({ model: textIn(message['model']), ...defined({ usage, extra }) });
  }

  /** Reads usage. Counts are cumulative: a later count replaces an earlier one, and stays if no other comes. */
  #count(value: Json | undefined): void {
    const usage = objectIn(value);
    if (usage === undefined) return;
    for (const [name, member] of Object.entries(usage)) if (member !== null) this.#usage[name] = member;
    const tier = parseServiceTier(usage['service_tier']);
    if (tier !== noTier) this.#tier = tier;
  }

  #finish(delta: JsonObject, usage: Json | undefined, events: GenerationEvent[]): void {
    this.#count(usage);
    const counts = parseUsage(this.#usage);
    if (counts !== undefined) events.push(usageReported(counts));
    extend(events, 0, ExtensionScope.RESPONSE, extras.unknown(delta, knownDeltaMembers));
    const native = textIn(delta['stop_reason']);
    if (native === '') return;
    const reason = parseStopReason(native);
    this.#reason = reason;
    this.#blocks.end(isCut(reason), events);
    const matched = delta['stop_sequence'];
    const details = objectIn(delta['stop_details']);
    events.push(
      finished(0, reason, {
        native,
        ...(typeof matched === 'string' ? { matchedStop: matched } : {}),
        ...(details === undefined ? {} : { detailsJson: exactText(details) }),
        ...(reason === FinishReason.OTHER ? { protocol: Protocol.MESSAGES } : {}),
      }),
    );
    this.#state = 'finished';
  }

  /** Ends a whole answer that has no stop reason. */
  #finishByContent(message: JsonObject, events: GenerationEvent[]): void {
    if (listIn(message['content']).length === 0) throw malformed('the answer has neither content nor a stop_reason');
    const reason = this.#blocks.hasCalls ? FinishReason.TOOL_CALLS : FinishReason.STOP;
    this.#blocks.end(false, events);
    events.push(finished(0, reason, { native: '' }));
    this.#reason = reason;
    this.#state = 'finished';
  }

  #complete(events: GenerationEvent[]): void {
    if (this.#state !== 'finished') throw new UpstreamFailure('truncated');
    this.#blocks.end(isCut(this.#reason), events);
    if (this.#reason === FinishReason.TOOL_CALLS && !this.#blocks.hasCalls) {
      // The client would wait for a call that does not exist.
      throw malformed('stop_reason tool_use without a call');
    }
    this.#state = 'completed';
    events.push(completedWith(parseUsage(this.#usage), this.#tier));
  }
}

function isCut(reason: FinishReason): boolean {
  return (
    reason === FinishReason.LENGTH ||
    reason === FinishReason.CONTEXT_WINDOW ||
    reason === FinishReason.REFUSAL ||
    reason === FinishReason.CONTENT_FILTER
  );
}

/** Parses a whole answer into the events that a stream of it would have given. Throws `UpstreamFailure` `malformed` or `reported`. */
export function parseWhole(body: Json, provider: string): GenerationEvent[] {
  const message = objectIn(body);
  if (message === undefined) {
    throw malformed('the answer is not a JSON object');
  }
  if (message['type'] === 'error' || message['error'] != null) throw toReportedFailure(message);
  return new MessagesStreamParser(provider).whole(message);
}
