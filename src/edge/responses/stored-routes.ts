import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { renderItem, renderResource } from '../../codecs/responses/index.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';
import type { Response } from '../../gen/tollgate/v1/response_pb.ts';
import { type AnswerHeaders } from '../call.ts';
import { jsonAnswer, writeAnswer } from '../answer.ts';
import { ClientGone, Disconnect } from '../client-gone.ts';
import { authenticate } from '../credentials.ts';
import type { Edge } from '../edge.ts';
import { answerError } from '../error-answer.ts';
import { GenerationFacts } from '../generation-facts.ts';
import { recordRequest } from '../request-record.ts';
import { responsesPath } from './create-route.ts';
import { factsOf, outcomeOfResponse } from './facts.ts';
import { readFollow, readInclude, readItemsPage } from './stored-query.ts';
import type { Query } from '../query.ts';
import { streamSteps } from './step-stream.ts';

interface OneResponse {
  readonly Params: { readonly id: string };
  readonly Querystring: Query;
}

const onePath = `${responsesPath}/:id`;

/** Offers what can be done with responses that are stored: read, followed, cancelled, deleted, and their input listed. */
export function registerStoredResponses(app: FastifyInstance, edge: Edge): void {
  const onRequest = authenticate(edge, 'api_key');
  app.get<OneResponse>(onePath, { onRequest }, async (request, reply) => {
    const include = readInclude(request.query);
    const follow = readFollow(request.query);
    if (follow !== undefined) {
      reply.hijack();
      void answerFollow(edge, request, reply, { id: request.params.id, ...follow });
      return;
    }
    const call = { id: request.params.id, include };
    const { response } = await edge.responses.getResponse(call, { headers: request.call.rpcHeaders() });
    answer(edge, request, reply, resourceOf(response));
  });
  app.post<OneResponse>(`${onePath}/cancel`, { onRequest }, async (request, reply) => {
    const { id } = request.params;
    const { response } = await edge.responses.cancelResponse({ id }, { headers: request.call.rpcHeaders() });
    answer(edge, request, reply, resourceOf(response));
  });
  app.delete<OneResponse>(onePath, { onRequest }, async (request, reply) => {
    const { id } = request.params;
    await edge.responses.deleteResponse({ id }, { headers: request.call.rpcHeaders() });
    answer(edge, request, reply, { id, object: 'response', deleted: true });
  });
  app.get<OneResponse>(`${onePath}/input_items`, { onRequest }, async (request, reply) => {
    const call = { id: request.params.id, ...readItemsPage(request.query) };
    const { items, hasMore } = await edge.responses.listInputItems(call, { headers: request.call.rpcHeaders() });
    const ids = { first_id: items[0]?.id ?? null, last_id: items.at(-1)?.id ?? null };
    answer(edge, request, reply, { object: 'list', data: items.map(renderItem), ...ids, has_more: hasMore });
  });
}

function resourceOf(response: Response | undefined): object {
  if (response?.head === undefined) throw new Error('a response without a head');
  return renderResource(factsOf(response.head), outcomeOfResponse(response));
}

/** Answers a body, and writes the log line. */
export function answer(edge: Edge, request: FastifyRequest, reply: FastifyReply, value: object): void {
  reply.hijack();
  const headers: AnswerHeaders = edge.stopping()
    ? { ...request.call.headers, connection: 'close' }
    : request.call.headers;
  writeAnswer(request.raw, reply.raw, jsonAnswer(200, headers, value));
  recordRequest(edge, request, { status: 200 });
}

/** Never rejects. */
async function answerFollow(
  edge: Edge,
  request: FastifyRequest,
  reply: FastifyReply,
  { id, startingAfter }: { readonly id: string; readonly startingAfter: number },
): Promise<void> {
  const client = new Disconnect(request.raw.socket);
  const facts = new GenerationFacts(request.call, false);
  edge.opened();
  try {
    const options = { headers: request.call.rpcHeaders(), signal: client.signal };
    const steps = edge.responses.followResponse({ id }, options)[Symbol.asyncIterator]();
    await streamSteps({ edge, request, reply, client, facts }, { steps, startingAfter, failUnbegun: neverUnbegun });
  } catch (thrown) {
    const reason = client.gone ? new ClientGone() : thrown;
    await answerError(edge, request, reply, { thrown: reason, facts: { stream: true } });
  } finally {
    client.release();
    edge.closed();
  }
}

/** A stored response's head comes before anything is waited for; should the core still be so slow, there is nothing to name. */
function neverUnbegun(error: GatewayError): string[] {
  throw error;
}
