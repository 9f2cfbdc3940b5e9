import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { decodeRequest, renderResource, responsesCodec, type ResponsesRequest } from '../../codecs/responses/index.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';
import { Delivery, Endpoint, type GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import type { CreateResponseRequest, CreateResponseResponse } from '../../gen/tollgate/v1/response_pb.ts';
import { windowOf } from '../../rpc/errors.ts';
import { jsonAnswer, writeAnswer } from '../answer.ts';
import { ClientGone, Disconnect } from '../client-gone.ts';
import { authenticate } from '../credentials.ts';
import type { Edge } from '../edge.ts';
import { answerError } from '../error-answer.ts';
import { GenerationFacts } from '../generation-facts.ts';
import { readJsonBody } from '../json-body.ts';
import { limitHeaders } from '../limit-headers.ts';
import { recordRequest } from '../request-record.ts';
import { factsOf, outcomeOfAnswer } from './facts.ts';
import { type StepJob, streamSteps } from './step-stream.ts';

/** The path of the Responses interface. */
export const responsesPath = '/v1/responses';

/** Offers `POST /v1/responses`: authenticate, decode, call the core, render; whole, as a stream or in the background, as the client asks. */
export function registerCreateResponse(app: FastifyInstance, edge: Edge): void {
  const identify = authenticate(edge, 'api_key');
  const onRequest = async (request: FastifyRequest): Promise<void> => {
    request.call.tellsLimits = true;
    await identify(request);
  };
  app.post(responsesPath, { onRequest }, (request, reply) => {
    reply.hijack();
    void answerCreate(edge, request, reply);
  });
}

/** Never rejects. */
async function answerCreate(edge: Edge, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const client = new Disconnect(request.raw.socket);
  const job: StepJob = { edge, request, reply, client, facts: new GenerationFacts(request.call, false) };
  let stream = false;
  edge.opened();
  try {
    const { raw } = request;
    const body = await readJsonBody(raw, reply.raw, edge.options.bodyBytesMax);
    const decoded = decodeRequest({ body: body.value, raw: body.raw, headers: raw.headers });
    ({ stream } = decoded);
    const call = createCall(decoded, {
      delivery: stream ? Delivery.STREAMED : Delivery.WHOLE,
      strict: edge.options.strict || raw.headers['x-tollgate-strict'] === 'true',
    });
    const options = { headers: request.call.rpcHeaders(), signal: client.signal };
    const steps = edge.responses.createResponse(call, options)[Symbol.asyncIterator]();
    const failUnbegun = (error: GatewayError): string[] =>
      responsesCodec.renderStream(decoded).fail(error, request.call.id);
    if (stream) await streamSteps(job, { steps, startingAfter: -1, failUnbegun });
    else await answerWhole(job, steps);
  } catch (thrown) {
    const reason = client.gone ? new ClientGone() : thrown;
    await answerError(edge, request, reply, { thrown: reason, facts: { stream, ...job.facts.record() } });
  } finally {
    client.release();
    edge.closed();
  }
}

/** What the transport, and not the body, says of a create. */
export interface CreateSettings {
  readonly delivery: Delivery;
  readonly strict: boolean;
  /** The session of responses that are not stored. */
  readonly session?: string;
}

/** A decoded body as a call of the core. */
export function createCall(
  decoded: ResponsesRequest,
  settings: CreateSettings,
): CreateResponseRequest & { readonly request: GenerateRequest } {
  const { request, previousResponseId, store, background } = decoded;
  const { delivery, strict, session } = settings;
  request.endpoint = Endpoint.RESPONSES;
  request.delivery = delivery;
  request.strict = strict;
  return {
    $typeName: 'tollgate.v1.CreateResponseRequest',
    request,
    store,
    background,
    ...(previousResponseId === undefined ? {} : { previousResponseId }),
    ...(session === undefined ? {} : { session }),
  };
}

async function answerWhole(job: StepJob, steps: AsyncIterator<CreateResponseResponse>): Promise<void> {
  const { edge, request, reply, client, facts } = job;
  const events: CreateResponseResponse['events'] = [];
  let first: CreateResponseResponse | undefined;
  for (let next = await steps.next(); next.done !== true; next = await steps.next()) {
    first ??= next.value;
    if (next.value.events.length > 0) facts.observe(next.value.events, () => request.call.elapsedMs());
    for (const event of next.value.events) events.push(event);
  }
  if (client.gone) throw new ClientGone();
  if (first?.head === undefined) throw new Error('a response without a head');
  const nowMs = edge.options.clock.now();
  const value = renderResource(factsOf(first.head), outcomeOfAnswer(first.head, events));
  const limits = limitHeaders(first.limits.map(windowOf), nowMs);
  const headers = { ...request.call.headers, ...limits, ...facts.wholeHeaders(nowMs) };
  if (edge.stopping()) headers['connection'] = 'close';
  writeAnswer(request.raw, reply.raw, jsonAnswer(200, headers, value));
  recordRequest(edge, request, { ...facts.record(), status: 200, stream: false });
}
