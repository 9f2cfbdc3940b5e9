import assert from 'node:assert/strict';
import type { GatewayError } from '../../errors/gateway-error.ts';
import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import {
  type Completed,
  type Extension,
  ExtensionScope,
  type Finished,
  type GenerationEvent,
  type Started,
} from '../../gen/tollgate/v1/event_pb.ts';
import { lostImageComment } from '../../generation/made-image.ts';
import { exactText } from '../../lib/exact-json.ts';
import { sseEvent } from '../../lib/sse.ts';
import type { DecodedRequest, JsonObject, StreamRenderer } from '../codec.ts';
import { BlockRenderer } from './block-renderer.ts';
import { errorFrame } from './error.ts';
import { mergeUnknown } from '../unknown-members.ts';
import { extras } from './extras.ts';
import { textIn } from '../json.ts';
import { messageHead } from './message-shape.ts';
import { renderStop } from './stop-reason.ts';
import { renderCounts, renderUsage } from './usage.ts';
import type { TierFields } from '../../generation/service-tier.ts';

/** Returns the frame of an event; its `type` is also the SSE event's name. */
function frame(type: string, members: JsonObject): string {
  return sseEvent(type, exactText({ type, ...members }));
}

/**
 * Renders events as frames. The finish is sent only with `completed`, so that an answer that a client sees finished is in the ledger, and a
 * failure before that ends the stream without a `message_stop`. Source: docs/interfaces/messages.md "Stream"; docs/interfaces/README.md "Streams".
 */
export class MessagesStreamRenderer implements StreamRenderer {
  readonly keepAlive: string = frame('ping', {});
  readonly #tier: TierFields;
  /** Not the whole decoded request, because that may be large. */
  readonly #stopOptions: Pick<DecodedRequest, 'ownStopReasons'>;
  readonly #blocks = new BlockRenderer();
  #state: 'new' | 'started' | 'completed' = 'new';
  #finished: Finished | undefined;
  /** Unknown members of the message, sent in its last delta. */
  #members: JsonObject = {};
  /** Unknown members of the last frames of the stream, by their type. */
  readonly #ending: Record<string, JsonObject> = {};

  constructor(decoded: DecodedRequest) {
    this.#tier = decoded.request;
    this.#stopOptions = decoded.ownStopReasons === true ? { ownStopReasons: true } : {};
  }

  push(event: GenerationEvent): string {
    return lostImageComment(event, Protocol.MESSAGES) + this.#render(event);
  }

  #render({ event }: GenerationEvent): string {
    switch (event.case) {
      case 'started':
        return this.#start(event.value);
      case 'completed':
        return this.#complete(event.value);
      case 'finished':
        this.#finished = event.value;
        return '';
      case 'extension':
        return this.#extend(event.value);
      case 'usageReported':
        return '';
      default:
        assert(this.#state === 'started', 'an event outside started and completed');
        return this.#blocks.push(event);
    }
  }

  end(): string {
    assert(this.#state === 'completed', 'the generation ended without completed');
    return '';
  }

  fail(error: GatewayError, requestId: string): string {
    return errorFrame(error, requestId);
  }

  #start(started: Started): string {
    this.#state = 'started';
    const message = {
      ...messageHead(started),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: renderCounts(started.usage, this.#tier),
    };
    return frame('message_start', mergeUnknown({ message }, extras.members(started.extra)));
  }

  /** Keeps unknown members for the last delta; returns the frame of an unknown event, which is sent at once. */
  #extend({ scope, extra }: Extension): string {
    const members = extras.members(extra);
    if (scope === ExtensionScope.RESPONSE) Object.assign(this.#members, members);
    if (scope === ExtensionScope.FRAME) {
      const { type, ...rest } = members;
      if (type !== 'message_delta' && type !== 'message_stop') return this.#blocks.extend(textIn(type), rest);
      this.#ending[type] = { ...this.#ending[type], ...rest };
    }
    return scope === ExtensionScope.EVENT && extra !== undefined && textIn(members['type']) !== ''
      ? sseEvent(textIn(members['type']), extra.json)
      : '';
  }

  #complete(completed: Completed): string {
    assert(this.#state === 'started', 'completed comes once, after started');
    assert(this.#finished !== undefined, 'the answer never finished');
    this.#state = 'completed';
    const delta = { ...this.#members, ...renderStop(this.#finished, this.#blocks, this.#stopOptions) };
    const last = mergeUnknown({ delta, usage: renderUsage(completed) }, this.#ending['message_delta'] ?? {});
    return frame('message_delta', last) + frame('message_stop', this.#ending['message_stop'] ?? {});
  }
}
