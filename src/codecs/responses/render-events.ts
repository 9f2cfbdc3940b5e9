import type { GatewayError } from '../../errors/gateway-error.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { toResponseId } from '../../generation/response-ids.ts';
import { parseLedgerId } from '../../lib/ids.ts';
import { sseComment } from '../../lib/sse.ts';
import type { DecodedRequest, StreamRenderer } from '../codec.ts';
import type { ResponsesRequest } from './decode-request.ts';
import type { ResponseFacts } from './resource.ts';
import { doneFrame, ResponseRenderer, sseFrames } from './stream.ts';

/**
 * A comment that keeps a silent stream alive. It has a single line end, so that no client takes it for an
 * event (docs/interfaces/README.md "Streams").
 */
export const keepAlive = sseComment('');

/** Renders the events of a generation as the frames of a response that is not stored. */
export class ResponsesStreamRenderer implements StreamRenderer {
  readonly keepAlive: string = keepAlive;
  readonly #decoded: DecodedRequest;
  #renderer: ResponseRenderer | undefined;

  constructor(decoded: DecodedRequest) {
    this.#decoded = decoded;
  }

  push(event: GenerationEvent): string {
    if (event.event.case === 'started') {
      const { requestId, model, createdAtMs } = event.event.value;
      this.#renderer = new ResponseRenderer(
        toResponseFacts(this.#decoded, { requestId, model, createdAtMs: Number(createdAtMs) }),
      );
    }
    return sseFrames(this.#open(event.event.case ?? 'nothing').push(event));
  }

  end(): string {
    return sseFrames(this.#open('the end').end()) + doneFrame;
  }

  fail(error: GatewayError, requestId: string): string {
    const { model } = this.#decoded.request;
    const createdAtMs = readCreationTime(requestId);
    const renderer =
      this.#renderer ?? new ResponseRenderer(toResponseFacts(this.#decoded, { requestId, model, createdAtMs }));
    return sseFrames(renderer.fail(error, requestId)) + doneFrame;
  }

  #open(what: string): ResponseRenderer {
    if (this.#renderer === undefined) throw new Error(`${what} before started`);
    return this.#renderer;
  }
}

/** The facts about a response in the first event of its generation. */
interface Beginning {
  readonly requestId: string;
  readonly model: string;
  readonly createdAtMs: number;
}

/** Returns the facts of a response that is not stored, from its request. */
export function toResponseFacts(
  decoded: DecodedRequest & Partial<ResponsesRequest>,
  beginning: Beginning,
): ResponseFacts {
  return {
    id: toResponseId(beginning.requestId),
    model: beginning.model,
    createdAtMs: beginning.createdAtMs,
    request: decoded.request,
    previousResponseId: decoded.previousResponseId,
    store: decoded.store ?? false,
    background: decoded.background ?? false,
  };
}

/** Returns when a request was made, in milliseconds since 1970 UTC, which its id contains; 0 if the id is not the gateway's. */
function readCreationTime(requestId: string): number {
  return Math.floor((parseLedgerId(requestId) ?? 0) / 4096);
}
