import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import { type GenerationEvent, UsageSource } from '../../gen/tollgate/v1/event_pb.ts';
import {
  type GenerateResponse,
  GenerateResponseSchema,
  type GenerationService,
} from '../../gen/tollgate/v1/generation_pb.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { checkFeatures } from '../../generation/check/check-features.ts';
import { checkLength } from '../../generation/check/check-length.ts';
import { checkRequest } from '../../generation/check/check-request.ts';
import { readToolUse, toolPromptTokens, type ToolUse } from '../../generation/tool-prompt.ts';
import { foreignTokensMost, hasOwnTokenizer } from '../../generation/own-tokenizer.ts';
import { loadTokenizer, measureInTurns, type MeasuredInput } from '../../generation/tokens.ts';
import { type IdSource, parseLedgerId, publicRequestId, requestIdHeader } from '../../lib/ids.ts';
import type { Sink, StreamControl } from '../../lib/push.ts';
import type { CallContext, PushedService } from '../../lib/pushed-service.ts';
import type { Admitted, Credential, Denied } from '../../ledger/ledger.ts';
import type { RequestTelemetry } from '../../telemetry/request-telemetry.ts';
import type { Catalog, Resolved } from '../catalog/catalog.ts';
import type { BodyStore } from '../bodies/body-store.ts';
import { authenticate } from '../credential.ts';
import { findTelemetry } from '../find-telemetry.ts';
import { idempotencyKey, type AnswerStore, type Replays } from '../idempotency/replays.ts';
import { restoredEvent } from '../idempotency/restored-event.ts';
import { modelUnavailable } from '../routing/failure-policy.ts';
import { SharedBudget } from '../../lib/shared-budget.ts';
import { RunningRequests, stopping } from '../running-requests.ts';
import { StartingCall, startCall } from '../starting-call.ts';
import { mayFit, refusal, toAdmitCommand } from './admission.ts';
import { countInputInPieces } from '../../generation/count-input.ts';
import { inputTokensHeld, readBatchTerms, toolPasses, withFewerPasses } from './funds.ts';
import { Generation, type GenerationDependencies } from './generation.ts';
import type { RunningFacts } from './running-facts.ts';
import type { GenerationSink } from './generation-sink.ts';
import type { AdmittedRequest } from './output-limit.ts';
import { checkCountedLength, isNearLimit, truncateToContext } from './truncation.ts';
import { readTier, toTierFields } from '../../generation/service-tier.ts';

interface GenerationsDependencies extends GenerationDependencies {
  readonly catalog: Catalog;
  readonly ids: IdSource;
  readonly replays: Replays;
  /** Returns how many choices may run, of all accounts and of one. Called for each request. */
  readonly choicesMax: () => ChoiceLimits;
  /** Stores bodies of requests; absent: none are kept. */
  readonly bodies?: BodyStore | undefined;
}

/** The request and options with which a service of the core starts a generation. */
export interface GenerationStart {
  readonly request: GenerateRequest;
  readonly credential: Credential;
  /** The public request id from the edge; null: a new one is made. */
  readonly requestId: string | null;
  /** True if the admission must be durable, because the client learns of it before the request ends. */
  readonly durable?: boolean;
  /** See `AdmittedRequest`. */
  readonly freeIfInterrupted?: boolean;
  /** The id of the batch that the request is an item of; absent: none. */
  readonly batchId?: string | undefined;
  readonly telemetry?: RequestTelemetry | undefined;
}

/** A request whose model was found and whose input was checked. */
interface CheckedRequest extends Resolved {
  readonly request: GenerateRequest;
  readonly bounds: MeasuredInput;
}

/** A request that will be admitted. */
type RequestedGeneration = Omit<AdmittedRequest, 'admitted' | 'bodies'>;

/** The most choices that may run at once, because each takes memory until its answer ends. */
export interface ChoiceLimits {
  readonly all: number;
  readonly account: number;
}

/** All generations of this process. */
export class Generations {
  readonly #dependencies: GenerationsDependencies;
  readonly #running = new RunningRequests<Generation>();
  readonly #choices: SharedBudget<number>;
  readonly #ended = (generation: Generation): void => {
    this.#running.delete(generation);
    this.#choices.give(generation.accountId, generation.choices);
  };
  #isDraining = false;
  #begun = 0;

  constructor(dependencies: GenerationsDependencies) {
    this.#dependencies = dependencies;
    this.#choices = new SharedBudget(() => {
      const { all, account } = dependencies.choicesMax();
      return { max: all, ownerMax: account };
    });
  }

  /** Resolves when no generation runs; immediately if none runs now. */
  async idle(): Promise<void> {
    await this.#running.idle();
  }

  /** Refuses new generations from now on. */
  drain(): void {
    this.#isDraining = true;
  }

  /** How many generations were requested in this process, items of batches not counted. */
  get begun(): number {
    return this.#begun;
  }

  /** Returns the running requests of an account, or of a key, or (if both are undefined) all of them, in no particular order. */
  listRunning(accountId: number | undefined, keyId: number | undefined): RunningFacts[] {
    return this.#running.all
      .filter(each => keyId === undefined || each.keyId === keyId)
      .map(({ facts }) => facts)
      .filter(facts => accountId === undefined || facts.accountId === accountId);
  }

  /** Returns the sum of the holds of all running requests. */
  heldNanoUsd(): bigint {
    return this.#running.all.reduce((sum, { heldNanoUsd }) => sum + heldNanoUsd, 0n);
  }

  /** Ends all running generations. What each has delivered is charged. */
  interruptAll(): void {
    this.#running.interruptAll();
  }

  /** Ends the running generations of a revoked key. What each has delivered is charged. */
  revoke(keyId: number): void {
    this.#running.revoke(keyId);
  }

  /** Returns the implementation of GenerationService. */
  get service(): PushedService<typeof GenerationService> {
    return {
      generate: (request, context, sink) => {
        const call = new StartingCall();
        void this.#start(call, { request, context }, sink);
        return call;
      },
      countTokens: async ({ request }, context) => {
        if (request === undefined) {
          throw new GatewayError('validation_error', 'request is missing.', { param: 'request' });
        }
        return this.count(request, await authenticate(context, this.#dependencies.ledger, 'api_key'));
      },
    };
  }

  /** Counts a request's input tokens. Throws the error that a generation with this input would get. */
  async count(request: GenerateRequest, credential: Credential): Promise<{ inputTokens: number; source: UsageSource }> {
    const checked = await this.#check(request, credential);
    const { bounds, model } = checked;
    // If the input is far too long for the model, the provider is not queried for its count.
    const isFar = bounds.low > 2 * (model.contextLength ?? Infinity);
    const own = bounds.hasMedia || isFar ? undefined : await this.#dependencies.router.countTokens(checked.request);
    if (own !== undefined) return { inputTokens: own, source: UsageSource.REPORTED };
    const tools = readToolUse(checked.request);
    const measured = { kind: bounds.kind, estimate: bounds.ownHigh, tools };
    const learned = bounds.hasMedia
      ? undefined
      : this.#dependencies.unseenOutput.tokens.estimateModelInput(model.id, measured);
    const prompt = this.#toolPrompt(model, tools);
    const counted = prompt + (await countInputInPieces(checked.request, await loadTokenizer()));
    // If earlier reports show that the provider counts like the tokenizer, the tokenizer's count is exact.
    const agrees = learned === undefined || Math.abs(learned - counted) <= Math.max(3, counted / 20);
    return { inputTokens: agrees ? counted : learned, source: UsageSource.ESTIMATED };
  }

  /**
   * Checks and admits a request; the caller then starts the generation. Throws the client's error; in that case nothing is held.
   */
  async begin(ask: GenerationStart): Promise<Generation> {
    if (this.#isDraining) throw stopping();
    if (ask.batchId === undefined) this.#begun += 1;
    this.#running.beginning();
    try {
      const checking = this.#check(ask.request, ask.credential);
      const checked = checking instanceof Promise ? await checking : checking;
      const { request, model, bounds } = checked;
      if (!model.available) throw modelUnavailable(model.id, this.#dependencies.router.restMs(model.id));
      if (isNearLimit(request, model, bounds)) await checkCountedLength(request, model);
      const requested = this.#toRequested(ask, checked);
      const { accountId, keyId } = requested;
      this.#takeChoices(requested);
      try {
        ask.telemetry?.admissionBegan({ accountId, keyId, model: model.id });
        let admitted = await this.#dependencies.ledger.admit(toAdmitCommand(requested));
        if (admitted.kind === 'denied') admitted = await this.#admitLess(requested, bounds, admitted);
        if (admitted.kind !== 'denied') return this.#open(requested, admitted, ask.credential.keepBodies);
        ask.telemetry?.admissionEnded(undefined, admitted.code);
        throw await refusal(this.#dependencies.ledger, admitted, requested);
      } catch (thrown) {
        this.#choices.give(accountId, requested.request.candidates ?? 1);
        throw thrown;
      }
    } finally {
      this.#running.begun();
    }
  }

  /** Returns a checked request as it will be admitted. */
  #toRequested(ask: GenerationStart, checked: CheckedRequest): RequestedGeneration {
    const { router, runtime, ids } = this.#dependencies;
    const { requestId: named, batchId } = ask;
    const { model, bounds } = checked;
    const batch = batchId === undefined ? undefined : { id: batchId, ...readBatchTerms(model) };
    const tier = batch?.tier ?? checked.tier;
    const request = batch === undefined ? checked.request : { ...checked.request, ...toTierFields(tier) };
    const id = (named === null ? undefined : parseLedgerId(named)) ?? ids.next();
    return {
      id,
      requestId: named ?? publicRequestId(id),
      keyId: ask.credential.keyId,
      accountId: ask.credential.accountId,
      request,
      model,
      tier,
      measured: {
        inputTokens: this.#inputHigh(model, bounds, readToolUse(request)),
        calls: router.callsFor(request),
        passes: toolPasses(request, model),
        cacheWrites: bounds.cacheWrites,
      },
      durable: ask.durable,
      batch,
      admittedAtMs: runtime.now(),
      freeIfInterrupted: ask.freeIfInterrupted,
      telemetry: ask.telemetry,
      input: bounds,
    };
  }

  /** Admits a denied request with a smaller hold: with as many passes of its provider's tools as funds and limits reach, and at last with the tokenizer's count of its input. Returns the denial if they don't reach for that. */
  async #admitLess(requested: RequestedGeneration, bounds: MeasuredInput, denied: Denied): Promise<Admitted | Denied> {
    let reply: Admitted | Denied = denied;
    let { measured } = requested;
    for (
      let fewer = withFewerPasses(measured);
      reply.kind === 'denied' && fewer !== undefined;
      fewer = withFewerPasses(measured)
    ) {
      if (reply.denial === undefined) return reply;
      measured = fewer;
      reply = await this.#dependencies.ledger.admit(toAdmitCommand({ ...requested, measured }));
    }
    if (reply.kind !== 'denied' || bounds.hasMedia || !mayFit(reply, { ...requested, measured })) return reply;
    const inputTokens = await this.#countHigh(requested, bounds);
    if (inputTokens >= measured.inputTokens) return reply;
    return this.#dependencies.ledger.admit(toAdmitCommand({ ...requested, measured: { ...measured, inputTokens } }));
  }

  /** Returns the most tokens that an input can have by the tokenizer's count, with a margin if the model has another tokenizer. */
  async #countHigh({ request, model }: RequestedGeneration, { ownHigh, kind }: MeasuredInput): Promise<number> {
    const { router, unseenOutput } = this.#dependencies;
    const counted = await countInputInPieces(request, await loadTokenizer());
    const tools = readToolUse(request);
    const margin = router.routeNames(model.id).every(hasOwnTokenizer) ? 1 : foreignTokensMost;
    const learned = unseenOutput.tokens.inputHigh(model.id, { kind, estimate: ownHigh, tools }) ?? 0;
    return Math.max(Math.ceil(counted * margin) + this.#toolPrompt(model, tools), learned);
  }

  /** Takes room for the choices of a request. Throws if there is none. */
  #takeChoices({ accountId, request }: RequestedGeneration): void {
    const outcome = this.#choices.take(accountId, request.candidates ?? 1);
    if (outcome !== 'taken') throw tooManyChoices(outcome);
  }

  /** Makes the generation of an admitted request. */
  #open(requested: RequestedGeneration, admitted: Admitted, keep: Credential['keepBodies']): Generation {
    const { requestId, keyId, accountId, request, telemetry } = requested;
    telemetry?.admissionEnded(admitted.heldNanoUsd);
    const bodies = this.#dependencies.bodies?.begin({ requestId, keyId, accountId, keep }, request, telemetry);
    const generation = new Generation(this.#dependencies, { ...requested, admitted, bodies }, this.#ended);
    this.#running.add(generation);
    return generation;
  }

  /**
   * Returns the most tokens that an input can have: its upper bound, or more if the model's providers have reported more for such inputs; the model's whole context if part of the input can't be counted.
   */
  #inputHigh(model: Model, bounds: MeasuredInput, tools: ToolUse | undefined): number {
    const { high, ownHigh: estimate, kind, hasMedia } = bounds;
    const learned = hasMedia
      ? undefined
      : this.#dependencies.unseenOutput.tokens.inputHigh(model.id, { kind, estimate, tools });
    // Limited to about twice the upper bound: a provider that counts wrongly must not cause holds of an account's whole balance.
    const most = Math.max(inputTokensHeld(bounds, model), Math.min(learned ?? 0, 2 * high + 512));
    return Math.max(most, estimate + this.#toolPrompt(model, tools));
  }

  /** Returns the most tokens that a model's providers add for tools that are used so, if nothing was learned about them. */
  #toolPrompt({ id }: Model, tools: ToolUse | undefined): number {
    const names = this.#dependencies.router.routeNames(id);
    return Math.max(0, ...names.map(({ model }) => toolPromptTokens(model, tools)));
  }

  /** Admits and starts a request. Never rejects. It awaits as little as possible, because each `await` makes a promise. */
  async #start(
    call: StartingCall,
    { request, context }: { readonly request: GenerateRequest; readonly context: CallContext },
    sink: Sink<GenerateResponse>,
  ): Promise<void> {
    try {
      const found = authenticate(context, this.#dependencies.ledger, 'api_key');
      const credential = found instanceof Promise ? await found : found;
      const key = idempotencyKey(context);
      const telemetry = findTelemetry(context);
      const ask = { request, credential, requestId: context.requestHeader.get(requestIdHeader), telemetry };
      if (key !== undefined) return call.attach(this.#startOnce({ ...ask, context, key }, sink));
      const generation = await this.begin(ask);
      call.attach(generation);
      generation.start(new ResponseSink(sink));
    } catch (thrown) {
      // Deferred, because the caller may not have the call's control yet.
      queueMicrotask(() => sink.end(toGatewayError(thrown)));
    }
  }

  /** Starts a request with an Idempotency-Key, or repeats its stored answer. */
  #startOnce(
    { context, key, ...ask }: GenerationStart & { readonly context: CallContext; readonly key: string },
    sink: Sink<GenerateResponse>,
  ): StreamControl {
    const { request, credential } = ask;
    const requestId = ask.requestId ?? publicRequestId(this.#dependencies.ids.next());
    return this.#dependencies.replays.answer(
      {
        context,
        credential,
        key,
        request,
        answer: GenerateResponseSchema,
        run: (answerStore, kept) =>
          startCall(kept, async call => {
            const generation = await this.begin({ ...ask, requestId });
            call.attach(generation);
            generation.start(new ResponseSink(kept, { answerStore, requestId }));
          }),
        restore: ({ events }, facts) => toResponse(events.map(event => restoredEvent(event, facts))),
      },
      sink,
    );
  }

  /** Returns the model that a request names, with its tier. Throws if the credential can't use it for the request. */
  resolve(requested: GenerateRequest, credential: Credential): Resolved {
    const { endpoint } = requested;
    const tier = readTier(requested);
    const visible = credential.allowedModels;
    const resolved = this.#dependencies.catalog.resolve(requested.model, { endpoint, tier, visible });
    const { model } = resolved;
    if (visible !== null && !visible.includes(model.id)) {
      throw new GatewayError('model_not_allowed', `This key may not use ${model.id}.`, { param: 'model' });
    }
    checkFeatures(requested, model);
    return resolved;
  }

  /** Returns the checked request with its model and tier; a promise only if the input is long or has to be counted. */
  #check(requested: GenerateRequest, credential: Credential): CheckedRequest | Promise<CheckedRequest> {
    checkRequest(requested);
    const resolved = this.resolve(requested, credential);
    const bounds = measureInTurns(requested);
    return bounds instanceof Promise
      ? bounds.then(found => fitToContext(requested, resolved, found))
      : fitToContext(requested, resolved, bounds);
  }
}

/** Sends the answer of a generation as messages of its service; with `kept`, also stores it as the answer for repeats. */
class ResponseSink implements GenerationSink {
  readonly #sink: Sink<GenerateResponse>;
  readonly beforeSettle?: (rest: readonly GenerationEvent[]) => Promise<void>;
  readonly beforeBrokenSettle?: (error: Error) => Promise<void>;

  constructor(
    sink: Sink<GenerateResponse>,
    kept?: { readonly answerStore: AnswerStore<GenerateResponse>; readonly requestId: string },
  ) {
    this.#sink = sink;
    if (kept === undefined) return;
    const { answerStore, requestId } = kept;
    this.beforeSettle = rest => answerStore.keep(requestId, [toResponse([...rest])]);
    this.beforeBrokenSettle = error => answerStore.keepFailure(requestId, error);
  }

  events(events: GenerationEvent[]): void {
    this.#sink.message(toResponse(events));
  }

  end(error?: Error): void {
    this.#sink.end(error);
  }
}

/** Returns the request, cut to the model's context if it asks for that, and the bounds of its input. */
function fitToContext(
  requested: GenerateRequest,
  resolved: Resolved,
  bounds: MeasuredInput,
): CheckedRequest | Promise<CheckedRequest> {
  const fitting = truncateToContext(requested, resolved.model, bounds);
  if (!(fitting instanceof Promise)) return checkedRequest(fitting, resolved, bounds);
  return fitting.then(async request =>
    checkedRequest(request, resolved, request === requested ? bounds : await measureInTurns(request)),
  );
}

function checkedRequest(requested: GenerateRequest, { model, tier }: Resolved, bounds: MeasuredInput): CheckedRequest {
  checkLength(requested, model, bounds);
  return { model, tier, bounds, request: { ...requested, model: model.id, ...toTierFields(tier) } };
}

function toResponse(events: GenerationEvent[]): GenerateResponse {
  return { $typeName: 'tollgate.v1.GenerateResponse', events };
}

/** Returns the error of a request whose choices would exceed the limit of running choices. */
function tooManyChoices(outcome: 'owner_full' | 'full'): GatewayError {
  const message =
    outcome === 'full'
      ? 'Too many answers are being generated. Try again later.'
      : 'Too many answers of this account are being generated. Wait until one ends, or request fewer choices (`n`).';
  return new GatewayError('overloaded', message, { retryAfterMs: 1000 });
}
