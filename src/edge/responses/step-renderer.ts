import { type ResponseEvent, ResponseRenderer } from '../../codecs/responses/index.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { type ResponseEnd, type ResponseHead, ResponseStatus } from '../../gen/tollgate/v1/response_pb.ts';
import { requestIdOf } from '../../generation/response-ids.ts';
import { factsOf, failureError } from './facts.ts';

/** One step of a response, made or followed, as the core sends it. */
export interface ResponseStep {
  readonly head?: ResponseHead | undefined;
  readonly events: readonly GenerationEvent[];
  readonly end?: ResponseEnd | undefined;
}

/** The steps of one response as events of the interface, over whatever transport. */
export class StepRenderer {
  readonly #requestId: () => string;
  #renderer: ResponseRenderer | undefined;
  #madeBy: string | undefined;

  /** `requestId`: what an error in the stream is known by. */
  constructor(requestId: () => string) {
    this.#requestId = requestId;
  }

  /** The response has been named to the client, or can be: what fails from here on is told as its events. */
  get begun(): boolean {
    return this.#renderer !== undefined;
  }

  push({ head, events, end }: ResponseStep): ResponseEvent[] {
    const rendered: ResponseEvent[] = [];
    const add = (more: readonly ResponseEvent[]): void => {
      for (const event of more) rendered.push(event);
    };
    if (head !== undefined) {
      this.#renderer = new ResponseRenderer(factsOf(head));
      this.#madeBy = requestIdOf(head.id);
      if (head.background) add(this.#renderer.begin());
    }
    for (const event of events) add(this.#open().push(event));
    if (end?.status === ResponseStatus.FAILED) {
      // It failed for all who follow it, whenever they ask: the id is that of the request that made it.
      add(this.#open().fail(failureError(end.failure), this.#madeBy ?? this.#requestId()));
    }
    if (end?.status === ResponseStatus.CANCELLED) add(this.#open().cancel());
    return rendered;
  }

  /** Throws where the response has not ended. */
  end(): ResponseEvent[] {
    return this.#open().end();
  }

  /** The events that tell of a failure; only once it has begun. */
  fail(error: GatewayError): ResponseEvent[] {
    return this.#open().fail(error, this.#requestId());
  }

  #open(): ResponseRenderer {
    if (this.#renderer === undefined) throw new Error('a response without a head');
    return this.#renderer;
  }
}
