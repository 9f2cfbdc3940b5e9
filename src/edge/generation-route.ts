import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ClientCodec, DecodedRequest, StreamRenderer } from '../codecs/codec.ts';
import type { GenerateResponse } from '../gen/tollgate/v1/generation_pb.ts';
import { Delivery, type Endpoint } from '../gen/tollgate/v1/request_pb.ts';
import { jsonAnswer, writeAnswer } from './answer.ts';
import type { AnswerHeaders } from './call.ts';
import { ClientGone, Disconnect } from './client-gone.ts';
import { authenticate } from './credentials.ts';
import type { Edge } from './edge.ts';
import { answerError, clientError, readWindows } from './error-answer.ts';
import { EventStream } from './event-stream.ts';
import { GenerationFacts } from './generation-facts.ts';
import { readJsonBody } from './json-body.ts';
import { limitHeaders } from './limit-headers.ts';
import { isRepeatable, repeatableHeaders } from './repeatable.ts';
import { recordRequest } from './request-record.ts';

/** A public path that generates. */
export interface GenerationRoute {
  readonly path: string;
  readonly codec: ClientCodec;
  readonly endpoint: Endpoint;
}

/** One request on such a path. */
interface Job {
  readonly edge: Edge;
  readonly route: GenerationRoute;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly client: Disconnect;
  readonly facts: GenerationFacts;
}

/** The batches of a generation, as the core sends them. */
type Batches = AsyncIterator<GenerateResponse>;

/** Offers a path that generates: authenticate, decode, call the core, render; whole or as a stream, as the client asks. */
export function registerGeneration(app: FastifyInstance, edge: Edge, route: GenerationRoute): void {
  const identify = authenticate(edge, 'api_key');
  app.post(
    route.path,
    {
      onRequest: async request => {
        request.call.tellsLimits = true;
        await identify(request);
      },
    },
    (request, reply) => {
      reply.hijack();
      void answerGeneration(edge, route, request, reply);
    },
  );
}

/** Never rejects. */
async function answerGeneration(
  edge: Edge,
  route: GenerationRoute,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const job: Job = {
    edge,
    route,
    request,
    reply,
    client: new Disconnect(request.raw.socket),
    facts: new GenerationFacts(request.call, isRepeatable(request)),
  };
  let stream = false;
  edge.opened();
  try {
    const decoded = await decode(job);
    ({ stream } = decoded);
    if (stream) await answerStream(job, decoded);
    else await answerWhole(job, decoded);
  } catch (thrown) {
    const reason = job.client.gone ? new ClientGone() : thrown;
    await answerError(edge, request, reply, { thrown: reason, facts: { stream, ...job.facts.record() } });
  } finally {
    job.client.release();
    edge.closed();
  }
}

/** A decoded request, and the bytes that it came as. */
interface DecodedBody extends DecodedRequest {
  readonly raw: Uint8Array;
}

async function decode({ edge, route, request, reply }: Job): Promise<DecodedBody> {
  const { raw } = request;
  const body = await readJsonBody(raw, reply.raw, edge.options.bodyBytesMax);
  const decoded = route.codec.decodeRequest({ body: body.value, raw: body.raw, headers: raw.headers });
  decoded.request.endpoint = route.endpoint;
  decoded.request.delivery = decoded.stream ? Delivery.STREAMED : Delivery.WHOLE;
  decoded.request.strict = edge.options.strict || raw.headers['x-tollgate-strict'] === 'true';
  return { ...decoded, raw: body.raw };
}

function generate({ edge, request, client }: Job, decoded: DecodedBody): Batches {
  const headers = repeatableHeaders(request, decoded.raw);
  return edge.generation.generate(decoded.request, { headers, signal: client.signal })[Symbol.asyncIterator]();
}

/**
 * Ends a call that nobody reads any more: an aborted signal and a reader that goes on to the end let the core settle, over every transport.
 */
async function abandon(batches: Batches, client: Disconnect): Promise<void> {
  client.stop();
  try {
    while ((await batches.next()).done !== true);
  } catch {
    // The call ends as it was told to; whatever the core says of it is in its own log.
  }
}

async function answerWhole(job: Job, decoded: DecodedBody): Promise<void> {
  const { edge, route, request, reply, client, facts } = job;
  const events: GenerateResponse['events'] = [];
  const batches = generate(job, decoded);
  for (let next = await batches.next(); next.done !== true; next = await batches.next()) {
    facts.observe(next.value.events, () => request.call.elapsedMs());
    for (const event of next.value.events) events.push(event);
  }
  if (client.gone) throw new ClientGone();
  const value = route.codec.renderWhole(events, decoded);
  const headers = { ...request.call.headers, ...facts.wholeHeaders(edge.options.clock.now()) };
  if (edge.stopping()) headers['connection'] = 'close';
  writeAnswer(request.raw, reply.raw, jsonAnswer(200, headers, value));
  recordRequest(edge, request, { ...facts.record(), status: 200, stream: false });
}

async function answerStream(job: Job, decoded: DecodedBody): Promise<void> {
  const { edge, route, request, reply, client, facts } = job;
  const renderer = route.codec.renderStream(decoded);
  const frames = new EventStream(reply.raw, {
    keepAlive: renderer.keepAlive,
    keepAliveMs: edge.options.keepAliveMs,
    client,
    earlyHeaders: () => earlyHeaders(job),
    lastAnswer: () => edge.stopping(),
  });
  const streamEnded = edge.options.metrics.streamOpened(route.path);
  try {
    const last = await sendFrames(job, generate(job, decoded), { renderer, frames });
    if (client.gone) throw new ClientGone();
    frames.end(last + renderer.end().join(''));
    recordRequest(edge, request, { ...facts.record(), status: 200, stream: true });
  } catch (thrown) {
    if (!frames.begun || client.gone) throw thrown;
    const error = clientError(thrown);
    frames.end(renderer.fail(error, facts.repeatedId ?? request.call.id).join(''));
    recordRequest(edge, request, { ...facts.record(), status: 200, code: error.code, error, stream: true });
  } finally {
    frames.release();
    streamEnded();
  }
}

/**
 * Renders and sends batch after batch, at the client's pace. Answers the frames of the last batch, which leave with those that close the stream. A
 * client that goes away ends nothing here: its call is read on to the end, which the aborted signal brings about.
 */
async function sendFrames(
  job: Job,
  batches: Batches,
  { renderer, frames }: { renderer: StreamRenderer; frames: EventStream },
): Promise<string> {
  const { edge, request, client, facts } = job;
  const elapsedMs = (): number => request.call.elapsedMs();
  let text = '';
  for (let next = await batches.next(); next.done !== true; next = await batches.next()) {
    if (client.gone) continue;
    try {
      facts.observe(next.value.events, elapsedMs);
      if (!frames.begun) frames.begin({ ...request.call.headers, ...facts.streamHeaders(edge.options.clock.now()) });
      for (const event of next.value.events) {
        for (const frame of renderer.push(event)) text += frame;
      }
    } catch (thrown) {
      await abandon(batches, client);
      throw thrown;
    }
    if (text === '' || facts.completed !== undefined) continue;
    const taken = frames.write(text);
    text = '';
    if (taken !== undefined) await taken;
  }
  return text;
}

/** What can be told before the model has begun to answer: the key's windows. */
async function earlyHeaders({ edge, request: { call } }: Job): Promise<AnswerHeaders> {
  return { ...call.headers, ...limitHeaders(await readWindows(edge, call), edge.options.clock.now()) };
}
