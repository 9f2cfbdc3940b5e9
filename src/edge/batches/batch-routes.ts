import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { renderBatch } from '../../codecs/batches/render.ts';
import { parseBody } from '../../codecs/schema.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { Batch } from '../../gen/tollgate/v1/batch_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { findEndpoint, endpointPath } from '../../generation/endpoints.ts';
import { answerJson } from '../answer.ts';
import { authenticate } from '../credentials.ts';
import type { Edge } from '../edge.ts';
import { generationBodyOptions, readJsonBody } from '../json-body.ts';
import { type Query, readInteger, readText } from '../query.ts';

interface OneBatch {
  readonly Params: { readonly id: string };
}

const path = '/v1/batches';
const onePath = `${path}/:id`;
const limits = { min: 1, max: 100 };

/** The body that makes a batch. */
export const batchRequestSchema = z.object({
  input_file_id: z.string('must be the id of a file'),
  endpoint: z.string('must be a path'),
  completion_window: z.literal('24h', 'must be 24h'),
  metadata: z.record(z.string(), z.string('must be a string'), 'must be an object of strings').nullish(),
});

/** Registers OpenAI's batches: create, read, list and cancel. */
export function registerBatches(app: FastifyInstance, edge: Edge): void {
  const onRequest = authenticate(edge, 'api_key');
  app.post(path, { onRequest }, async (request, reply) => {
    const options = { ...generationBodyOptions(edge, request, reply), bytesMax: edge.options.otherBodyBytesMax };
    const body = await readJsonBody(edge, options);
    request.call.setFingerprint(request, body);
    const { input_file_id: inputFileId, endpoint, metadata } = parseBody(batchRequestSchema, body.value);
    const requested = { inputFileId, endpoint: batchEndpoint(endpoint), metadata: metadata ?? {} };
    const { batch, requestId } = await edge.batches.createBatch(requested, { headers: request.call });
    request.call.setAnswered(requestId);
    answerJson(edge, request, reply, render(batch));
  });
  app.get<{ Querystring: Query }>(path, { onRequest }, async (request, reply) => {
    const { query } = request;
    const page = { limit: readInteger(query, 'limit', limits) ?? 0, after: readText(query, 'after') ?? '' };
    const { batches, hasMore } = await edge.batches.listBatches(page, { headers: request.call });
    const ids = { first_id: batches[0]?.id ?? null, last_id: batches.at(-1)?.id ?? null };
    answerJson(edge, request, reply, { object: 'list', data: batches.map(render), ...ids, has_more: hasMore });
  });
  app.get<OneBatch>(onePath, { onRequest }, async (request, reply) => {
    const { batch } = await edge.batches.getBatch(readId(request.params.id), { headers: request.call });
    answerJson(edge, request, reply, render(batch));
  });
  app.post<OneBatch>(`${onePath}/cancel`, { onRequest }, async (request, reply) => {
    const { batch } = await edge.batches.cancelBatch(readId(request.params.id), { headers: request.call });
    answerJson(edge, request, reply, render(batch));
  });
}

/** Returns the id of one of OpenAI's batches. Throws `not_found` for a batch of Messages, which only Anthropic's interface can find. */
function readId(id: string): { readonly batchId: string } {
  if (id.startsWith('batch_')) return { batchId: id };
  throw new GatewayError('not_found', 'There is no such batch.', { param: 'batch_id' });
}

/** Returns the endpoint with that path, but not that of Messages, whose batches have another interface. */
function batchEndpoint(name: string): Endpoint {
  const endpoint = findEndpoint(name) ?? Endpoint.UNSPECIFIED;
  return endpoint === Endpoint.MESSAGES ? Endpoint.UNSPECIFIED : endpoint;
}

function render(batch: Batch | undefined): object {
  if (batch === undefined) throw new GatewayError('internal', 'The gateway failed.', { cause: new Error('no batch') });
  return renderBatch(batch, endpointPath(batch.endpoint));
}
