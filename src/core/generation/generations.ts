import type { HandlerContext, ServiceImpl } from '@connectrpc/connect';
import { GatewayError } from '../../errors/gateway-error.ts';
import { UsageSource } from '../../gen/tollgate/v1/event_pb.ts';
import type { CountTokensRequest, GenerateResponse, GenerationService } from '../../gen/tollgate/v1/generation_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { checkFeatures } from '../../generation/check/check-features.ts';
import { checkLength } from '../../generation/check/check-length.ts';
import { checkRequest } from '../../generation/check/check-request.ts';
import { loadTokenizer } from '../../generation/tokens.ts';
import type { Clock } from '../../lib/clock.ts';
import { type IdSource, ledgerIdOf, publicRequestId, requestIdHeader } from '../../lib/ids.ts';
import type { Credential } from '../../store/ledger.ts';
import type { Catalog, Resolved } from '../catalog/catalog.ts';
import { authenticate } from '../credential.ts';
import { modelUnavailable } from '../routing/failure-policy.ts';
import { admit } from './admission.ts';
import { countInputInPieces } from './count-input.ts';
import { GenerationRun, type RunTools } from './run.ts';

/** What generations are made with. */
export interface GenerationTools extends RunTools {
  readonly catalog: Catalog;
  readonly clock: Clock;
  readonly ids: IdSource;
}

/** All generations of this process. */
export class Generations {
  readonly #tools: GenerationTools;
  readonly #running = new Set<GenerationRun>();
  readonly #whenIdle: (() => void)[] = [];
  #isDraining = false;

  constructor(tools: GenerationTools) {
    this.#tools = tools;
  }

  /** GenerationService on these generations. */
  get service(): ServiceImpl<typeof GenerationService> {
    return {
      generate: (request, context) => this.#generate(request, context),
      countTokens: (request, context) => this.#countTokens(request, context),
    };
  }

  /** Resolves when none runs; at once where that is so now. */
  async idle(): Promise<void> {
    if (this.#running.size === 0) return;
    await new Promise<void>(resolve => {
      this.#whenIdle.push(resolve);
    });
  }

  /** Takes no new ones from now on. */
  drain(): void {
    this.#isDraining = true;
  }

  /** Ends those that still run; each settles what it delivered. */
  cutAll(): void {
    for (const run of this.#running) run.cut();
  }

  async *#generate(
    request: GenerateRequest,
    context: HandlerContext,
  ): AsyncGenerator<GenerateResponse, void, undefined> {
    if (this.#isDraining) throw new GatewayError('overloaded', 'The gateway is stopping.', { retryAfterMs: 5_000 });
    const { ledger, router, clock, ids } = this.#tools;
    const credential = await authenticate(context, ledger, 'api_key');
    const { model, tier, resolved } = this.#resolve(request, credential);
    if (!model.available) throw modelUnavailable(model.id);
    const named = context.requestHeader.get(requestIdHeader);
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
    };
    const admittedAtMs = clock.now();
    const admitted = await admit(ledger, applicant);
    const run = new GenerationRun(this.#tools, { ...applicant, admitted, admittedAtMs }, () => this.#ended(run));
    this.#running.add(run);
    for await (const events of run.events(context.signal)) {
      yield { $typeName: 'tollgate.v1.GenerateResponse', events };
    }
  }

  #ended(run: GenerationRun): void {
    this.#running.delete(run);
    if (this.#running.size === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  /** The checked request with the listed model and its tier. */
  #resolve(request: GenerateRequest, credential: Credential): Resolved & { readonly resolved: GenerateRequest } {
    checkRequest(request);
    const { endpoint, serviceTier } = request;
    const visible = credential.allowedModels;
    const { model, tier } = this.#tools.catalog.resolve(request.model, { endpoint, serviceTier, visible });
    if (visible !== null && !visible.includes(model.id)) {
      throw new GatewayError('model_not_allowed', `This key may not use ${model.id}.`, { param: 'model' });
    }
    checkFeatures(request, model);
    checkLength(request, model);
    return { model, tier, resolved: { ...request, model: model.id, serviceTier: tier } };
  }

  async #countTokens({ request }: CountTokensRequest, context: HandlerContext) {
    if (request === undefined) throw new GatewayError('validation_error', 'request is missing.', { param: 'request' });
    const credential = await authenticate(context, this.#tools.ledger, 'api_key');
    const { resolved } = this.#resolve(request, credential);
    return { inputTokens: await countInputInPieces(resolved, await loadTokenizer()), source: UsageSource.ESTIMATED };
  }
}
