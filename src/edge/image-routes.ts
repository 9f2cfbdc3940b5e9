import multipart from '@fastify/multipart';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import {
  decodeEdit,
  decodeEditForm,
  type DecodedImages,
  decodeGeneration,
  withFormNames,
} from '../codecs/images/decode-request.ts';
import { ImageAnswerFold, renderTask, renderWholeTask } from '../codecs/images/render-answer.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { ImageTask } from '../gen/tollgate/v1/image_pb.ts';
import { Endpoint } from '../gen/tollgate/v1/request_pb.ts';
import { imageBytesMax } from '../generation/images/check-image-request.ts';
import { dollarsText } from '../lib/dollars.ts';
import { fromConnectError, fromErrorDetail, windowOf } from '../rpc/errors.ts';
import { jsonAnswer, writeAnswer } from './answer.ts';
import type { AnswerHeaders } from './call.ts';
import { ClientGone, Disconnect } from './client-gone.ts';
import { authenticate } from './credentials.ts';
import type { Edge } from './edge.ts';
import { answerError, errorEnvelope } from './error-answer.ts';
import { comparedBytes, isForm, readForm } from './form-body.ts';
import { readJsonBody } from './json-body.ts';
import { limitHeaders } from './limit-headers.ts';
import { isRepeatable, repeatableHeaders, repeatHeaders } from './repeatable.ts';
import { recordRequest } from './request-record.ts';

/** A public path that draws. */
interface ImageRoute {
  readonly path: string;
  readonly endpoint: Endpoint;
}

const routes: readonly ImageRoute[] = [
  { path: '/v1/images/generations', endpoint: Endpoint.IMAGE_GENERATIONS },
  { path: '/v1/images/edits', endpoint: Endpoint.IMAGE_EDITS },
];

/** One request on such a path. */
interface Job {
  readonly edge: Edge;
  readonly route: ImageRoute;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly client: Disconnect;
}

/** A decoded request; a form's errors name its fields as the form does. */
interface Decoded extends DecodedImages {
  readonly isForm: boolean;
  /** The bytes that a repeat is compared by. */
  readonly raw: Uint8Array;
}

/** Parts that are no pictures: more than any client sends. */
const partsMax = 200;

/** Offers the paths that draw and the tasks. In a scope of its own: the plugin of forms puts hooks on every request of its scope. */
export function registerImages(app: FastifyInstance, edge: Edge): void {
  const { bodyBytesMax } = edge.options;
  app.register(async scope => {
    await scope.register(multipart, {
      throwFileSizeLimit: false,
      limits: { fileSize: bodyBytesMax, fieldSize: bodyBytesMax, parts: partsMax },
    });
    for (const route of routes) registerDrawing(scope, edge, route);
    registerTasks(scope, edge);
  });
}

function registerDrawing(app: FastifyInstance, edge: Edge, route: ImageRoute): void {
  const identify = authenticate(edge, 'api_key');
  app.post(
    route.path,
    {
      onRequest: async request => {
        request.call.tellsLimits = true;
        await identify(request);
      },
    },
    (request, reply) => {
      reply.hijack();
      void answerDrawing({ edge, route, request, reply, client: new Disconnect(request.raw.socket) });
    },
  );
}

/** Never rejects. */
async function answerDrawing(job: Job): Promise<void> {
  const { edge, request, reply, client } = job;
  edge.opened();
  try {
    const decoded = await decode(job);
    const answer = (): Promise<void> => (decoded.isAsync ? answerTask(job, decoded) : answerPictures(job, decoded));
    await (decoded.isForm ? withFormNames(() => answer().catch(rethrowAsOwn)) : answer());
  } catch (thrown) {
    await answerError(edge, request, reply, { thrown: client.gone ? new ClientGone() : thrown });
  } finally {
    client.release();
    edge.closed();
  }
}

function rethrowAsOwn(thrown: unknown): never {
  throw thrown instanceof ClientGone ? thrown : fromConnectError(thrown);
}

async function decode({ edge, route, request, reply }: Job): Promise<Decoded> {
  const { bodyBytesMax } = edge.options;
  const isEdit = route.endpoint === Endpoint.IMAGE_EDITS;
  if (isEdit && isForm(request)) {
    const parts = await readForm(request, reply, { bodyBytesMax, fileBytesMax: imageBytesMax });
    return { ...decodeEditForm(parts), isForm: true, raw: comparedBytes(parts) };
  }
  const { value, raw } = await readJsonBody(request.raw, reply.raw, bodyBytesMax);
  return { ...(isEdit ? decodeEdit(value) : decodeGeneration(value)), isForm: false, raw };
}

async function answerPictures(job: Job, { request: asked, raw }: Decoded): Promise<void> {
  const { edge, route, request, client } = job;
  const options = { headers: repeatableHeaders(request, raw), signal: client.signal };
  const isEdit = route.endpoint === Endpoint.IMAGE_EDITS;
  const answers = isEdit
    ? edge.images.edit({ request: asked }, options)
    : edge.images.generate({ request: asked }, options);
  const fold = new ImageAnswerFold();
  for await (const { answer } of answers) if (answer !== undefined) fold.push(answer);
  if (client.gone) throw new ClientGone();
  const { started, completed } = fold;
  const costNanoUsd = completed?.costNanoUsd ?? 0n;
  send(job, 200, {
    headers: {
      ...limitHeaders((started?.limits ?? []).map(windowOf), edge.options.clock.now()),
      ...(started === undefined || started.route === '' ? {} : { 'x-tollgate-route': started.route }),
      'x-tollgate-cost': dollarsText(costNanoUsd),
    },
    value: fold.render(),
    ...(started === undefined ? {} : { model: started.model }),
    ...(started === undefined ? {} : { requestId: started.requestId }),
    costNanoUsd,
  });
}

async function answerTask(job: Job, { request: asked, raw }: Decoded): Promise<void> {
  const { edge, route, request } = job;
  const { task, limits, requestId } = await edge.images.createTask(
    { endpoint: route.endpoint, request: asked },
    { headers: repeatableHeaders(request, raw), signal: job.client.signal },
  );
  if (task === undefined) throw new GatewayError('internal', 'The gateway failed.', { cause: new Error('no task') });
  const headers = limitHeaders(limits.map(windowOf), edge.options.clock.now());
  send(job, 202, { headers, value: renderTask(task), model: task.model, requestId });
}

/** What is answered, and what the record is told. */
interface Sent {
  readonly headers: AnswerHeaders;
  readonly value: object;
  readonly model?: string;
  readonly costNanoUsd?: bigint;
  /** The request that was answered first: another's where this one repeats it. */
  readonly requestId?: string;
}

function send(
  { edge, request, reply }: Pick<Job, 'edge' | 'request' | 'reply'>,
  status: number,
  { headers, value, model, costNanoUsd, requestId }: Sent,
): void {
  const all: AnswerHeaders = { ...request.call.headers, ...headers };
  const repeats = isRepeatable(request) && requestId !== request.call.id ? requestId : undefined;
  if (repeats !== undefined) Object.assign(all, repeatHeaders(request.call, repeats));
  if (edge.stopping()) all['connection'] = 'close';
  writeAnswer(request.raw, reply.raw, jsonAnswer(status, all, value));
  recordRequest(edge, request, {
    status,
    ...(model === undefined ? {} : { model }),
    // What a repeat shows was counted when it was charged.
    ...(repeats === undefined ? costOf(costNanoUsd) : { repeats }),
  });
}

function costOf(costNanoUsd: bigint | undefined): { costNanoUsd?: bigint } {
  return costNanoUsd === undefined ? {} : { costNanoUsd };
}

function registerTasks(app: FastifyInstance, edge: Edge): void {
  const onRequest = authenticate(edge, 'api_key');
  app.get<{ Params: { id: string } }>('/v1/images/tasks/:id', { onRequest }, async (request, reply) => {
    let task: ImageTask | undefined;
    const fold = new ImageAnswerFold();
    const options = { headers: request.call.rpcHeaders() };
    for await (const { content } of edge.images.getTask({ taskId: request.params.id }, options)) {
      if (content.case === 'task') task = content.value;
      else if (content.case === 'answer') fold.push(content.value);
    }
    if (task === undefined) throw new GatewayError('internal', 'The gateway failed.', { cause: new Error('no task') });
    reply.hijack();
    const result = fold.completed === undefined ? null : fold.render();
    const value = renderWholeTask(task, result, taskError(edge, task));
    send({ edge, request, reply }, 200, { headers: {}, value });
  });
}

/** As the request would have been told, had it waited. Source: decisions §3, §5. */
function taskError({ options }: Edge, { error }: ImageTask): object | null {
  return error === undefined ? null : errorEnvelope(fromErrorDetail(error), error.requestId, options.texts).error;
}
