import { doneFrame, keepAlive, type ResponseEvent, ResponseRenderer, sseFrames } from '../../codecs/responses/index.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';
import { ResponseStatus } from '../../gen/tollgate/v1/response_pb.ts';
import { toRequestId } from '../../generation/response-ids.ts';
import type { AnswerMessage } from '../generation-facts.ts';
import type { FrameRenderer } from '../sinks/stream.ts';
import { readFacts, failureError } from './facts.ts';

/** Renders the core's messages about one response as events of the Responses interface, for any transport. */
export class StepRenderer {
  #renderer: ResponseRenderer | undefined;
  #madeBy: string | undefined;

  /** True if the client may know the response's id, so that later failures are sent as events of the response. */
  get hasBegun(): boolean {
    return this.#renderer !== undefined;
  }

  push({ head, events, end }: AnswerMessage): ResponseEvent[] {
    const rendered: ResponseEvent[] = [];
    if (head !== undefined) {
      this.#renderer = new ResponseRenderer(readFacts(head));
      this.#madeBy = toRequestId(head.id);
      if (head.background) rendered.push(...this.#renderer.begin());
    }
    for (const event of events) rendered.push(...this.#open().push(event));
    if (end?.status === ResponseStatus.FAILED) {
      // All followers get the same failure at any time, so its id is that of the request that made the response.
      rendered.push(...this.#open().fail(failureError(end.failure), this.#madeBy ?? ''));
    }
    if (end?.status === ResponseStatus.CANCELLED) rendered.push(...this.#open().cancel());
    return rendered;
  }

  /** Checks that the response has ended; throws if not. */
  end(): void {
    this.#open().end();
  }

  /** Returns the events that report a failure. Must be called only after the response has begun. */
  fail(error: GatewayError, requestId: string): ResponseEvent[] {
    return this.#open().fail(error, requestId);
  }

  #open(): ResponseRenderer {
    if (this.#renderer === undefined) throw new Error('a response without a head');
    return this.#renderer;
  }
}

/**
 * Returns the renderer of one response's stream. The client already has the events up to number `startingAfter`; -1 means none. `failUnbegun`
 * renders a failure that happens after the status line was sent but before the response has a head.
 */
export function stepFrames(startingAfter: number, failUnbegun: FrameRenderer['fail']): FrameRenderer {
  const steps = new StepRenderer();
  return {
    keepAlive,
    push: message => sseFrames(steps.push(message), startingAfter),
    end: () => {
      if (!steps.hasBegun) throw new Error('a response without a head');
      return doneFrame;
    },
    fail: (error, requestId) =>
      steps.hasBegun
        ? sseFrames(steps.fail(error, requestId), startingAfter) + doneFrame
        : failUnbegun(error, requestId),
  };
}
