import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import {
  decodeLabels,
  decodeNewConversation,
  decodeNewItems,
  renderConversation,
  renderItem,
  renderItemPage,
} from '../../codecs/responses/index.ts';
import type { Conversation } from '../../gen/tollgate/v1/conversation_pb.ts';
import { answerJson } from '../answer.ts';
import { answerStored } from '../stored-answer.ts';
import { authenticate } from '../credentials.ts';
import type { Edge } from '../edge.ts';
import { generationBodyOptions, readJsonBody } from '../json-body.ts';
import type { Query } from '../query.ts';
import { readInclude, readItemsPage } from '../responses/stored-query.ts';

interface OneConversation {
  readonly Params: { readonly id: string };
  readonly Querystring: Query;
}

interface OneItem {
  readonly Params: { readonly id: string; readonly itemId: string };
  readonly Querystring: Query;
}

const path = '/v1/conversations';
const onePath = `${path}/:id`;
const itemsPath = `${onePath}/items`;
const itemPath = `${itemsPath}/:itemId`;

/** Registers the paths of stored conversations and their items. */
export function registerStoredConversations(app: FastifyInstance, edge: Edge): void {
  const onRequest = authenticate(edge, 'api_key');
  app.post(path, { onRequest }, async (request, reply) => {
    const requested = decodeNewConversation(await readBody(edge, request, reply, {}));
    const { conversation, requestId } = await edge.conversations.createConversation(requested, {
      headers: request.call,
    });
    request.call.setAnswered(requestId);
    answerJson(edge, request, reply, toResource(conversation));
  });
  app.get<OneConversation>(onePath, { onRequest }, async (request, reply) => {
    const { id } = request.params;
    const { conversation } = await edge.conversations.getConversation({ id }, { headers: request.call });
    answerJson(edge, request, reply, toResource(conversation));
  });
  app.post<OneConversation>(onePath, { onRequest }, async (request, reply) => {
    const requested = { id: request.params.id, metadata: decodeLabels(await readBody(edge, request, reply)) };
    const { conversation } = await edge.conversations.updateConversation(requested, { headers: request.call });
    answerJson(edge, request, reply, toResource(conversation));
  });
  app.delete<OneConversation>(onePath, { onRequest }, async (request, reply) => {
    const { id } = request.params;
    await edge.conversations.deleteConversation({ id }, { headers: request.call });
    answerJson(edge, request, reply, { id, object: 'conversation.deleted', deleted: true });
  });
  registerItems(app, edge);
}

function registerItems(app: FastifyInstance, edge: Edge): void {
  const onRequest = authenticate(edge, 'api_key');
  app.post<OneConversation>(itemsPath, { onRequest }, async (request, reply) => {
    const include = readInclude(request.query);
    const requested = { id: request.params.id, items: decodeNewItems(await readBody(edge, request, reply)), include };
    const { items, requestId } = await edge.conversations.addConversationItems(requested, { headers: request.call });
    request.call.setAnswered(requestId);
    await answerStored(edge, request, reply, renderItemPage(items, false));
  });
  app.get<OneConversation>(itemsPath, { onRequest }, async (request, reply) => {
    const requested = { id: request.params.id, ...readItemsPage(request.query) };
    const { items, hasMore } = await edge.conversations.listConversationItems(requested, { headers: request.call });
    await answerStored(edge, request, reply, renderItemPage(items, hasMore));
  });
  app.get<OneItem>(itemPath, { onRequest }, async (request, reply) => {
    const requested = { ...request.params, include: readInclude(request.query) };
    const { item } = await edge.conversations.getConversationItem(requested, { headers: request.call });
    if (item === undefined) throw new Error('an answer without its item');
    await answerStored(edge, request, reply, renderItem(item));
  });
  app.delete<OneItem>(itemPath, { onRequest }, async (request, reply) => {
    const { conversation } = await edge.conversations.deleteConversationItem(request.params, {
      headers: request.call,
    });
    answerJson(edge, request, reply, toResource(conversation));
  });
}

/** Reads the body, by which repeats are compared. `empty`: used if no body was sent; absent: a body is required. */
async function readBody(edge: Edge, request: FastifyRequest, reply: FastifyReply, empty?: object): Promise<unknown> {
  const { 'content-length': length, 'transfer-encoding': coding } = request.raw.headers;
  if (empty !== undefined && coding === undefined && (length === undefined || length === '0')) {
    request.call.setFingerprint(request, { raw: Buffer.alloc(0) });
    return empty;
  }
  const body = await readJsonBody(edge, generationBodyOptions(edge, request, reply));
  request.call.setFingerprint(request, body);
  return body.value;
}

function toResource(conversation: Conversation | undefined): object {
  if (conversation === undefined) throw new Error('an answer without its conversation');
  return renderConversation(conversation);
}
