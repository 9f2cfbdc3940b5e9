import type { ServerResponse } from 'node:http';
import type { DescMessage, DescMethodServerStreaming, MessageShape } from '@bufbuild/protobuf';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Sink, StreamControl } from '../lib/push.ts';
import { isLargeJson, LargeJson } from '../lib/large-json.ts';
import { jsonAnswer, jsonType, writeAnswer } from './answer.ts';
import type { AnswerHeaders, Call } from './call.ts';
import { ClientGone, ClientWatch, probeClient } from './client-watch.ts';
import type { Edge } from './edge.ts';
import { answerError } from './error-answer.ts';
import { geminiTarget } from './gemini/target.ts';
import { GenerationFacts } from './generation-facts.ts';
import { type BodyOptions, generationBodyOptions, type JsonBody, receiveJson } from './json-body.ts';
import { sendPieces } from './send-pieces.ts';
import { type RecordedRequest, recordRequest, type RequestOutcome } from './request-record.ts';

/**
 * One request that generates, and its answer: connects the client and the core's call, and at the end writes the log line and the metrics,
 * once. The answer counts as open until then, even if the client has disconnected, because the core still settles it.
 */
export class Exchange extends ClientWatch implements RecordedRequest {
  readonly edge: Edge;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly call: Call;
  readonly method: string;
  readonly routeOptions: { readonly url: string };
  readonly facts: GenerationFacts;
  readonly #accountId: bigint;
  /** Sends a keep-alive on a stream that has begun; undefined if the answer is not streamed. */
  keepAlive: (() => void) | undefined;
  /** Controls the core's call; undefined until the call is made. */
  control: StreamControl | undefined;

  /**
   * `route` has the pattern of the request's path. All requests of the path share one object, because Fastify would make a new one at every
   * access.
   */
  constructor(edge: Edge, request: FastifyRequest, reply: FastifyReply, route: { readonly url: string }) {
    super(request.raw.socket);
    this.edge = edge;
    this.request = request;
    this.reply = reply;
    this.call = request.call;
    this.method = request.method;
    this.routeOptions = route;
    this.facts = new GenerationFacts(this.call);
    this.call.rendersAnswer = true;
    edge.answerStarted();
    this.#accountId = this.call.credential?.accountId ?? 0n;
    edge.load.begin(this.#accountId);
    if (request.raw.socket.readableEnded) this.clientEnded();
  }

  /** Reads the request's JSON body and calls `next` with it. Answers any failure, also if `next` throws. */
  receive(next: (body: JsonBody) => void): void {
    const { edge, bodyOptions } = this;
    receiveJson(edge, bodyOptions, body => {
      const begin = (): void => {
        try {
          if (body instanceof Error) throw body;
          this.call.requestedModel = geminiTarget(this.request.raw)?.model ?? readModel(body.value);
          next(body);
        } catch (thrown) {
          this.fail(thrown);
        }
      };
      if (!edge.queue.run(this.#accountId, begin)) this.fail(tooManyWaiting());
    });
  }

  /** The options for reading the body of a request that generates. */
  get bodyOptions(): BodyOptions {
    const { edge, request, reply } = this;
    return generationBodyOptions(edge, request, reply);
  }

  /** Calls a method of the core, whose messages go to `sink`; `sink` ends the exchange. */
  push<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    message: MessageShape<I>,
    sink: Sink<MessageShape<O>>,
  ): void {
    this.control = this.edge.options.transport.push(method, message, this.call, sink);
    if (this.isGone) this.control.cancel();
  }

  override clientEnded(): void {
    probeClient(this, this.edge.options.runtime);
  }

  get response(): ServerResponse {
    return this.reply.raw;
  }

  probe(): void {
    const { request, reply } = this;
    if (reply.raw.headersSent) this.keepAlive?.();
    else if (request.raw.httpVersion === '1.0') request.raw.socket.destroy();
    else reply.raw.writeProcessing();
  }

  override clientLeft(): void {
    super.clientLeft();
    this.control?.cancel();
  }

  /** Answers with JSON and ends. `isLarge`: whether its texts may have megabytes; by default, if memory was reserved for them. */
  answer(headers: AnswerHeaders, value: object, outcome: RequestOutcome, isLarge = this.call.isCounted): void {
    if (this.edge.stopping()) headers['connection'] = 'close';
    if (isLarge && this.call.bodies === undefined && isLargeJson(value)) {
      void this.#answerInPieces(headers, value, outcome);
      return;
    }
    const answer = jsonAnswer(outcome.status, headers, value);
    this.call.bodies?.answered(answer.body);
    writeAnswer(this.request.raw, this.reply.raw, answer);
    this.end(outcome);
  }

  /** Writes an answer piece by piece while the client reads it: never is all of the JSON in memory. Never rejects. */
  async #answerInPieces(headers: AnswerHeaders, value: object, outcome: RequestOutcome): Promise<void> {
    const { raw } = this.reply;
    try {
      const json = await LargeJson.measure(value, () => true);
      if (this.isGone) throw new ClientGone();
      raw.writeHead(outcome.status, { ...headers, 'content-type': jsonType, 'content-length': json.length });
      await sendPieces(raw, json.slices(), this);
      this.end(outcome);
    } catch (thrown) {
      // A truncated body must not look complete.
      if (raw.headersSent) raw.destroy();
      this.fail(thrown);
    }
  }

  /** Ends with an error for the client, unless it has disconnected. Nothing may have been sent before. */
  fail(thrown: unknown): void {
    const { edge, request, reply, facts } = this;
    const failure = { thrown: this.isGone ? new ClientGone() : thrown, facts };
    void answerError(edge, request, reply, failure).then(() => this.#close());
  }

  /** Ends after an answer was written: records the request, and stops watching. */
  end(outcome: RequestOutcome): void {
    recordRequest(this.edge, this, outcome);
    this.#close();
  }

  #close(): void {
    this.release();
    this.call.bodies?.clientEnded();
    this.edge.answerEnded();
    this.edge.load.end(this.#accountId);
  }
}

/** Returns the model that a body names; undefined if it names none. */
export function readModel(value: unknown): string | undefined {
  const { model } = (value ?? {}) as { readonly model?: unknown };
  return typeof model === 'string' ? model : undefined;
}

/** Returns the error for an account whose requests arrive faster than they can be started. */
function tooManyWaiting(): GatewayError {
  return new GatewayError('overloaded', 'Too many requests of this account wait to begin.', { retryAfterMs: 1000 });
}
