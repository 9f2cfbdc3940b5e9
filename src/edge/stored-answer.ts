import type { FastifyReply, FastifyRequest } from 'fastify';
import { isLargeJson, LargeJson } from '../lib/large-json.ts';
import { answerJson, jsonType } from './answer.ts';
import type { Call } from './call.ts';
import type { Edge } from './edge.ts';
import { bodiesFull } from './json-body.ts';
import { answerStreamed } from './send-pieces.ts';

/** Answers like `answerJson`. A value with texts of megabytes is written piece by piece while the client reads it: never is all of the JSON in memory. */
export async function answerStored(
  edge: Edge,
  request: FastifyRequest,
  reply: FastifyReply,
  value: object,
): Promise<void> {
  if (!isLargeJson(value)) return answerJson(edge, request, reply, value);
  await answerStreamed(edge, { request, reply }, async () => {
    const json = await LargeJson.measure(value, () => true);
    if (!request.call.isCounted) takeMemory(edge, request.call, json.length);
    return { headers: { 'content-type': jsonType, 'content-length': json.length }, pieces: json.slices() };
  });
}

/** Takes memory for the contents that a core in another process or thread has read. Throws `overloaded` if there is not enough. */
function takeMemory(edge: Edge, call: Call, bytes: number): void {
  const { memory } = edge.options;
  const owner = call.credential?.accountId ?? 0n;
  const taken = Math.min(bytes, memory.ownerMax);
  const outcome = memory.take(owner, taken);
  if (outcome !== 'taken') throw bodiesFull(outcome);
  call.onOver(() => memory.give(owner, taken));
}
