import multipart from '@fastify/multipart';
import type { FastifyInstance } from 'fastify';
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
import { fromConnectError, fromErrorDetail } from '../rpc/errors.ts';
import { answerStored } from './stored-answer.ts';
import { attribute } from './attribution.ts';
import { ClientGone } from './client-watch.ts';
import { authenticate } from './credentials.ts';
import type { Edge } from './edge.ts';
import { errorEnvelope } from './error-answer.ts';
import { Exchange, readModel } from './exchange.ts';
import type { ComparedBody } from './call.ts';
import { comparedBytes, isForm, readForm } from './form-body.ts';
import { generationBodyOptions, readJsonBody } from './json-body.ts';

/** A public path that generates or edits images. */
interface ImageRoute {
  readonly path: string;
  readonly endpoint: Endpoint;
}

const routes: readonly ImageRoute[] = [
  { path: '/v1/images/generations', endpoint: Endpoint.IMAGE_GENERATIONS },
  { path: '/v1/images/edits', endpoint: Endpoint.IMAGE_EDITS },
];

/** A decoded request; a form's errors name its fields as the form does. */
interface Decoded extends DecodedImages, ComparedBody {
  readonly isForm: boolean;
}

/** The most parts of a form, images included: more than any client sends. */
const partsMax = 200;

/**
 * Registers the paths for images and for image tasks, in a separate Fastify scope, because the form plugin hooks into every request of
 * its scope.
 */
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
  app.post(route.path, { onRequest: authenticate(edge, 'api_key', true) }, (request, reply) => {
    reply.hijack();
    void answerDrawing(new Exchange(edge, request, reply, { url: route.path }), route);
  });
}

/** Generates images, or stores a task, and answers. Never rejects: failures are answered. */
async function answerDrawing(exchange: Exchange, route: ImageRoute): Promise<void> {
  try {
    const decoded = await decode(exchange, route);
    exchange.call.setFingerprint(exchange.request, decoded);
    attribute(decoded.request, exchange.request.raw.headers);
    const draw = decoded.isAsync ? answerTask : answerImages;
    const answer = (): Promise<void> => draw(exchange, route, decoded.request);
    await (decoded.isForm ? withFormNames(() => answer().catch(rethrowAsGatewayError)) : answer());
  } catch (thrown) {
    exchange.fail(thrown);
  }
}

function rethrowAsGatewayError(thrown: unknown): never {
  throw thrown instanceof ClientGone ? thrown : fromConnectError(thrown);
}

async function decode({ edge, request, reply, call }: Exchange, route: ImageRoute): Promise<Decoded> {
  const { bodyBytesMax } = edge.options;
  const isEdit = route.endpoint === Endpoint.IMAGE_EDITS;
  if (isEdit && isForm(request)) {
    const parts = await readForm(request, reply, { bodyBytesMax, fileBytesMax: imageBytesMax });
    call.requestedModel = readModel({ model: parts.find(({ name }) => name === 'model')?.value });
    return { ...decodeEditForm(parts), isForm: true, raw: await comparedBytes(parts) };
  }
  const { value, raw, fingerprint } = await readJsonBody(edge, generationBodyOptions(edge, request, reply));
  call.requestedModel = readModel(value);
  return { ...(isEdit ? decodeEdit(value) : decodeGeneration(value)), isForm: false, raw, fingerprint };
}

async function answerImages(exchange: Exchange, route: ImageRoute, requested: DecodedImages['request']): Promise<void> {
  const { call, edge, facts } = exchange;
  const options = { headers: call, signal: exchange.signal };
  const isEdit = route.endpoint === Endpoint.IMAGE_EDITS;
  const answers = isEdit
    ? edge.images.edit({ request: requested }, options)
    : edge.images.generate({ request: requested }, options);
  const fold = new ImageAnswerFold();
  for await (const { answer } of answers) if (answer !== undefined) fold.push(answer);
  if (exchange.isGone) throw new ClientGone();
  const { started, completed } = fold;
  const value = fold.render();
  facts.setAnswer(started?.requestId, started?.limits ?? []);
  const headers = facts.addHeaders(call.headers, edge.options.runtime.now());
  if (started !== undefined && started.route !== '') headers['x-tollgate-route'] = started.route;
  const charged = completed?.costNanoUsd ?? 0n;
  headers['x-tollgate-cost'] = dollarsText(charged);
  const repeats = facts.repeatedId;
  // The usage in a repeat was already counted when it was charged.
  const costNanoUsd = repeats === undefined ? charged : undefined;
  exchange.answer(headers, value, { status: 200, model: started?.model, repeats, costNanoUsd });
}

async function answerTask(exchange: Exchange, route: ImageRoute, requested: DecodedImages['request']): Promise<void> {
  const { call, edge, facts } = exchange;
  const { task, limits, requestId } = await edge.images.createTask(
    { endpoint: route.endpoint, request: requested },
    { headers: call, signal: exchange.signal },
  );
  if (task === undefined) throw new GatewayError('internal', 'The gateway failed.', { cause: new Error('no task') });
  facts.setAnswer(requestId, limits);
  const headers = facts.addHeaders(call.headers, edge.options.runtime.now());
  exchange.answer(headers, renderTask(task), { status: 202, model: task.model, repeats: facts.repeatedId });
}

function registerTasks(app: FastifyInstance, edge: Edge): void {
  const onRequest = authenticate(edge, 'api_key');
  app.get<{ Params: { id: string } }>('/v1/images/tasks/:id', { onRequest }, async (request, reply) => {
    let task: ImageTask | undefined;
    const fold = new ImageAnswerFold();
    const options = { headers: request.call };
    for await (const { content } of edge.images.getTask({ taskId: request.params.id }, options)) {
      if (content.case === 'task') task = content.value;
      else if (content.case === 'answer') fold.push(content.value);
    }
    if (task === undefined) throw new GatewayError('internal', 'The gateway failed.', { cause: new Error('no task') });
    const result = fold.completed === undefined ? null : fold.render();
    await answerStored(edge, request, reply, renderWholeTask(task, result, taskError(edge, task)));
  });
}

/** Returns the error that the request would have got if it had waited. Source: docs/interfaces/images.md "Tasks". */
function taskError({ options }: Edge, { error }: ImageTask): object | null {
  return error === undefined ? null : errorEnvelope(fromErrorDetail(error), error.requestId, options.texts).error;
}
