import type { DirectAnswer } from '../../generation/direct-call.ts';
import { endpointPath } from '../../generation/endpoints.ts';
import { defined } from '../../lib/defined.ts';
import { type IdSource, requestIdHeader } from '../../lib/ids.ts';
import type { UnaryContext } from '../../lib/pushed-service.ts';
import type { Credential } from '../../ledger/ledger.ts';
import type { RequestTelemetry } from '../../telemetry/request-telemetry.ts';
import { admitRequest, nameRequest } from '../admit-request.ts';
import { readAttribution } from '../attribution.ts';
import type { BatchItem } from '../batches/batch-item.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { authenticate } from '../credential.ts';
import { findTelemetry } from '../find-telemetry.ts';
import { readBatchTerms } from '../generation/funds.ts';
import { idempotencyKey, type AnswerStore, type Replays } from '../idempotency/replays.ts';
import { RunningRequests, type StoppableService, stopping } from '../running-requests.ts';
import { neverAborted } from '../starting-call.ts';
import type { DirectKind, PreparedRequest, DirectRequest, DirectResponse } from './direct-kind.ts';
import { DirectRun, type DirectRunDependencies } from './direct-run.ts';

/** The dependencies of `DirectAnswers`. */
export interface DirectDependencies extends DirectRunDependencies {
  readonly catalog: Catalog;
  readonly ids: IdSource;
  readonly replays: Replays;
}

/** A request and who makes it. */
interface DirectInput<Request> {
  readonly request: Request;
  readonly credential: Credential;
  /** The id that the edge has given the request; null: it gave none. */
  readonly edgeRequestId: string | null;
  readonly telemetry: RequestTelemetry | undefined;
  /** The batch that the request is an item of; absent: none. */
  readonly batchId?: string;
}

/**
 * Answers all requests of one direct endpoint (one whose answers are not streamed) in this process: admits them, tries the routes and settles. A request with a known Idempotency-Key gets its stored answer.
 */
export class DirectAnswers<
  Request extends DirectRequest,
  Response extends DirectResponse,
  Prepared extends PreparedRequest<Request>,
  Made extends DirectAnswer,
> implements StoppableService {
  readonly #dependencies: DirectDependencies;
  readonly #kind: DirectKind<Request, Response, Prepared, Made>;
  readonly #running = new RunningRequests();
  #isDraining = false;

  constructor(dependencies: DirectDependencies, kind: DirectKind<Request, Response, Prepared, Made>) {
    this.#dependencies = dependencies;
    this.#kind = kind;
  }

  async idle(): Promise<void> {
    await this.#running.idle();
  }

  drain(): void {
    this.#isDraining = true;
  }

  interruptAll(): void {
    this.#running.interruptAll();
  }

  revoke(keyId: number): void {
    this.#running.revoke(keyId);
  }

  /** Answers a request. Throws the client's error. */
  async answer(request: Request, context: UnaryContext): Promise<Response> {
    if (this.#isDraining) throw stopping();
    this.#running.beginning();
    try {
      return await this.#answer(request, context);
    } finally {
      this.#running.begun();
    }
  }

  async #answer(request: Request, context: UnaryContext): Promise<Response> {
    const credential = await authenticate(context, this.#dependencies.ledger, 'api_key');
    const edgeRequestId = context.requestHeader.get(requestIdHeader);
    const requested = { request, credential, edgeRequestId, telemetry: findTelemetry(context) };
    const key = idempotencyKey(context);
    if (key === undefined) return this.#answerAndCharge(requested, context.signal);
    return this.#dependencies.replays.answerOne({
      context,
      credential,
      key,
      request,
      answer: this.#kind.answer,
      run: answerStore => this.#answerAndCharge(requested, neverAborted, answerStore),
      restore: (response, { limits, costNanoUsd }) => ({ ...response, limits, costNanoUsd }),
    });
  }

  /** Answers an item of a batch, and stores the answer before it is charged. Throws the item's error. */
  async answerItem(request: Request, item: BatchItem, answerStore: AnswerStore<Response>): Promise<Response> {
    if (this.#isDraining) throw stopping();
    const { credential, call, batchId } = item;
    const requested = { request, credential, edgeRequestId: call.requestId, telemetry: call, batchId };
    this.#running.beginning();
    try {
      return await this.#answerAndCharge(requested, neverAborted, answerStore);
    } finally {
      this.#running.begun();
    }
  }

  /** Makes and charges the answer; `answerStore` stores it before it is charged. */
  async #answerAndCharge(
    requested: DirectInput<Request>,
    signal: AbortSignal,
    answerStore?: AnswerStore<Response>,
  ): Promise<Response> {
    const { catalog, ids, ledger } = this.#dependencies;
    const kind = this.#kind;
    const { edgeRequestId, telemetry, batchId } = requested;
    const checked = await kind.prepare(catalog, requested.request, requested.credential);
    const prepared =
      batchId === undefined
        ? checked
        : { ...checked, multiplierPermille: readBatchTerms(checked.model).multiplierPermille };
    const { attribution, user } = requested.request;
    const command = {
      ...nameRequest(ids, edgeRequestId),
      prepared,
      ...kind.estimate(prepared),
      endpoint: endpointPath(kind.findEndpoint(requested.request)),
      ...readAttribution(attribution, user),
      ...defined({ batchId }),
      telemetry,
    };
    const admitted = await admitRequest(ledger, command, requested.credential);
    const run = new DirectRun(this.#dependencies, kind, admitted);
    this.#running.add(run);
    try {
      const { answer, costNanoUsd } = await run.run(signal, ({ response }) =>
        answerStore?.keep(admitted.requestId, [response]),
      );
      return { ...answer.response, costNanoUsd };
    } finally {
      this.#running.delete(run);
    }
  }
}
