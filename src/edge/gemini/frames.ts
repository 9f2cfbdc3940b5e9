import type { DecodedRequest, JsonObject } from '../../codecs/codec.ts';
import { AnswerRenderer, googleError } from '../../codecs/gemini/index.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';
import { exactText } from '../../lib/exact-json.ts';
import { sseData } from '../../lib/sse.ts';
import type { AnswerMessage } from '../generation-facts.ts';
import type { FrameRenderer } from '../sinks/stream.ts';

/**
 * The stream of Gemini's interface: what is ready at the same time is one chunk. With `alt=sse` chunks are events, without it the elements of a JSON array that
 * grows. Source: docs/interfaces/gemini.md "Stream".
 */
export class GeminiFrames implements FrameRenderer {
  readonly contentType: string;
  readonly keepAlive: string;
  readonly #renderer: AnswerRenderer;
  readonly #isSse: boolean;
  #hasBegun = false;

  constructor(decoded: DecodedRequest, isSse: boolean) {
    this.#renderer = new AnswerRenderer(decoded);
    this.#isSse = isSse;
    this.contentType = isSse ? 'text/event-stream; charset=utf-8' : 'application/json; charset=utf-8';
    // Clients read a comment as JSON, or lose the event behind it; white space means nothing in either form.
    this.keepAlive = '\n';
  }

  push({ events }: AnswerMessage): string {
    for (const event of events) this.#renderer.push(event);
    const chunk = this.#renderer.take();
    return chunk === undefined ? '' : this.#frame(chunk);
  }

  end(): string {
    this.#renderer.checkComplete();
    return this.#isSse ? '' : ']';
  }

  fail(error: GatewayError, requestId: string): string {
    const id = error.facts.requestId ?? requestId;
    return this.#frame(googleError(error, { id })) + (this.#isSse ? '' : ']');
  }

  #frame(chunk: JsonObject): string {
    const json = exactText(chunk);
    if (this.#isSse) return sseData(json);
    const before = this.#hasBegun ? ',\n' : '[';
    this.#hasBegun = true;
    return before + json;
  }
}
