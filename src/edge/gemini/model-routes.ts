import type { FastifyInstance, FastifyRequest } from 'fastify';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { fromConnectError } from '../../rpc/errors.ts';
import { modelJson } from '../../rpc/resources.ts';
import { answerJson } from '../answer.ts';
import { authenticate } from '../credentials.ts';
import type { Edge } from '../edge.ts';
import { type Query, readInteger, readText, refuse } from '../query.ts';
import { geminiRoutes, geminiTarget } from './target.ts';

/** Registers the lists of models in Google's form, for API keys and management keys. Source: docs/interfaces/gemini.md "Models". */
export function registerGeminiModels(app: FastifyInstance, edge: Edge): void {
  const onRequest = authenticate(edge, 'any_key');
  app.get<{ Querystring: Query }>(geminiRoutes.list, { onRequest }, async (request, reply) => {
    const { query, call } = request;
    const size = readSize(query);
    const { models } = await edge.catalog.listModels({}, { headers: call });
    const usable = models.filter(model => methodsOf(model).length > 0);
    const from = readPlace(query, usable);
    const page = usable.slice(from, from + size);
    const last = page.at(-1);
    const hasMore = from + size < usable.length && last !== undefined;
    const token = hasMore ? { nextPageToken: Buffer.from(last.id).toString('base64url') } : {};
    answerJson(edge, request, reply, { models: page.map(toGoogleModel), ...token });
  });
  app.get(geminiRoutes.model, { onRequest }, async (request, reply) => {
    answerJson(edge, request, reply, toGoogleModel(await findModel(edge, request)));
  });
}

const sizes = { min: 1, max: 1000 };

function readSize(query: Query): number {
  return readInteger(query, 'pageSize', sizes) ?? readInteger(query, 'page_size', sizes) ?? 50;
}

/** Returns where a page begins: after the model that its token names. */
function readPlace(query: Query, models: readonly Model[]): number {
  const name = query['pageToken'] === undefined ? 'page_token' : 'pageToken';
  const token = readText(query, name);
  if (token === undefined || token === '') return 0;
  const id = Buffer.from(token, 'base64url').toString();
  const place = models.findIndex(model => model.id === id);
  if (place === -1) throw refuse(query, name, 'must be the `nextPageToken` of an earlier page');
  return place + 1;
}

async function findModel(edge: Edge, request: FastifyRequest): Promise<Model> {
  const id = geminiTarget(request.raw)?.model ?? '';
  try {
    const { model } = await edge.catalog.getModel({ id }, { headers: request.call });
    if (model !== undefined) return model;
  } catch (thrown) {
    const error = fromConnectError(thrown);
    // The core hides a model that the key may not use like one that does not exist.
    if (error.code !== 'not_found') throw error;
  }
  throw new GatewayError('model_not_found', 'No such model.', {
    tip: 'GET /v1beta/models lists the models of this key.',
  });
}

function methodsOf({ endpoints }: Model): string[] {
  if (endpoints.includes(Endpoint.GEMINI)) return ['generateContent', 'streamGenerateContent', 'countTokens'];
  return endpoints.includes(Endpoint.GEMINI_EMBEDDINGS) ? ['embedContent', 'batchEmbedContents'] : [];
}

function toGoogleModel(model: Model) {
  const { pricing, capabilities } = modelJson(model);
  return {
    name: `models/${model.id}`,
    displayName: model.name,
    ...(model.description === '' ? {} : { description: model.description }),
    ...(model.contextLength === undefined ? {} : { inputTokenLimit: model.contextLength }),
    ...(model.maxOutputTokens === undefined ? {} : { outputTokenLimit: model.maxOutputTokens }),
    supportedGenerationMethods: methodsOf(model),
    thinking: model.reasoning,
    pricing,
    capabilities,
  };
}
