import type { FastifyInstance } from 'fastify';
import { decodeCountRequest } from '../codecs/messages/index.ts';
import { jsonAnswer, writeAnswer } from './answer.ts';
import { ClientGone, Disconnect } from './client-gone.ts';
import { authenticate } from './credentials.ts';
import type { Edge } from './edge.ts';
import { readJsonBody } from './json-body.ts';
import { recordRequest } from './request-record.ts';

/** The path of the Anthropic interface; its errors, and those of all paths below it, have that interface's shape. */
export const messagesPath = '/v1/messages';

/** Whether the target of a request is a path of the Anthropic interface. */
export function isMessagesPath(target: string): boolean {
  const [path = ''] = target.split('?', 1);
  return path === messagesPath || path.startsWith(`${messagesPath}/`);
}

/** Offers the count of a request's input tokens: free, without a limit or a record of the account. Source: decisions §4. */
export function registerCountTokens(app: FastifyInstance, edge: Edge): void {
  const identify = authenticate(edge, 'api_key');
  app.post(`${messagesPath}/count_tokens`, { onRequest: identify }, async (request, reply) => {
    const { call, raw } = request;
    const client = new Disconnect(raw.socket);
    try {
      const body = await readJsonBody(raw, reply.raw, edge.options.bodyBytesMax);
      const counted = decodeCountRequest({ body: body.value, raw: body.raw, headers: raw.headers });
      const options = { headers: call.rpcHeaders(), signal: client.signal };
      const { inputTokens } = await edge.generation.countTokens({ request: counted }, options);
      reply.hijack();
      writeAnswer(raw, reply.raw, jsonAnswer(200, call.headers, { input_tokens: inputTokens }));
      recordRequest(edge, request, { status: 200 });
    } catch (thrown) {
      throw client.gone ? new ClientGone() : thrown;
    } finally {
      client.release();
    }
  });
}
