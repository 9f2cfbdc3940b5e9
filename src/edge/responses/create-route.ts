import type { FastifyInstance } from 'fastify';
import { decodeRequest, renderResource, responsesCodec, type ResponsesRequest } from '../../codecs/responses/index.ts';
import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import { Delivery, Endpoint, type GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { type CreateResponseRequest, type ResponseHead, ResponseService } from '../../gen/tollgate/v1/response_pb.ts';
import { attribute } from '../attribution.ts';
import { authenticate } from '../credentials.ts';
import type { Edge } from '../edge.ts';
import { Exchange } from '../exchange.ts';
import type { JsonBody } from '../json-body.ts';
import { StreamSink } from '../sinks/stream.ts';
import { WholeSink } from '../sinks/whole.ts';
import { readFacts, toAnswerOutcome } from './facts.ts';
import { stepFrames } from './step-renderer.ts';

/** The path of the Responses interface. */
export const responsesPath = '/v1/responses';

const createUrl = { url: responsesPath };

/**
 * Registers `POST /v1/responses`. It authenticates, decodes, calls the core and renders: whole, streamed or in the background, as the client
 * requests.
 */
export function registerCreateResponse(app: FastifyInstance, edge: Edge): void {
  app.post(responsesPath, { onRequest: authenticate(edge, 'api_key', true) }, (request, reply) => {
    reply.hijack();
    const exchange = new Exchange(edge, request, reply, createUrl);
    exchange.receive(body => createResponse(exchange, body));
  });
}

/** Decodes a body and calls the core. Throws the error for the client. */
function createResponse(exchange: Exchange, body: JsonBody): void {
  const { edge, request } = exchange;
  const { value, raw } = body;
  const { headers } = request.raw;
  const decoded = decodeRequest({ body: value, raw, headers });
  const { stream } = decoded;
  const call = createCall(decoded, {
    delivery: stream ? Delivery.STREAMED : Delivery.WHOLE,
    strict: edge.isStrict(headers),
  });
  request.call.setFingerprint(request, body);
  attribute(call.request, headers);
  const frames = stepFrames(-1, (error, id) => responsesCodec.renderStream(decoded).fail(error, id));
  const sink = stream ? new StreamSink(exchange, frames) : new WholeSink(exchange, renderCreated);
  exchange.push(ResponseService.method.createResponse, call, sink);
}

function renderCreated(events: readonly GenerationEvent[], head: ResponseHead | undefined): object {
  if (head === undefined) throw new Error('a response without a head');
  return renderResource(readFacts(head), toAnswerOutcome(head, events));
}

/** Settings of a new response that come from the transport, not from the body. */
export interface CreateSettings {
  readonly delivery: Delivery;
  readonly strict: boolean;
  /** The session of responses that are not stored. */
  readonly session?: string;
  /** False to generate nothing; absent means true. */
  readonly generate?: boolean;
}

/** Returns the request to the core's service for a decoded body. */
export function createCall(
  decoded: ResponsesRequest,
  settings: CreateSettings,
): CreateResponseRequest & { readonly request: GenerateRequest } {
  const { request, previousResponseId, conversationId, store, background } = decoded;
  const { delivery, strict, session, generate } = settings;
  request.endpoint = Endpoint.RESPONSES;
  request.delivery = delivery;
  request.strict = strict;
  return {
    $typeName: 'tollgate.v1.CreateResponseRequest',
    request,
    store,
    background,
    ...(previousResponseId === undefined ? {} : { previousResponseId }),
    ...(conversationId === undefined ? {} : { conversationId }),
    ...(session === undefined ? {} : { session }),
    ...(generate === undefined ? {} : { generate }),
  };
}
