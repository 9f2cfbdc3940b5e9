import { create } from '@bufbuild/protobuf';
import type { FastifyInstance } from 'fastify';
import { renderItem, renderResource } from '../../codecs/responses/index.ts';
import { FollowResponseRequestSchema, type Response, ResponseService } from '../../gen/tollgate/v1/response_pb.ts';
import { answerJson } from '../answer.ts';
import { answerStored } from '../stored-answer.ts';
import { authenticate } from '../credentials.ts';
import type { Edge } from '../edge.ts';
import { Exchange } from '../exchange.ts';
import { StreamSink } from '../sinks/stream.ts';
import { responsesPath } from './create-route.ts';
import { readFacts, toResponseOutcome } from './facts.ts';
import { readFollow, readInclude, readItemsPage } from './stored-query.ts';
import type { Query } from '../query.ts';
import { stepFrames } from './step-renderer.ts';

interface OneResponse {
  readonly Params: { readonly id: string };
  readonly Querystring: Query;
}

const onePath = `${responsesPath}/:id`;

/** Registers the paths of stored responses: read, follow, cancel, delete, and list the input. */
export function registerStoredResponses(app: FastifyInstance, edge: Edge): void {
  const onRequest = authenticate(edge, 'api_key');
  app.get<OneResponse>(onePath, { onRequest }, async (request, reply) => {
    const include = readInclude(request.query);
    const follow = readFollow(request.query);
    if (follow !== undefined) {
      reply.hijack();
      const exchange = new Exchange(edge, request, reply, { url: onePath });
      const call = create(FollowResponseRequestSchema, { id: request.params.id, include });
      const sink = new StreamSink(exchange, stepFrames(follow.startingAfter, unnamed));
      exchange.push(ResponseService.method.followResponse, call, sink);
      return;
    }
    const { response } = await edge.responses.getResponse(
      { id: request.params.id, include },
      { headers: request.call },
    );
    await answerStored(edge, request, reply, toResource(response));
  });
  app.post<OneResponse>(`${onePath}/cancel`, { onRequest }, async (request, reply) => {
    const { id } = request.params;
    const { response } = await edge.responses.cancelResponse({ id }, { headers: request.call });
    await answerStored(edge, request, reply, toResource(response));
  });
  app.delete<OneResponse>(onePath, { onRequest }, async (request, reply) => {
    const { id } = request.params;
    await edge.responses.deleteResponse({ id }, { headers: request.call });
    answerJson(edge, request, reply, { id, object: 'response', deleted: true });
  });
  app.get<OneResponse>(`${onePath}/input_items`, { onRequest }, async (request, reply) => {
    const call = { id: request.params.id, ...readItemsPage(request.query) };
    const { items, hasMore } = await edge.responses.listInputItems(call, { headers: request.call });
    const ids = { first_id: items[0]?.id ?? null, last_id: items.at(-1)?.id ?? null };
    await answerStored(edge, request, reply, {
      object: 'list',
      data: items.map(renderItem),
      ...ids,
      has_more: hasMore,
    });
  });
}

function toResource(response: Response | undefined): object {
  if (response?.head === undefined) throw new Error('a response without a head');
  return renderResource(readFacts(response.head), toResponseOutcome(response));
}

/** Renders a failure before the response's head: nothing, because there is no id to name. The head comes before anything that could take long. */
function unnamed(): string {
  return '';
}
