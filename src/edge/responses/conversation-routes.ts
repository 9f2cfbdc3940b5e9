import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { decodeContinuingRequest, renderItem, renderUsage } from '../../codecs/responses/index.ts';
import { Delivery } from '../../gen/tollgate/v1/request_pb.ts';
import { dollarsText } from '../../lib/dollars.ts';
import { windowOf } from '../../rpc/errors.ts';
import { jsonAnswer, writeAnswer } from '../answer.ts';
import { ClientGone, Disconnect } from '../client-gone.ts';
import { authenticate } from '../credentials.ts';
import type { Edge } from '../edge.ts';
import { answerError } from '../error-answer.ts';
import { readJsonBody } from '../json-body.ts';
import { limitHeaders } from '../limit-headers.ts';
import { recordRequest } from '../request-record.ts';
import { createCall, responsesPath } from './create-route.ts';
import { answer } from './stored-routes.ts';

/** Offers what is done with a whole conversation: its tokens counted, and it made shorter. */
export function registerConversations(app: FastifyInstance, edge: Edge): void {
  const identify = authenticate(edge, 'api_key');
  app.post(`${responsesPath}/input_tokens`, { onRequest: identify }, async (request, reply) => {
    const client = new Disconnect(request.raw.socket);
    try {
      const call = await decode(edge, request, reply);
      const options = { headers: request.call.rpcHeaders(), signal: client.signal };
      const { inputTokens } = await edge.responses.countInputTokens({ request: call }, options);
      answer(edge, request, reply, { object: 'response.input_tokens', input_tokens: inputTokens });
    } catch (thrown) {
      throw client.gone ? new ClientGone() : thrown;
    } finally {
      client.release();
    }
  });
  const onRequest = async (request: FastifyRequest): Promise<void> => {
    request.call.tellsLimits = true;
    await identify(request);
  };
  app.post(`${responsesPath}/compact`, { onRequest }, (request, reply) => {
    reply.hijack();
    void answerCompact(edge, request, reply);
  });
}

async function decode(
  edge: Edge,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<ReturnType<typeof createCall>> {
  const { raw } = request;
  const body = await readJsonBody(raw, reply.raw, edge.options.bodyBytesMax);
  const decoded = decodeContinuingRequest({ body: body.value, raw: body.raw, headers: raw.headers });
  const strict = edge.options.strict || raw.headers['x-tollgate-strict'] === 'true';
  return createCall({ ...decoded, background: false }, { delivery: Delivery.WHOLE, strict });
}

/** Never rejects. */
async function answerCompact(edge: Edge, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const client = new Disconnect(request.raw.socket);
  edge.opened();
  try {
    const { request: asked, previousResponseId } = await decode(edge, request, reply);
    const call = { request: asked, ...(previousResponseId === undefined ? {} : { previousResponseId }) };
    const options = { headers: request.call.rpcHeaders(), signal: client.signal };
    const compacted = await edge.responses.compactConversation(call, options);
    if (client.gone) throw new ClientGone();
    const { id, createdAtMs, items, completed, limits, model } = compacted;
    if (completed === undefined) throw new Error('a compaction without its usage');
    const headers = {
      ...request.call.headers,
      ...limitHeaders(limits.map(windowOf), edge.options.clock.now()),
      'x-tollgate-cost': dollarsText(completed.costNanoUsd),
      ...(edge.stopping() ? { connection: 'close' } : {}),
    };
    const value = {
      id,
      object: 'response.compaction',
      created_at: Math.floor(Number(createdAtMs) / 1000),
      output: items.map(renderItem),
      usage: renderUsage(completed),
    };
    writeAnswer(request.raw, reply.raw, jsonAnswer(200, headers, value));
    recordRequest(edge, request, { status: 200, stream: false, model, completed });
  } catch (thrown) {
    await answerError(edge, request, reply, { thrown: client.gone ? new ClientGone() : thrown });
  } finally {
    client.release();
    edge.closed();
  }
}
