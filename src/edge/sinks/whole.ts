import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { ResponseHead } from '../../gen/tollgate/v1/response_pb.ts';
import type { Sink } from '../../lib/push.ts';
import type { Exchange } from '../exchange.ts';
import type { AnswerMessage } from '../generation-facts.ts';

/** Renders all events of an answer as the body; `head`: the response, for the Responses interface. */
export type RenderWhole = (events: readonly GenerationEvent[], head: ResponseHead | undefined) => object;

/** Collects an answer, renders it once and sends it. */
export class WholeSink implements Sink<AnswerMessage> {
  readonly #exchange: Exchange;
  readonly #render: RenderWhole;
  /** All received events, in the arrays in which they came: usually one, which is rendered without a copy. */
  #batches: GenerationEvent[][] = [];
  #head: ResponseHead | undefined;

  constructor(exchange: Exchange, render: RenderWhole) {
    this.#exchange = exchange;
    this.#render = render;
  }

  message(message: AnswerMessage): void {
    this.#exchange.facts.observe(message);
    this.#head ??= message.head;
    if (message.events.length > 0) this.#batches.push(message.events);
  }

  end(error?: Error): void {
    const exchange = this.#exchange;
    if (error !== undefined || exchange.isGone) return exchange.fail(error);
    try {
      const [first = [], ...others] = this.#batches;
      const value = this.#render(others.length === 0 ? first : this.#batches.flat(), this.#head);
      const { call, edge, facts } = exchange;
      const headers = facts.addWholeHeaders(call.headers, edge.options.runtime.now());
      exchange.answer(headers, value, facts.outcome(200));
    } catch (thrown) {
      exchange.fail(thrown);
    }
  }
}
