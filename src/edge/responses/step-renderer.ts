import { doneFrame, keepAlive, type ResponseEvent, ResponseRenderer, sseFrames } from '../../codecs/responses/index.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';
import { ResponseStatus } from '../../gen/tollgate/v1/response_pb.ts';
import { toRequestId } from '../../generation/response-ids.ts';
import type { AnswerMessage } from '../generation-facts.ts';
import type { FrameRenderer } from '../sinks/stream.ts';
import { readFacts, failureError } from './facts.ts';

/** Renders the messages of one response as events of the interface, for any transport. */
export class StepRenderer {
  #renderer: ResponseRenderer | undefined;
  #madeBy: string | undefined;

  /** True if the client knows the response's id, or could: later failures are sent as its events. */
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
      // The failure is the same for all followers at any time: the id is that of the request that made the response.
      rendered.push(...this.#open().fail(failureError(end.failure), this.#madeBy ?? ''));
    }
    if (end?.status === ResponseStatus.CANCELLED) rendered.push(...this.#open().cancel());
    return rendered;
  }

  /** Throws if the response has not ended. */
  end(): void {
    this.#open().end();
  }

  /** Returns the events that report a failure; only once the response has begun. */
  fail(error: GatewayError, requestId: string): ResponseEvent[] {
    return this.#open().fail(error, requestId);
  }

  #open(): ResponseRenderer {
    if (this.#renderer === undefined) throw new Error('a response without a head');
    return this.#renderer;
  }
}

/**
 * Returns the frames of one response's stream. The client already has the events up to number `startingAfter`; -1: none. `failUnbegun`
 * returns the frames of a failure before the response had a head, if the status line is already sent.
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
