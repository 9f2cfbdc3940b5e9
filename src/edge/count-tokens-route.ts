import type { FastifyInstance } from 'fastify';
import { decodeCountRequest } from '../codecs/messages/index.ts';
import { answerJson } from './answer.ts';
import { whileConnected } from './client-watch.ts';
import { authenticate } from './credentials.ts';
import type { Edge } from './edge.ts';
import { generationBodyOptions, readJsonBody } from './json-body.ts';

/** The path of the Anthropic interface. Errors of this path and of all paths below it have Anthropic's shape. */
export const messagesPath = '/v1/messages';

/** Returns whether the target of a request is a path of the Anthropic interface. */
export function isMessagesPath(target: string): boolean {
  return target.startsWith(messagesPath) && ['', '/', '?'].includes(target.charAt(messagesPath.length));
}

/** Registers the path that counts a request's input tokens. A call is free, counts towards no limit and makes no record. Source: docs/interfaces/messages.md "Counting tokens". */
export function registerCountTokens(app: FastifyInstance, edge: Edge): void {
  const onRequest = authenticate(edge, 'api_key');
  app.post(`${messagesPath}/count_tokens`, { onRequest }, async (request, reply) => {
    const { call, raw } = request;
    const { inputTokens } = await whileConnected(reply.raw, edge.options.runtime, async signal => {
      const body = await readJsonBody(edge, generationBodyOptions(edge, request, reply));
      const counted = decodeCountRequest({ body: body.value, raw: body.raw, headers: raw.headers });
      return edge.generation.countTokens({ request: counted }, { headers: call, signal });
    });
    answerJson(edge, request, reply, { input_tokens: inputTokens });
  });
}
