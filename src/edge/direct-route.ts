import type { FastifyInstance, FastifyRequest } from 'fastify';
import { decodeEmbedRequest } from '../codecs/embeddings/decode-request.ts';
import { renderEmbedAnswer } from '../codecs/embeddings/render-answer.ts';
import { decodeRerankRequest } from '../codecs/rerank/decode-request.ts';
import { renderRerankAnswer } from '../codecs/rerank/render-answer.ts';
import type { EmbedRequest, EmbedResponse } from '../gen/tollgate/v1/embedding_pb.ts';
import type { LimitState } from '../gen/tollgate/v1/event_pb.ts';
import type { Attribution } from '../gen/tollgate/v1/request_pb.ts';
import type { RerankRequest, RerankResponse } from '../gen/tollgate/v1/rerank_pb.ts';
import { dollarsText } from '../lib/dollars.ts';
import type { CallOptions } from '../rpc/lean-client.ts';
import { attribute } from './attribution.ts';
import { ClientGone } from './client-watch.ts';
import { authenticate } from './credentials.ts';
import type { Edge } from './edge.ts';
import { Exchange, readModel } from './exchange.ts';
import { geminiTarget } from './gemini/target.ts';
import { warningsText } from './generation-facts.ts';
import { readJsonBody } from './json-body.ts';

/** The fields of a request that the edge sets. */
interface DirectRequest {
  strict: boolean;
  attribution?: Attribution | undefined;
}

/** The fields of an answer that its headers and its record are made from. */
interface DirectAnswer {
  readonly requestId: string;
  readonly model: string;
  readonly limits: LimitState[];
  readonly route: string;
  readonly warnings: string[];
  readonly costNanoUsd: bigint;
}

/** A path whose answers are not streamed. */
export interface DirectRoute<Request extends DirectRequest, Answer extends DirectAnswer> {
  /** The path in log and metrics; absent: the one that is registered. */
  readonly shownUrl?: string;
  /** Decodes the body of a request. Throws `validation_error` that names the field. */
  decode(body: unknown, request: FastifyRequest): Request;
  /** Calls the core. */
  ask(request: Request, options: CallOptions): Promise<Answer>;
  /** Returns the JSON of an answer. */
  render(answer: Answer): object;
}

/** Returns the route of embeddings. */
export function embeddingRoute({ embeddings }: Edge): DirectRoute<EmbedRequest, EmbedResponse> {
  return { decode: decodeEmbedRequest, ask: embeddings.embed, render: renderEmbedAnswer };
}

/** Returns the route of rerank. */
export function rerankRoute({ rerank }: Edge): DirectRoute<RerankRequest, RerankResponse> {
  return { decode: decodeRerankRequest, ask: rerank.rerank, render: renderRerankAnswer };
}

/** Registers a path whose answers are not streamed: authenticate, decode, call the core, render. */
export function registerDirect<Request extends DirectRequest, Answer extends DirectAnswer>(
  app: FastifyInstance,
  edge: Edge,
  url: string,
  route: DirectRoute<Request, Answer>,
): void {
  const routeOptions = { url: route.shownUrl ?? url };
  app.post(url, { onRequest: authenticate(edge, 'api_key', true) }, (request, reply) => {
    reply.hijack();
    void answerDirectly(new Exchange(edge, request, reply, routeOptions), route);
  });
}

/** Answers a request. Never rejects: failures are answered. */
async function answerDirectly<Request extends DirectRequest, Answer extends DirectAnswer>(
  exchange: Exchange,
  route: DirectRoute<Request, Answer>,
): Promise<void> {
  const { edge, request, call, facts } = exchange;
  try {
    const body = await readJsonBody(edge, exchange.bodyOptions);
    call.requestedModel = geminiTarget(request.raw)?.model ?? readModel(body.value);
    const requested = route.decode(body.value, request);
    requested.strict = edge.isStrict(request.raw.headers);
    attribute(requested, request.raw.headers);
    call.setFingerprint(request, body);
    const answer = await route.ask(requested, { headers: call, signal: exchange.signal });
    if (exchange.isGone) throw new ClientGone();
    facts.setAnswer(answer.requestId, answer.limits);
    const headers = facts.addHeaders(call.headers, edge.options.runtime.now());
    if (answer.route !== '') headers['x-tollgate-route'] = answer.route;
    if (answer.warnings.length > 0) headers['x-tollgate-warnings'] = warningsText(answer.warnings);
    headers['x-tollgate-cost'] = dollarsText(answer.costNanoUsd);
    const repeats = facts.repeatedId;
    // The usage in a repeat was already counted when it was charged.
    const costNanoUsd = repeats === undefined ? answer.costNanoUsd : undefined;
    exchange.answer(headers, route.render(answer), { status: 200, model: answer.model, repeats, costNanoUsd });
  } catch (thrown) {
    exchange.fail(thrown);
  }
}
