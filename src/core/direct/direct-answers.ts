import type { DirectAnswer } from '../../generation/direct-call.ts';
import { pathOf } from '../../generation/endpoints.ts';
import { defined } from '../../lib/defined.ts';
import { type IdSource, requestIdHeader } from '../../lib/ids.ts';
import type { UnaryContext } from '../../lib/pushed-service.ts';
import type { Credential } from '../../ledger/ledger.ts';
import type { RequestStory } from '../../telemetry/request-story.ts';
import { admitOrder, nameRequest } from '../admit-order.ts';
import { readAttribution } from '../attribution.ts';
import type { BatchItem } from '../batches/batch-item.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { authenticate } from '../credential.ts';
import { findStory } from '../find-story.ts';
import { readBatchTerms } from '../generation/funds.ts';
import { idempotencyKey, type Keeper, type Replays } from '../idempotency/replays.ts';
import { Running, type StoppableService, stopping } from '../running.ts';
import { nobodyLeaves } from '../starting-call.ts';
import type { DirectKind, DirectOrder, DirectRequest, DirectResponse } from './direct-kind.ts';
import { DirectRun, type DirectRunTools } from './direct-run.ts';

/** What services whose answers come at once work with. */
export interface DirectTools extends DirectRunTools {
  readonly catalog: Catalog;
  readonly ids: IdSource;
  readonly replays: Replays;
}

/** A request and who makes it. */
interface DirectAsk<Request> {
  readonly request: Request;
  readonly credential: Credential;
  /** The id that the edge has given the request; null: none. */
  readonly named: string | null;
  readonly story: RequestStory | undefined;
  /** The batch whose item it is; absent: it is none. */
  readonly batchId?: string;
}

/** All requests of one kind in this process: admitted, tried at the routes, settled, and repeated for an Idempotency-Key. */
export class DirectAnswers<
  Request extends DirectRequest,
  Response extends DirectResponse,
  Order extends DirectOrder<Request>,
  Made extends DirectAnswer,
> implements StoppableService {
  readonly #tools: DirectTools;
  readonly #kind: DirectKind<Request, Response, Order, Made>;
  readonly #running = new Running();
  #isDraining = false;

  constructor(tools: DirectTools, kind: DirectKind<Request, Response, Order, Made>) {
    this.#tools = tools;
    this.#kind = kind;
  }

  async idle(): Promise<void> {
    await this.#running.idle();
  }

  drain(): void {
    this.#isDraining = true;
  }

  cutAll(): void {
    this.#running.cutAll();
  }

  revoke(keyId: number): void {
    this.#running.revoke(keyId);
  }

  /** Answers a call. Throws what the caller is told. */
  async answer(request: Request, context: UnaryContext): Promise<Response> {
    if (this.#isDraining) throw stopping();
    const credential = await authenticate(context, this.#tools.ledger, 'api_key');
    const named = context.requestHeader.get(requestIdHeader);
    const asked = { request, credential, named, story: findStory(context) };
    const key = idempotencyKey(context);
    if (key === undefined) return this.#charged(asked, context.signal);
    return this.#tools.replays.answerOne({
      context,
      credential,
      key,
      request,
      answer: this.#kind.answer,
      run: keeper => this.#charged(asked, nobodyLeaves, keeper),
      restore: (response, { limits, costNanoUsd }) => ({ ...response, limits, costNanoUsd }),
    });
  }

  /** Answers an item of a batch; the keeper has the answer before it is charged. Throws what it is refused with. */
  async answerItem(request: Request, item: BatchItem, keeper: Keeper<Response>): Promise<Response> {
    if (this.#isDraining) throw stopping();
    const { credential, call, batchId } = item;
    return this.#charged({ request, credential, named: call.requestId, story: call, batchId }, nobodyLeaves, keeper);
  }

  /** The charged answer; a keeper has it before it is charged. */
  async #charged(asked: DirectAsk<Request>, signal: AbortSignal, keeper?: Keeper<Response>): Promise<Response> {
    const { catalog, ids, ledger } = this.#tools;
    const kind = this.#kind;
    const { named, story, batchId } = asked;
    const taken = await kind.takeOrder(catalog, asked.request, asked.credential);
    const order =
      batchId === undefined ? taken : { ...taken, multiplierPermille: readBatchTerms(taken.model).multiplierPermille };
    const { attribution, user } = asked.request;
    const command = {
      ...nameRequest(ids, named),
      order,
      ...kind.estimate(order),
      endpoint: pathOf(kind.endpoint),
      ...readAttribution(attribution, user),
      ...defined({ batchId }),
      story,
    };
    const admitted = await admitOrder(ledger, command, asked.credential);
    const run = new DirectRun(this.#tools, kind, admitted);
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
