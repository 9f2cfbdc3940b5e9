import type { HandlerContext, ServiceImpl } from '@connectrpc/connect';
import { GatewayError, type WindowState } from '../../errors/gateway-error.ts';
import { type GenerationEvent, UsageSource } from '../../gen/tollgate/v1/event_pb.ts';
import {
  type CountTokensRequest,
  type GenerateResponse,
  GenerateResponseSchema,
  type GenerationService,
} from '../../gen/tollgate/v1/generation_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { checkFeatures } from '../../generation/check/check-features.ts';
import { checkLength } from '../../generation/check/check-length.ts';
import { checkRequest } from '../../generation/check/check-request.ts';
import { loadTokenizer } from '../../generation/tokens.ts';
import { idempotencyKeyHeader } from '../../lib/call-headers.ts';
import type { Clock } from '../../lib/clock.ts';
import { type IdSource, ledgerIdOf, publicRequestId, requestIdHeader } from '../../lib/ids.ts';
import type { Credential } from '../../ledger/ledger.ts';
import type { Catalog, Resolved } from '../catalog/catalog.ts';
import { authenticate, limitOf } from '../credential.ts';
import { idempotencyKey, type Keeper, type Replays } from '../idempotency/replays.ts';
import { modelUnavailable } from '../routing/failure-policy.ts';
import { Running } from '../running.ts';
import { admit, isFree } from './admission.ts';
import { countInputInPieces } from './count-input.ts';
import { checkCountedLength, truncated } from './truncation.ts';
import { GenerationRun, type RunHooks, type RunTools } from './run.ts';

/** What generations are made with. */
export interface GenerationTools extends RunTools {
  readonly catalog: Catalog;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly replays: Replays;
}

/** A generation that a service of the core asks for on behalf of its caller. */
export interface GenerationAsk {
  readonly request: GenerateRequest;
  readonly credential: Credential;
  /** The public request id that the edge has made; null: the generation makes one. */
  readonly requestId: string | null;
  /** Its caller is answered before an upstream is asked: what that would refuse for its length is refused here. */
  readonly isAnsweredEarly?: boolean;
  /** See `RunHooks`. */
  readonly beforeSettle?: RunHooks['beforeSettle'];
  readonly freeWhenCut?: RunHooks['freeWhenCut'];
  readonly beforeBrokenSettle?: RunHooks['beforeBrokenSettle'];
}

/** A generation that was admitted. */
export interface BegunGeneration {
  readonly requestId: string;
  /** The listed id of the model. */
  readonly model: string;
  readonly createdAtMs: number;
  readonly run: GenerationRun;
}

/** All generations of this process. */
export class Generations {
  readonly #tools: GenerationTools;
  readonly #running = new Running();
  #isDraining = false;

  constructor(tools: GenerationTools) {
    this.#tools = tools;
  }

  /** GenerationService on these generations. */
  get service(): ServiceImpl<typeof GenerationService> {
    return {
      generate: (request, context) =>
        context.requestHeader.has(idempotencyKeyHeader)
          ? this.#generateOnce(request, context)
          : this.#generate(request, context),
      countTokens: (request, context) => this.#countTokens(request, context),
    };
  }

  /** Resolves when none runs; at once where that is so now. */
  async idle(): Promise<void> {
    await this.#running.idle();
  }

  /** Takes no new ones from now on. */
  drain(): void {
    this.#isDraining = true;
  }

  /** Ends those that still run; each settles what it delivered. */
  cutAll(): void {
    this.#running.cutAll();
  }

  /**
   * Checks and admits a request. Whoever calls it reads `run.events` to the end, however that comes. Throws what the caller is refused with; nothing
   * is held then.
   */
  async begin({
    request,
    credential,
    requestId: named,
    isAnsweredEarly = false,
    ...told
  }: GenerationAsk): Promise<BegunGeneration> {
    if (this.#isDraining) throw new GatewayError('overloaded', 'The gateway is stopping.', { retryAfterMs: 5_000 });
    const { ledger, router, clock, ids } = this.#tools;
    const { model, tier, resolved } = await this.#resolve(request, credential);
    if (!model.available) throw modelUnavailable(model.id);
    if (isAnsweredEarly) await checkCountedLength(resolved, model);
    const id = (named === null ? undefined : ledgerIdOf(named)) ?? ids.next();
    const applicant = {
      id,
      requestId: named ?? publicRequestId(id),
      keyId: credential.keyId,
      accountId: credential.accountId,
      request: resolved,
      model,
      tier,
      calls: router.callsFor(resolved),
      isAnsweredEarly,
    };
    const admittedAtMs = clock.now();
    const admitted = await admit(ledger, applicant);
    const hooks = { ...told, onEnd: () => this.#running.delete(run) };
    const run = new GenerationRun(this.#tools, { ...applicant, admitted, admittedAtMs }, hooks);
    this.#running.add(run);
    return { requestId: applicant.requestId, model: model.id, createdAtMs: admittedAtMs, run };
  }

  async *#generate(
    request: GenerateRequest,
    context: HandlerContext,
  ): AsyncGenerator<GenerateResponse, void, undefined> {
    const credential = await authenticate(context, this.#tools.ledger, 'api_key');
    const requestId = context.requestHeader.get(requestIdHeader);
    const { run } = await this.begin({ request, credential, requestId });
    for await (const events of run.events(context.signal)) yield generateResponse(events);
  }

  /** The same for a request that may be repeated. */
  async *#generateOnce(
    request: GenerateRequest,
    context: HandlerContext,
  ): AsyncGenerator<GenerateResponse, void, undefined> {
    const { ledger, replays } = this.#tools;
    const key = idempotencyKey(context);
    if (key === undefined) {
      yield* this.#generate(request, context);
      return;
    }
    const credential = await authenticate(context, ledger, 'api_key');
    yield* replays.answer({
      context,
      credential,
      key,
      request,
      answer: GenerateResponseSchema,
      run: keeper => this.#kept({ request, credential, requestId: context.requestHeader.get(requestIdHeader) }, keeper),
      restore: async record => {
        const free = isFree(record?.model ?? '');
        const windows = free || credential.hasWindow ? await ledger.windows(credential.keyId, free) : [];
        return ({ events }) => generateResponse(events.map(event => restored(event, record?.costNanoUsd, windows)));
      },
    });
  }

  async *#kept(
    ask: GenerationAsk,
    keeper: Keeper<GenerateResponse>,
  ): AsyncGenerator<GenerateResponse, void, undefined> {
    const requestId = ask.requestId ?? publicRequestId(this.#tools.ids.next());
    const { run } = await this.begin({
      ...ask,
      requestId,
      beforeSettle: rest => keeper.keep(requestId, [generateResponse([...rest])]),
      beforeBrokenSettle: told => keeper.keepBroken(requestId, told),
    });
    for await (const events of run.events(never)) yield generateResponse(events);
  }

  /** The checked request with the listed model and its tier. */
  async #resolve(
    asked: GenerateRequest,
    credential: Credential,
  ): Promise<Resolved & { readonly resolved: GenerateRequest }> {
    checkRequest(asked);
    const { endpoint, serviceTier } = asked;
    const visible = credential.allowedModels;
    const { model, tier } = this.#tools.catalog.resolve(asked.model, { endpoint, serviceTier, visible });
    if (visible !== null && !visible.includes(model.id)) {
      throw new GatewayError('model_not_allowed', `This key may not use ${model.id}.`, { param: 'model' });
    }
    checkFeatures(asked, model);
    const request = await truncated(asked, model);
    checkLength(request, model);
    return { model, tier, resolved: { ...request, model: model.id, serviceTier: tier } };
  }

  async #countTokens({ request }: CountTokensRequest, context: HandlerContext) {
    if (request === undefined) throw new GatewayError('validation_error', 'request is missing.', { param: 'request' });
    const credential = await authenticate(context, this.#tools.ledger, 'api_key');
    return this.count(request, credential);
  }

  /** Counts a request's input tokens. Throws what the caller of such a request would be refused with. */
  async count(request: GenerateRequest, credential: Credential): Promise<{ inputTokens: number; source: UsageSource }> {
    const { resolved } = await this.#resolve(request, credential);
    return { inputTokens: await countInputInPieces(resolved, await loadTokenizer()), source: UsageSource.ESTIMATED };
  }
}

const never = new AbortController().signal;

function generateResponse(events: GenerationEvent[]): GenerateResponse {
  return { $typeName: 'tollgate.v1.GenerateResponse', events };
}

/** An event of a kept answer as it is told today: with what it cost, and the key's windows. */
export function restored(event: GenerationEvent, costNanoUsd = 0n, windows: readonly WindowState[]): GenerationEvent {
  const { event: step } = event;
  if (step.case === 'completed') return { ...event, event: { ...step, value: { ...step.value, costNanoUsd } } };
  if (step.case !== 'started') return event;
  const limits = windows.map(window => ({ $typeName: 'tollgate.v1.LimitState' as const, ...limitOf(window) }));
  return { ...event, event: { ...step, value: { ...step.value, limits } } };
}
