import { ExtensionScope, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { started, usageReported } from '../../generation/events.ts';
import type { TierFields } from '../../generation/service-tier.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import type { SseMessage } from '../../lib/sse.ts';
import type { EventParser, Json, JsonObject } from '../codec.ts';
import { completedWith } from '../completed-with.ts';
import { extend } from '../extras.ts';
import { countIn, frameJson, listIn, objectIn, objectsIn, textIn, unknownMembers } from '../json.ts';
import { noTier, parseServiceTier } from '../service-tier.ts';
import { malformed } from '../upstream-error.ts';
import { CandidateParser } from './candidate-parser.ts';
import { extras } from './extras.ts';
import { toReportedFailure } from './parse-error.ts';
import { parseUsage } from './usage.ts';

/**
 * Converts an upstream's frames to events. Each frame is a complete response with the new content; there is no last frame, the stream ends
 * with its bytes. Throws `UpstreamFailure`: `reported` if the stream reports a failure, `malformed` if it does not follow the protocol, `truncated` if a candidate never
 * finished. Source: docs/providers.md "The Gemini protocol"; translation cases GE-07, FI-14, SS-14, US-11.
 */
export class GeminiStreamParser implements EventParser {
  readonly #provider: string;
  readonly #candidates = new Map<number, CandidateParser>();
  readonly #usage: JsonObject = {};
  #answerId = '';
  /** The members that were passed on and have not changed. */
  readonly #sent: JsonObject = {};
  #tier = noTier;
  #state: 'new' | 'started' | 'completed' = 'new';

  constructor(provider: string) {
    this.#provider = provider;
  }

  push({ event, data }: SseMessage, events: GenerationEvent[]): void {
    if (this.#state === 'completed' || data.trim() === '') return;
    const body = objectIn(frameJson(data, isPlain));
    if (event === 'error') throw toReportedFailure(body?.['error'] == null ? { error: body ?? data } : body);
    if (body !== undefined) return this.response(body, events);
    // A proxy between the provider and the gateway may send other events.
    if (event !== '' && event !== 'message') return;
    throw malformed('the data of an event is not a JSON object');
  }

  end(events: GenerationEvent[]): void {
    if (this.#state !== 'completed') this.#end(events, ({ isFinished }) => isFinished);
  }

  /** Ends an answer that was not streamed. */
  endWhole(events: GenerationEvent[]): void {
    this.#end(events, ({ isFinished, hasContent }) => isFinished || hasContent);
  }

  #end(events: GenerationEvent[], isComplete: (candidate: CandidateParser) => boolean): void {
    const candidates = [...this.#candidates.values()];
    if (candidates.length === 0 || !candidates.every(isComplete)) throw new UpstreamFailure('truncated');
    for (const candidate of candidates) candidate.end(events);
    this.#state = 'completed';
    events.push(completedWith(parseUsage(this.#usage), this.#tier));
  }

  /** Parses one response: the whole answer, or its next part. */
  response(body: JsonObject, events: GenerationEvent[]): void {
    if (body['error'] != null) throw toReportedFailure(body);
    const isResponse = ['candidates', 'promptFeedback', 'usageMetadata'].some(name => objectOrList(body[name]));
    if (!isResponse) return;
    if (this.#state === 'new') {
      this.#state = 'started';
      events.push(started({}));
    }
    this.#answerId ||= textIn(body['responseId']);
    this.#extend(body, events);
    for (const [position, value] of listIn(body['candidates']).entries()) {
      const candidate = objectIn(value);
      if (candidate !== undefined) this.#candidate(countIn(candidate['index']) ?? position).push(candidate, events);
    }
    const blocked = textIn(objectIn(body['promptFeedback'])?.['blockReason']);
    if (blocked !== '' && this.#candidates.size === 0) this.#candidate(0).block(blocked, events);
    this.#count(objectIn(body['usageMetadata']), events);
  }

  /** Passes on the members of a response that only this protocol has; those that do not change once. */
  #extend(body: JsonObject, events: GenerationEvent[]): void {
    const members = unknownMembers(body, known) as JsonObject | undefined;
    if (members === undefined) return;
    for (const name of ['modelVersion', 'responseId']) {
      if (members[name] === this.#sent[name]) delete members[name];
      else if (members[name] !== undefined) this.#sent[name] = members[name];
    }
    if (Object.keys(members).length > 0) extend(events, 0, ExtensionScope.RESPONSE, extras.of(members));
  }

  #candidate(index: number): CandidateParser {
    let candidate = this.#candidates.get(index);
    if (candidate === undefined) {
      candidate = new CandidateParser({ index, provider: this.#provider, answerId: () => this.#answerId });
      this.#candidates.set(index, candidate);
    }
    return candidate;
  }

  /** Reads usage. Counts are cumulative: a later count replaces an earlier one, and stays if no other comes. */
  #count(members: JsonObject | undefined, events: GenerationEvent[]): void {
    if (members === undefined) return;
    Object.assign(this.#usage, members);
    const tier = parseTier(members);
    if (tier !== noTier) this.#tier = tier;
    const usage = parseUsage(this.#usage);
    if (usage !== undefined) events.push(usageReported(usage));
  }
}

/** Vertex reports the tier as the type of traffic; other traffic is charged as requested. Source: the types of `@google/genai` 3.3 (`TrafficType`). */
const trafficTiers: Readonly<Record<string, string>> = {
  ON_DEMAND: 'standard',
  PROVISIONED_THROUGHPUT: 'standard',
  ON_DEMAND_PRIORITY: 'priority',
  ON_DEMAND_FLEX: 'flex',
};

function parseTier({ serviceTier, trafficType }: JsonObject): TierFields {
  return parseServiceTier(serviceTier ?? trafficTiers[textIn(trafficType)]);
}

/** The members of a response that other events have. */
const known = new Set(['candidates', 'usageMetadata', 'error']);

/** Returns false: arguments and unknown members may be anywhere in a frame. */
const isPlain = (): boolean => false;

function objectOrList(value: Json | undefined): boolean {
  return typeof value === 'object' && value !== null;
}

/**
 * Parses a whole answer, or the list of chunks that upstreams send without SSE, into the events that a stream would have given. Throws
 * `UpstreamFailure` `malformed` or `reported`.
 */
export function parseWhole(body: Json, provider: string): GenerationEvent[] {
  const responses = objectsIn(Array.isArray(body) ? body : [body]);
  const parser = new GeminiStreamParser(provider);
  const events: GenerationEvent[] = [];
  for (const response of responses) parser.response(response, events);
  try {
    if (Array.isArray(body)) parser.end(events);
    else parser.endWhole(events);
    return events;
  } catch (cause) {
    throw new UpstreamFailure('malformed', { cause });
  }
}
