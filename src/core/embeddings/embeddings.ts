import {
  type EmbeddingService,
  type EmbedRequest,
  type EmbedResponse,
  EmbedResponseSchema,
} from '../../gen/tollgate/v1/embedding_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { pathOf } from '../../generation/endpoints.ts';
import { defined } from '../../lib/defined.ts';
import { type IdSource, requestIdHeader } from '../../lib/ids.ts';
import type { PushedService, UnaryContext } from '../../lib/pushed-service.ts';
import type { Credential } from '../../ledger/ledger.ts';
import { admitOrder, nameRequest } from '../admit-order.ts';
import { readAttribution } from '../attribution.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { authenticate } from '../credential.ts';
import { findStory } from '../find-story.ts';
import type { RequestStory } from '../../telemetry/request-story.ts';
import type { BatchItem } from '../batches/batch-item.ts';
import { idempotencyKey, type Keeper, type Replays } from '../idempotency/replays.ts';
import { Running, stopping } from '../running.ts';
import { nobodyLeaves } from '../starting-call.ts';
import { EmbedRun, type EmbedRunTools } from './embed-run.ts';
import { embedFunds, takeEmbedOrder } from './order.ts';

/** What embeddings are made with. */
export interface EmbeddingTools extends EmbedRunTools {
  readonly catalog: Catalog;
  readonly ids: IdSource;
  readonly replays: Replays;
}

/** A request and who makes it. */
interface EmbedAsk {
  readonly request: EmbedRequest;
  readonly credential: Credential;
  /** The id that the edge has given the request; null: none. */
  readonly named: string | null;
  readonly story: RequestStory | undefined;
  /** The batch whose item it is; absent: it is none. */
  readonly batchId?: string;
}

/** All embeddings of this process. */
export class Embeddings {
  readonly #tools: EmbeddingTools;
  readonly #running = new Running();
  #isDraining = false;

  constructor(tools: EmbeddingTools) {
    this.#tools = tools;
  }

  get service(): PushedService<typeof EmbeddingService> {
    return { embed: (request, context) => this.#answer(request, context) };
  }

  /** Resolves when none is made; at once where that is so now. */
  async idle(): Promise<void> {
    await this.#running.idle();
  }

  /** Takes no new ones from now on. */
  drain(): void {
    this.#isDraining = true;
  }

  /** Ends those that are still made: uncharged. */
  cutAll(): void {
    this.#running.cutAll();
  }

  /** Ends those of a key that has been revoked. */
  revoke(keyId: number): void {
    this.#running.revoke(keyId);
  }

  /** Answers an item of a batch; the keeper has the answer before it is charged. Rejects with what it is refused with. */
  async answerItem(request: EmbedRequest, item: BatchItem, keeper: Keeper<EmbedResponse>): Promise<EmbedResponse> {
    if (this.#isDraining) throw stopping();
    const { credential, requestId: named, batchId } = item;
    return this.#embedded({ request, credential, named, story: undefined, batchId }, nobodyLeaves, keeper);
  }

  async #answer(request: EmbedRequest, context: UnaryContext): Promise<EmbedResponse> {
    if (this.#isDraining) throw stopping();
    const credential = await authenticate(context, this.#tools.ledger, 'api_key');
    const named = context.requestHeader.get(requestIdHeader);
    const asked = { request, credential, named, story: findStory(context) };
    const key = idempotencyKey(context);
    if (key === undefined) return this.#embedded(asked, context.signal);
    return this.#tools.replays.answerOne({
      context,
      credential,
      key,
      request,
      answer: EmbedResponseSchema,
      run: keeper => this.#embedded(asked, nobodyLeaves, keeper),
      restore: (response, { limits, costNanoUsd }) => ({ ...response, limits, costNanoUsd }),
    });
  }

  /** The charged answer; a keeper has it before it is charged. */
  async #embedded(asked: EmbedAsk, signal: AbortSignal, keeper?: Keeper<EmbedResponse>): Promise<EmbedResponse> {
    const { catalog, ids, ledger } = this.#tools;
    const { named, story, batchId } = asked;
    const order = await takeEmbedOrder(catalog, asked.request, asked.credential, batchId !== undefined);
    const { attribution, user } = asked.request;
    const command = {
      ...nameRequest(ids, named),
      order,
      funds: embedFunds(order),
      text: { inputTokens: order.inputTokens, outputTokensMin: 0, outputTokensWanted: 0 },
      endpoint: pathOf(Endpoint.EMBEDDINGS),
      ...readAttribution(attribution, user),
      ...defined({ batchId }),
      story,
    };
    const admitted = await admitOrder(ledger, command, asked.credential);
    const run = new EmbedRun(this.#tools, admitted);
    this.#running.add(run);
    try {
      const { answer, costNanoUsd } = await run.run(signal, ({ response }) =>
        keeper?.keep(admitted.requestId, [response]),
      );
      return { ...answer.response, costNanoUsd };
    } finally {
      this.#running.delete(run);
    }
  }
}
