import type { FastifyInstance, FastifyRequest } from 'fastify';
import { GatewayError } from '../errors/gateway-error.ts';
import { fromConnectError } from '../rpc/errors.ts';
import { modelJson } from '../rpc/resources.ts';
import { answerJson } from './answer.ts';
import { authenticate } from './credentials.ts';
import type { Edge } from './edge.ts';
import { takePage, readFilter, readPage } from './model-query.ts';
import type { Query } from './query.ts';

/** Registers `GET /v1/models` and `GET /v1/models/{id}`, for API keys and management keys. */
export function registerModels(app: FastifyInstance, edge: Edge): void {
  const onRequest = authenticate(edge, 'any_key');
  app.get<{ Querystring: Query }>('/v1/models', { onRequest }, async (request, reply) => {
    const filter = readFilter(request.query);
    const page = readPage(request.query);
    const { models } = await edge.catalog.listModels({ ...filter, aliases: true }, { headers: request.call });
    answerJson(edge, request, reply, { object: 'list', ...takePage(models.map(modelJson), page) });
  });
  // An id can contain slashes and colons, percent-encoded or not.
  app.get<{ Params: { '*': string } }>('/v1/models/*', { onRequest }, async (request, reply) => {
    const model = await findModel(edge, request, request.params['*']);
    answerJson(edge, request, reply, modelJson(model));
  });
}

async function findModel(edge: Edge, request: FastifyRequest, id: string) {
  try {
    const { model } = await edge.catalog.getModel({ id }, { headers: request.call });
    if (model !== undefined) return model;
  } catch (thrown) {
    const error = fromConnectError(thrown);
    // An unknown model in a body is a wrong field; in a path it is a resource that does not exist.
    if (error.code !== 'model_not_found' && error.code !== 'model_not_allowed') throw error;
  }
  throw new GatewayError('not_found', 'No such model.', { tip: 'GET /v1/models lists the models of this key.' });
}
