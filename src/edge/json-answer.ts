import type { FastifyReply, FastifyRequest } from 'fastify';
import { jsonAnswer, writeAnswer } from './answer.ts';
import type { Edge } from './edge.ts';
import { recordRequest } from './request-record.ts';

/** Answers a request that generates nothing with JSON and status 200, and records it. */
export function answerJson(edge: Edge, request: FastifyRequest, reply: FastifyReply, value: object): void {
  reply.hijack();
  const headers = edge.stopping() ? { ...request.call.headers, connection: 'close' } : request.call.headers;
  writeAnswer(request.raw, reply.raw, jsonAnswer(200, headers, value));
  recordRequest(edge, request, { status: 200 });
}
