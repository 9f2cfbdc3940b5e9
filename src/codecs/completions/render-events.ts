import assert from 'node:assert/strict';
import type { GatewayError } from '../../errors/gateway-error.ts';
import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import {
  type Completed,
  type Extension,
  ExtensionScope,
  type GenerationEvent,
} from '../../gen/tollgate/v1/event_pb.ts';
import { lostImageComment } from '../../generation/made-image.ts';
import { sseComment, sseData } from '../../lib/sse.ts';
import type { DecodedRequest, JsonObject, StreamRenderer } from '../codec.ts';
import { errorFrame } from '../openai-error.ts';
import { extras, usage } from './extras.ts';
import { renderFinishReason, renderIdentity } from './identity.ts';

/** Renders events as chunks. The finish reasons are sent only with `completed`, so that an answer that a client sees finished is in the ledger. */
export class CompletionsStreamRenderer implements StreamRenderer {
  readonly keepAlive: string = sseComment('keepalive');
  readonly #includeUsage: boolean;
  /** Unknown members of choices that wait for the next chunk of their choice. */
  readonly #waiting = new Map<number, JsonObject>();
  readonly #reasons = new Map<number, string>();
  /** Unknown members of the answer that wait for its next chunk. */
  #members: JsonObject = {};
  #identity: JsonObject | undefined;
  #isCompleted = false;

  constructor(decoded: DecodedRequest) {
    this.#includeUsage = decoded.includeUsage;
  }

  push(event: GenerationEvent): string {
    return lostImageComment(event, Protocol.COMPLETIONS) + this.#render(event);
  }

  #render({ choice, event }: GenerationEvent): string {
    switch (event.case) {
      case 'started':
        this.#identity = renderIdentity(event.value);
        return '';
      case 'delta':
        return event.value.text === '' ? '' : this.#chunk(choice, event.value.text.toWellFormed(), null);
      case 'extension':
        return this.#extend(choice, event.value);
      case 'finished':
        this.#reasons.set(choice, renderFinishReason(event.value));
        return '';
      case 'completed':
        return this.#complete(event.value);
      default:
        return '';
    }
  }

  end(): string {
    assert(this.#isCompleted, 'the generation ended without completed');
    return sseData('[DONE]');
  }

  fail(error: GatewayError, requestId: string): string {
    return errorFrame(error, requestId);
  }

  /** Keeps unknown members of a choice for its next chunk. If others already wait, those are first sent in a separate chunk. */
  #extend(choice: number, { scope, extra }: Extension): string {
    if (scope === ExtensionScope.RESPONSE) Object.assign(this.#members, extras.members(extra));
    if (scope !== ExtensionScope.CHOICE) return '';
    const frame = this.#waiting.has(choice) ? this.#chunk(choice, '', null) : '';
    this.#waiting.set(choice, extras.members(extra));
    return frame;
  }

  #chunk(index: number, text: string, finishReason: string | null): string {
    const choice = { text, index, logprobs: null, finish_reason: finishReason, ...this.#waiting.get(index) };
    this.#waiting.delete(index);
    return this.#frame({ choices: [choice], ...(this.#includeUsage ? { usage: null } : {}) });
  }

  #frame(members: JsonObject): string {
    assert(this.#identity !== undefined && !this.#isCompleted, 'an event outside started and completed');
    const frame = sseData(JSON.stringify({ ...this.#members, ...this.#identity, ...members }));
    this.#members = {};
    return frame;
  }

  #complete(completed: Completed): string {
    let frames = '';
    for (const [index, reason] of this.#reasons) frames += this.#chunk(index, '', reason);
    if (this.#includeUsage) frames += this.#frame({ choices: [], usage: usage.render(completed) });
    this.#isCompleted = true;
    return frames;
  }
}
