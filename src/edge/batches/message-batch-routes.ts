import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { renderMessageBatch } from '../../codecs/batches/render.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { Batch, ReadResultsResponse } from '../../gen/tollgate/v1/batch_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { answerJson } from '../answer.ts';
import { messagesPath } from '../count-tokens-route.ts';
import { authenticate } from '../credentials.ts';
import type { Edge } from '../edge.ts';
import { generationBodyOptions, readJsonBody } from '../json-body.ts';
import { type Query, readInteger, readText, refuse } from '../query.ts';
import { discardUpload, joinPieces } from './file-routes.ts';
import { answerStreamed } from '../send-pieces.ts';

interface OneBatch {
  readonly Params: { readonly id: string };
}

const path = `${messagesPath}/batches`;
const onePath = `${path}/:id`;
const limits = { min: 1, max: 1_000 };
/** The bounds of a batch's body, which may have many more entries than that of a request; only its bytes are limited. */
const bounds = { depthMax: 512, valuesMax: Infinity, entriesMax: Infinity };
/** How many requests are written as lines before other work of the event loop runs. */
const linesAtOnce = 500;

/** Registers Anthropic's message batches: create, read, list, cancel, delete, and their results. */
export function registerMessageBatches(app: FastifyInstance, edge: Edge): void {
  const onRequest = authenticate(edge, 'api_key');
  app.post(path, { onRequest }, async (request, reply) => {
    answerJson(edge, request, reply, await create(edge, request, reply));
  });
  app.get<{ Querystring: Query }>(path, { onRequest }, async (request, reply) => {
    const { batches, hasMore } = await edge.batches.listBatches(readPage(request.query), { headers: request.call });
    const ids = { first_id: batches[0]?.id ?? null, last_id: batches.at(-1)?.id ?? null };
    answerJson(edge, request, reply, { data: batches.map(render), has_more: hasMore, ...ids });
  });
  app.get<OneBatch>(onePath, { onRequest }, async (request, reply) => {
    const { batch } = await edge.batches.getBatch(readId(request.params.id), { headers: request.call });
    answerJson(edge, request, reply, render(batch));
  });
  app.post<OneBatch>(`${onePath}/cancel`, { onRequest }, async (request, reply) => {
    const { batch } = await edge.batches.cancelBatch(readId(request.params.id), { headers: request.call });
    answerJson(edge, request, reply, render(batch));
  });
  app.delete<OneBatch>(onePath, { onRequest }, async (request, reply) => {
    const { id } = request.params;
    await edge.batches.deleteBatch(readId(id), { headers: request.call });
    answerJson(edge, request, reply, { id, type: 'message_batch_deleted' });
  });
  app.get<OneBatch>(`${onePath}/results`, { onRequest }, async (request, reply) => {
    const { call } = request;
    await answerStreamed(edge, { request, reply }, async signal => {
      const answers = edge.batches.readResults(readId(request.params.id), { headers: call, signal });
      const first = await answers.next();
      return { headers: { 'content-type': 'application/x-jsonl' }, pieces: readChunks(first, answers) };
    });
  });
}

async function* readChunks(
  first: IteratorResult<ReadResultsResponse, unknown>,
  rest: AsyncIterable<ReadResultsResponse>,
): AsyncGenerator<Uint8Array, void, undefined> {
  if (first.done === true) return;
  yield first.value.chunk;
  for await (const { chunk } of rest) yield chunk;
}

/** Returns the id of a batch of Messages. Throws `not_found` for one of OpenAI's batches, which only OpenAI's interface can find. */
function readId(id: string): { readonly batchId: string } {
  if (id.startsWith('msgbatch_')) return { batchId: id };
  throw new GatewayError('not_found', 'There is no such batch.', { param: 'message_batch_id' });
}

function readPage(query: Query) {
  const after = readText(query, 'after_id') ?? '';
  const before = readText(query, 'before_id') ?? '';
  if (after !== '' && before !== '') throw refuse(query, 'before_id', 'must not be sent with after_id');
  return { limit: readInteger(query, 'limit', limits) ?? 0, after, before, messages: true };
}

function render(batch: Batch | undefined): object {
  if (batch === undefined) throw new GatewayError('internal', 'The gateway failed.', { cause: new Error('no batch') });
  return renderMessageBatch(batch);
}

async function create(edge: Edge, request: FastifyRequest, reply: FastifyReply): Promise<object> {
  const options = { headers: request.call };
  const body = await readJsonBody(edge, { ...generationBodyOptions(edge, request, reply), bounds });
  request.call.setFingerprint(request, body);
  const requests = readRequests(body.value);
  const { uploadId } = await edge.files.createFile({ hidden: true }, options);
  try {
    for await (const content of joinPieces(toLines(requests))) {
      await edge.files.appendFile({ uploadId, content }, options);
    }
  } catch (thrown) {
    await discardUpload(edge, uploadId, options);
    throw thrown;
  }
  const { file } = await edge.files.finishFile({ uploadId, purpose: 'batch' }, options);
  const requested = { inputFileId: file?.id ?? '', endpoint: Endpoint.MESSAGES };
  const { batch, requestId } = await edge.batches.createBatch(requested, options);
  request.call.setAnswered(requestId);
  return render(batch);
}

function readRequests(body: unknown): readonly unknown[] {
  const requests: unknown = typeof body === 'object' && body !== null && 'requests' in body ? body.requests : undefined;
  if (Array.isArray(requests) && requests.length > 0) return requests as readonly unknown[];
  const message = 'must be an array of at least one request';
  const violations = [{ path: ['requests'], message, type: 'value_error' }];
  throw new GatewayError('validation_error', `requests: ${message}`, { param: 'requests', violations });
}

/** Yields the requests as lines; other work of the event loop runs in between. */
async function* toLines(requests: readonly unknown[]): AsyncGenerator<Buffer, void, undefined> {
  for (let from = 0; from < requests.length; from += linesAtOnce) {
    const lines = requests.slice(from, from + linesAtOnce).map(each => `${JSON.stringify(each)}\n`);
    yield Buffer.from(lines.join(''));
    await nextTurn();
  }
}
