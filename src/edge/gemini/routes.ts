import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import {
  decodeBatchEmbedRequest,
  decodeEmbedRequest,
  decodeGemini,
  decodeGeminiCount,
  renderEmbedding,
  renderEmbeddings,
  renderGemini,
} from '../../codecs/gemini/index.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { GenerationService } from '../../gen/tollgate/v1/generation_pb.ts';
import { attribute } from '../attribution.ts';
import { answerJson } from '../answer.ts';
import { whileConnected } from '../client-watch.ts';
import { authenticate } from '../credentials.ts';
import { registerDirect } from '../direct-route.ts';
import type { Edge } from '../edge.ts';
import { Exchange } from '../exchange.ts';
import { generationBodyOptions, type JsonBody, readJsonBody } from '../json-body.ts';
import type { Query } from '../query.ts';
import { StreamSink } from '../sinks/stream.ts';
import { WholeSink } from '../sinks/whole.ts';
import { GeminiFrames } from './frames.ts';
import { registerGeminiModels } from './model-routes.ts';
import { geminiRoutes, geminiTarget, shownPattern } from './target.ts';

/** Registers Gemini's interface. Source: docs/interfaces/gemini.md. */
export function registerGemini(app: FastifyInstance, edge: Edge): void {
  // Whole and streamed answers have one name in log and metrics.
  const url = { url: shownPattern(geminiRoutes.generateContent) };
  for (const path of [geminiRoutes.generateContent, geminiRoutes.streamGenerateContent]) {
    app.post<{ Querystring: Query }>(path, { onRequest: authenticate(edge, 'api_key', true) }, (request, reply) => {
      reply.hijack();
      const exchange = new Exchange(edge, request, reply, url);
      exchange.receive(body => generate(exchange, request, body));
    });
  }
  app.post(geminiRoutes.countTokens, { onRequest: authenticate(edge, 'api_key') }, (request, reply) =>
    countTokens(edge, request, reply),
  );
  registerEmbeddings(app, edge);
  registerGeminiModels(app, edge);
}

function registerEmbeddings(app: FastifyInstance, edge: Edge): void {
  const ask = edge.embeddings.embed;
  // Requests for one text and for several have one name in log and metrics.
  const shownUrl = shownPattern(geminiRoutes.embedContent);
  registerDirect(app, edge, geminiRoutes.embedContent, {
    shownUrl,
    decode: (body, request) => decodeEmbedRequest(body, readTarget(request).model),
    ask,
    render: renderEmbedding,
  });
  registerDirect(app, edge, geminiRoutes.batchEmbedContents, {
    shownUrl,
    decode: (body, request) => decodeBatchEmbedRequest(body, readTarget(request).model),
    ask,
    render: renderEmbeddings,
  });
}

/** Decodes a body and calls the core. Throws the error for the client. */
function generate(exchange: Exchange, request: FastifyRequest<{ Querystring: Query }>, body: JsonBody): void {
  const { edge } = exchange;
  const { headers } = request.raw;
  const { model, stream } = readTarget(request);
  const decoded = decodeGemini({ body: body.value, raw: body.raw, headers, model, stream });
  decoded.request.strict = edge.isStrict(headers);
  attribute(decoded.request, headers);
  request.call.setFingerprint(request, body);
  const sink = stream
    ? new StreamSink(exchange, new GeminiFrames(decoded, request.query['alt'] === 'sse'))
    : new WholeSink(exchange, events => renderGemini(events, decoded));
  exchange.push(GenerationService.method.generate, decoded.request, sink);
}

async function countTokens(edge: Edge, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { call, raw } = request;
  const { inputTokens } = await whileConnected(reply.raw, edge.options.runtime, async signal => {
    const body = await readJsonBody(edge, generationBodyOptions(edge, request, reply));
    const { model, stream } = readTarget(request);
    const counted = decodeGeminiCount({ body: body.value, raw: body.raw, headers: raw.headers, model, stream });
    return edge.generation.countTokens({ request: counted }, { headers: call, signal });
  });
  answerJson(edge, request, reply, { totalTokens: inputTokens });
}

/** Returns the model that a path names, and whether it asks for a stream. Throws `not_found` if the path was written as its own pattern. */
function readTarget({ raw }: Pick<FastifyRequest, 'raw'>): { model: string; stream: boolean } {
  const { model, method } = geminiTarget(raw) ?? {};
  if (model === undefined) throw new GatewayError('not_found', 'No such path.');
  return { model, stream: method === 'streamGenerateContent' };
}
