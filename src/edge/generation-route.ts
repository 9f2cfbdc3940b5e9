import type { FastifyInstance } from 'fastify';
import type { ClientCodec } from '../codecs/codec.ts';
import { GenerationService } from '../gen/tollgate/v1/generation_pb.ts';
import { Delivery, type Endpoint } from '../gen/tollgate/v1/request_pb.ts';
import { attribute } from './attribution.ts';
import { authenticate } from './credentials.ts';
import type { Edge } from './edge.ts';
import { Exchange } from './exchange.ts';
import type { JsonBody } from './json-body.ts';
import { eventFrames, StreamSink } from './sinks/stream.ts';
import { WholeSink } from './sinks/whole.ts';

/** A public path that generates. */
export interface GenerationRoute {
  readonly path: string;
  readonly codec: ClientCodec;
  readonly endpoint: Endpoint;
}

/** Registers a path that generates. It authenticates, decodes, calls the core and renders, streamed or whole as the client requests. */
export function registerGeneration(app: FastifyInstance, edge: Edge, route: GenerationRoute): void {
  const url = { url: route.path };
  app.post(route.path, { onRequest: authenticate(edge, 'api_key', true) }, (request, reply) => {
    reply.hijack();
    const exchange = new Exchange(edge, request, reply, url);
    exchange.receive(body => generate(exchange, route, body));
  });
}

/** Decodes a body and calls the core. Throws the error for the client. */
function generate(exchange: Exchange, { codec, endpoint }: GenerationRoute, body: JsonBody): void {
  const { edge, request } = exchange;
  const { value, raw } = body;
  const { headers } = request.raw;
  const decoded = codec.decodeRequest({ body: value, raw, headers });
  const { request: requested, stream } = decoded;
  requested.endpoint = endpoint;
  requested.delivery = stream ? Delivery.STREAMED : Delivery.WHOLE;
  requested.strict = edge.isStrict(headers);
  attribute(requested, headers);
  request.call.setFingerprint(request, body);
  const sink = stream
    ? new StreamSink(exchange, eventFrames(codec.renderStream(decoded)))
    : new WholeSink(exchange, events => {
        exchange.facts.addWarnings(codec.listLost?.(events));
        return codec.renderWhole(events, decoded);
      });
  exchange.push(GenerationService.method.generate, requested, sink);
}
