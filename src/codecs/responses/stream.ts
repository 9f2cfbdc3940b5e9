import assert from 'node:assert/strict';
import { errorType } from '../../errors/error-type.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';
import { ItemStatus } from '../../gen/tollgate/v1/content_pb.ts';
import { type Extension, ExtensionScope, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { exactText } from '../../lib/exact-json.ts';
import { sseEvent } from '../../lib/sse.ts';
import type { Stepper } from '../../lib/stepper.ts';
import type { JsonObject } from '../codec.ts';
import { objectIn } from '../json.ts';
import { mergeUnknown } from '../unknown-members.ts';
import { extras } from './extras.ts';
import { ItemRenderer } from './item-renderer.ts';
import { renderSettings, type ResponseFacts, resourceWith } from './resource.ts';
import { ResponseFold, type ResponseOutcome } from '../../generation/response-fold.ts';

/** One event of a response's stream. */
export interface ResponseEvent {
  readonly type: string;
  /** The event's number in its stream, from 0 without gaps. */
  readonly sequenceNumber: number;
  /** The event as JSON: the content of an SSE frame or of a WebSocket message. */
  readonly data: string;
}

/** Returns the SSE frames, joined, of the events with a number above `after`; an event's type is also its name. */
export function sseFrames(events: readonly ResponseEvent[], after = -1): string {
  let frames = '';
  for (const { type, sequenceNumber, data } of events) if (sequenceNumber > after) frames += sseEvent(type, data);
  return frames;
}

/** The frame that ends a stream. */
export const doneFrame = 'data: [DONE]\n\n';

/**
 * Renders the events of one response. The same events of the generation always give the same events with the same numbers, however they are
 * batched, and if they are rendered again. The response object in the last event contains what was streamed. Source:
 * docs/interfaces/responses.md "Stream"; docs/errors.md "Errors of providers"; docs/interfaces/README.md "Streams"; translation cases TS-22, RP-01 to
 * RP-09.
 */
export class ResponseRenderer implements Stepper<GenerationEvent, ResponseEvent> {
  readonly #facts: ResponseFacts;
  readonly #settings: JsonObject;
  readonly #fold: ResponseFold;
  readonly #items: ItemRenderer;
  /** The events that the current call returns. */
  #made: ResponseEvent[] = [];
  #number = 0;
  #state: 'new' | 'begun' | 'running' | 'ended' = 'new';
  /** Unknown members of the response object in the upstream's first event. */
  #members: JsonObject = {};
  /** Unknown members that wait for the next event of their type. */
  #waiting: Record<string, JsonObject> | undefined;
  /** The outcome of a response that failed or was cancelled, so that its generation has none. */
  #ending: Partial<ResponseOutcome> = {};

  constructor(facts: ResponseFacts) {
    this.#facts = facts;
    this.#settings = renderSettings(facts);
    this.#fold = new ResponseFold(facts.id);
    this.#items = new ItemRenderer(this.#fold, (type, members) => this.#emit(type, members));
  }

  /** Returns the outcome of the response so far. */
  get outcome(): ResponseOutcome {
    const outcome = this.#fold.outcome;
    const waits = this.#state === 'new' || this.#state === 'begun';
    return waits && this.#facts.background
      ? { ...outcome, status: 'queued', ...this.#ending }
      : { ...outcome, ...this.#ending };
  }

  /** Returns the first events, before the model has begun: the response is created, and a background response is queued. Later calls return nothing. */
  begin(): ResponseEvent[] {
    this.#begin();
    return this.#take();
  }

  push(event: GenerationEvent): ResponseEvent[] {
    const { event: content } = event;
    assert(this.#state !== 'ended', 'an event after the end');
    if (content.case === 'started') {
      assert(this.#state === 'new' || this.#state === 'begun', 'started comes once');
      this.#start(extras.members(content.value.extra));
      this.#fold.add(event);
      this.#state = 'running';
      this.#emitLifecycle('response.in_progress');
      return this.#take();
    }
    assert(this.#state === 'running', 'an event before started');
    this.#fold.add(event);
    if (content.case === 'completed') {
      assert(this.#fold.outcome.status !== 'in_progress', 'the answer never finished');
      this.#state = 'ended';
      this.#emitLifecycle(`response.${this.outcome.status}`);
    } else if (content.case === 'extension') this.#emitUnknown(content.value);
    else this.#items.push(content);
    return this.#take();
  }

  end(): ResponseEvent[] {
    assert(this.#state === 'ended', 'the generation ended without completed');
    return [];
  }

  /** Returns the last events of a failed response, in the form that every client recognises. */
  fail(error: GatewayError, requestId: string): ResponseEvent[] {
    this.#begin();
    this.#items.close(ItemStatus.INCOMPLETE);
    const { code, message, facts } = error;
    const id = facts.requestId ?? requestId;
    const param = facts.param ?? null;
    const fields = { message: message.toWellFormed(), param, code };
    this.#emit('error', { ...fields, error: { type: errorType(error.facets.http), ...fields, id } });
    return this.#conclude('response.failed', { status: 'failed', error: { code, message } });
  }

  /** Returns the last events of a cancelled response, for which Responses has no separate event. */
  cancel(): ResponseEvent[] {
    this.#begin();
    this.#items.close(ItemStatus.INCOMPLETE);
    return this.#conclude('response.incomplete', { status: 'cancelled' });
  }

  /**
   * Ends the item of a tool that the upstream ran. Sends an event of an unknown type at once, with the next number of this stream. Unknown members of other events are kept for the next
   * event of the same type.
   */
  #emitUnknown({ scope, extra, item }: Extension): void {
    if (scope === ExtensionScope.ITEM) {
      if (item !== undefined) this.#items.endTool(item);
      return;
    }
    const { type, sequence_number: _, ...members } = extras.members(extra);
    if (typeof type !== 'string') return;
    if (scope === ExtensionScope.EVENT) this.#emit(type, { ...members, ...this.#items.placeIn(members, item) });
    if (scope === ExtensionScope.FRAME)
      this.#waiting = { ...this.#waiting, [type]: mergeUnknown(members, this.#waiting?.[type] ?? {}) };
  }

  /** Handles `started`. `first`: the unknown members of the upstream's first event; `response`: those of its response object, which every later response object also gets. */
  #start({ response, ...first }: JsonObject): void {
    this.#members = objectIn(response) ?? {};
    if (this.#state === 'new' && Object.keys(first).length > 0) this.#waiting = { 'response.created': first };
    this.#begin();
  }

  #begin(): void {
    if (this.#state !== 'new') return;
    this.#emitLifecycle('response.created');
    this.#state = 'begun';
    if (this.#facts.background) this.#emitLifecycle('response.queued');
  }

  #conclude(type: string, ending: Partial<ResponseOutcome>): ResponseEvent[] {
    this.#ending = ending;
    this.#state = 'ended';
    this.#emitLifecycle(type);
    return this.#take();
  }

  #emitLifecycle(type: string): void {
    this.#emit(type, { response: { ...this.#members, ...resourceWith(this.#facts, this.outcome, this.#settings) } });
  }

  #emit(type: string, members: JsonObject | string): void {
    const sequenceNumber = this.#number;
    this.#number += 1;
    const waiting = this.#waiting?.[type];
    const rest = waiting === undefined ? writtenMembers(members) : this.#withWaiting(type, members, waiting);
    const comma = rest === '}' ? '' : ',';
    const data = `{"type":${JSON.stringify(type)},"sequence_number":${sequenceNumber}${comma}${rest}`;
    this.#made.push({ type, sequenceNumber, data });
  }

  #withWaiting(type: string, members: JsonObject | string, waiting: JsonObject): string {
    delete this.#waiting?.[type];
    const fields = typeof members === 'string' ? (JSON.parse(`{${members}`) as JsonObject) : members;
    return writtenMembers(mergeUnknown(fields, waiting));
  }

  #take(): ResponseEvent[] {
    const made = this.#made;
    this.#made = [];
    return made;
  }
}

/** Returns the JSON of members without the opening brace. */
function writtenMembers(members: JsonObject | string): string {
  return typeof members === 'string' ? members : exactText(members).slice(1);
}
