import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { decodeContinuingRequest, renderItem, renderUsage } from '../../codecs/responses/index.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { Delivery } from '../../gen/tollgate/v1/request_pb.ts';
import type { CompactConversationResponse } from '../../gen/tollgate/v1/response_pb.ts';
import { dollarsText } from '../../lib/dollars.ts';
import { toRequestId } from '../../generation/response-ids.ts';
import { answerJson } from '../answer.ts';
import { ClientGone, whileConnected } from '../client-watch.ts';
import { authenticate } from '../credentials.ts';
import type { Edge } from '../edge.ts';
import { Exchange } from '../exchange.ts';
import { generationBodyOptions, type JsonBody, readJsonBody } from '../json-body.ts';
import { createCall, responsesPath } from './create-route.ts';

/** Registers the paths for whole conversations: counting tokens, and compaction. */
export function registerConversations(app: FastifyInstance, edge: Edge): void {
  const onRequest = authenticate(edge, 'api_key');
  app.post(`${responsesPath}/input_tokens`, { onRequest }, async (request, reply) => {
    const { inputTokens } = await whileConnected(reply.raw, edge.options.runtime, async signal => {
      const call = decode(edge, request, await readBody(edge, request, reply));
      return edge.responses.countInputTokens({ request: call }, { headers: request.call, signal });
    });
    answerJson(edge, request, reply, { object: 'response.input_tokens', input_tokens: inputTokens });
  });
  const compact = { url: `${responsesPath}/compact` };
  app.post(compact.url, { onRequest: authenticate(edge, 'api_key', true) }, (request, reply) => {
    reply.hijack();
    void answerCompact(new Exchange(edge, request, reply, compact));
  });
}

function readBody(edge: Edge, request: FastifyRequest, reply: FastifyReply): Promise<JsonBody> {
  return readJsonBody(edge, generationBodyOptions(edge, request, reply));
}

/** Decodes a body to the request of the core's service. */
function decode(edge: Edge, { raw: { headers } }: FastifyRequest, { value, raw }: JsonBody) {
  const decoded = decodeContinuingRequest({ body: value, raw, headers });
  return createCall({ ...decoded, background: false }, { delivery: Delivery.WHOLE, strict: edge.isStrict(headers) });
}

/** Compacts and answers. Never rejects: failures are answered. */
async function answerCompact(exchange: Exchange): Promise<void> {
  const { edge, request, reply } = exchange;
  try {
    const body = await readBody(edge, request, reply);
    const { request: requested, previousResponseId, conversationId } = decode(edge, request, body);
    if (conversationId !== undefined) {
      throw new GatewayError('unsupported_parameter', 'A stored conversation can’t be compacted: send its items.', {
        param: 'conversation',
      });
    }
    request.call.setFingerprint(request, body);
    const compacted = await edge.responses.compactConversation(
      { request: requested, ...(previousResponseId === undefined ? {} : { previousResponseId }) },
      { headers: request.call, signal: exchange.signal },
    );
    if (exchange.isGone) throw new ClientGone();
    sendCompacted(exchange, compacted);
  } catch (thrown) {
    exchange.fail(thrown);
  }
}

function sendCompacted(exchange: Exchange, compacted: CompactConversationResponse): void {
  const { edge, request, facts } = exchange;
  const { id, createdAtMs, items, completed, limits, model } = compacted;
  if (completed === undefined) throw new Error('a compaction without its usage');
  facts.setAnswer(toRequestId(id), limits);
  const headers = facts.addHeaders(request.call.headers, edge.options.runtime.now());
  headers['x-tollgate-cost'] = dollarsText(completed.costNanoUsd);
  const value = {
    id,
    object: 'response.compaction',
    created_at: Math.floor(Number(createdAtMs) / 1000),
    output: items.map(renderItem),
    usage: renderUsage(completed),
  };
  const repeats = facts.repeatedId;
  const counted = repeats === undefined ? completed : undefined;
  exchange.answer(headers, value, { status: 200, model, completed: counted, repeats }, true);
}
