import type { EncodedRequest } from '../codecs/codec.ts';
import type { Dialect } from '../codecs/dialect.ts';
import { Protocol } from '../gen/tollgate/v1/content_pb.ts';
import { Delivery, Endpoint, type GenerateRequest, OutputFormatType } from '../gen/tollgate/v1/request_pb.ts';
import type { EmbedRequest } from '../gen/tollgate/v1/embedding_pb.ts';
import type { RerankRequest } from '../gen/tollgate/v1/rerank_pb.ts';
import type { DirectCall } from '../generation/direct-call.ts';
import { clientName } from '../generation/check/field-names.ts';
import type { Embedded, EmbeddingUpstream } from '../generation/embeddings/embedding-upstream.ts';
import type { Reranked, RerankUpstream } from '../generation/rerank/rerank-upstream.ts';
import { checkCalls } from '../generation/portable/arrange-calls.ts';
import { type PortableRequest, refuseLoss, toPortable } from '../generation/portable/portable-request.ts';
import type { RunningAttempt, Upstream, UpstreamCall, UpstreamReceiver } from '../generation/upstream.ts';
import { AnswerReader, type AnswerReading, type EventRestorer } from './answer-reader.ts';
import { AnswerTool } from './answer-tool.ts';
import { asError } from './as-error.ts';
import { CustomCalls } from './custom-calls.ts';
import type { DirectHttp } from './direct-http.ts';
import { EchoMarker } from './echo-marker.ts';
import { hashAffinity } from '../generation/conversation-hash.ts';
import { KeyMark } from './key-mark.ts';
import { FanOut } from './fan-out.ts';
import { defined } from '../lib/defined.ts';
import { forwardedHeaders, noHeaders } from './forwarded-headers.ts';
import { HttpAttempt, type OutgoingRequest } from './http-attempt.ts';
import { embedOverHttp } from './http-embeddings.ts';
import { rerankOverHttp } from './http-rerank.ts';
import type { KeyRing } from './key-ring.ts';
import { HttpTarget, type HttpTargetOptions } from './http-target.ts';
import { filterBody, filterHeaders, type Passthrough, withoutExtras } from './passthrough.ts';
import { RunningTimings } from './running-timings.ts';
import { neededProtocol } from './model-traits.ts';
import { listOwnModels } from './own-models.ts';
import { countByTemplate } from './template-count.ts';
import { type OutgoingBody, outgoingBody } from './outgoing-json.ts';
import { StreamedOrWhole } from './streamed-or-whole.ts';
import { ToolNames } from './tool-names.ts';
import { WritingAttempt } from './writing-attempt.ts';
import type { UpstreamProtocol } from './protocols.ts';

/** The settings of a configured provider. */
export interface HttpUpstreamOptions extends Omit<HttpTargetOptions, 'ring'> {
  /** The provider's name in the configuration. */
  readonly name: string;
  /** The protocol at `baseUrl`, for clients whose own it does not speak. */
  readonly protocol: UpstreamProtocol;
  /** The other protocols that it speaks; absent: none. */
  readonly others?: readonly SpokenProtocol[];
  /** How the provider deviates from the protocol; absent: not at all. */
  readonly dialect?: Dialect;
  /** Which of the client's fields the provider gets; absent: `unpriced`. */
  readonly passthrough?: Passthrough | undefined;
  /** The most bytes of one event, or of an answer that is not streamed. */
  readonly eventBytesMax: number;
  /** True if embeddings may be requested with token ids. */
  readonly takesTokenIds: boolean;
  /** The address below which it reranks; absent: that of its protocol. */
  readonly rerankUrl?: string | undefined;
}

/** A protocol of a provider, with its address in the form that the protocol's official client takes. */
interface SpokenProtocol {
  readonly protocol: UpstreamProtocol;
  readonly baseUrl: string;
}

/** A call without the fields that are not needed to send it. */
type SentCall = Omit<UpstreamCall, 'hold' | 'attempt'>;

/** How long a model that the provider refused to stream is not streamed: organisations can be verified. */
const wholeForMs = 3_600_000;

/** The output limit of a call that the operator makes as a test. */
const probeTokens = 1;

/** The parts that all calls of a model share, streamed and not streamed ones separately. */
interface ModelPlan {
  readonly path: string;
  /** The headers, by the index of the key. */
  readonly headers: readonly string[][];
}

/** The parts that calls in one protocol of a provider share. */
interface Lane {
  readonly protocol: UpstreamProtocol;
  readonly target: HttpTarget;
  readonly reading: AnswerReading;
  /** The plans of models, by the upstream's name for the model. They are made at the first call. */
  readonly plans: { readonly streamed: Map<string, ModelPlan>; readonly whole: Map<string, ModelPlan> };
}

/**
 * The client of one provider over HTTP, with separate connections. The events of an answer that is not streamed come in one call of the receiver.
 */
export class HttpProvider implements Upstream, EmbeddingUpstream, RerankUpstream {
  readonly isRemote = true;
  readonly mayPause: boolean;
  readonly keys: KeyRing;
  readonly takesTokenIds: boolean;
  /** The first is for clients whose own protocol the provider does not speak. */
  readonly #lanes: readonly Lane[];
  readonly #first: Lane;
  /** The protocol of legacy completions; undefined: the provider does not offer them. */
  readonly #completions: Lane | undefined;
  /** The protocol whose provider reranks; undefined: it does not. */
  readonly #reranking: Lane | undefined;
  readonly #dialect: Dialect;
  readonly #passthrough: Passthrough;
  readonly #bytesMax: number;
  /** Until when requests for models that the provider does not stream are not streamed, by its name of the model. */
  readonly #wholeUntilMs = new Map<string, number>();

  constructor(options: HttpUpstreamOptions) {
    const {
      protocol: main,
      others = [],
      baseUrl: mainUrl,
      name,
      eventBytesMax,
      dialect = {},
      passthrough = 'unpriced',
      rerankUrl,
      ...more
    } = options;
    const spoken = [{ protocol: main, baseUrl: mainUrl }, ...others];
    this.mayPause = spoken.some(({ protocol }) => protocol.mayPause === true);
    this.takesTokenIds = options.takesTokenIds;
    this.#dialect = dialect;
    this.#passthrough = passthrough;
    this.#bytesMax = eventBytesMax;
    const lane = (protocol: UpstreamProtocol, target: HttpTarget): Lane => ({
      protocol,
      target,
      reading: { codec: protocol.codec, provider: name, eventBytesMax },
      plans: { streamed: new Map(), whole: new Map() },
    });
    const lanes: Lane[] = [];
    for (const { protocol, baseUrl } of spoken) {
      const target = new HttpTarget(
        { ...more, baseUrl, ...defined({ ring: lanes[0]?.target.keys }) },
        protocol.authentication,
      );
      lanes.push(lane(protocol, target));
    }
    const [first] = lanes;
    if (first === undefined) throw new Error(`${name} speaks no protocol`);
    this.#lanes = lanes;
    this.#first = first;
    this.keys = first.target.keys;
    const reranks = lanes.find(({ protocol }) => protocol.rerankPath !== undefined);
    this.#reranking =
      reranks === undefined || rerankUrl === undefined
        ? reranks
        : lane(
            reranks.protocol,
            new HttpTarget({ ...more, baseUrl: rerankUrl, ring: this.keys }, reranks.protocol.authentication),
          );
    const legacy = lanes.find(({ protocol }) => protocol.completions !== undefined);
    this.#completions = legacy?.protocol.completions && lane(legacy.protocol.completions, legacy.target);
  }

  generate(call: UpstreamCall, receiver: UpstreamReceiver): RunningAttempt {
    const isSeveral = this.callsFor(call.request, call.model) > 1;
    return isSeveral ? new FanOut(call, receiver, (one, to) => this.#attempt(one, to)) : this.#attempt(call, receiver);
  }

  limitIsVisible(model: string): boolean {
    return this.#dialect.visibleLimit?.some(part => model.includes(part)) === true;
  }

  callsFor(request: GenerateRequest, model: string): number {
    const { candidates = 1, endpoint } = request;
    // The prompts of a legacy completion can't be split into several calls.
    if (candidates === 1 || endpoint === Endpoint.COMPLETIONS) return 1;
    const { protocol } = this.#laneFor(request, model);
    return this.#dialect.choices === 'one' || protocol.givesOne?.(model) === true ? candidates : 1;
  }

  embed(call: DirectCall<EmbedRequest>): Promise<Embedded> {
    const lane = this.#lanes.find(({ protocol }) => protocol.embeddings !== undefined);
    const embeddings = lane?.protocol.embeddings;
    if (lane === undefined || embeddings === undefined) throw this.#lacks('embeddings');
    return embedOverHttp({ ...this.#direct(lane), protocol: embeddings }, call);
  }

  rerank(call: DirectCall<RerankRequest>): Promise<Reranked> {
    const lane = this.#reranking;
    const path = lane?.protocol.rerankPath;
    if (lane === undefined || path === undefined) throw this.#lacks('rerank');
    return rerankOverHttp(this.#direct(lane), call, path);
  }

  countTokens(request: GenerateRequest, model: string, signal: AbortSignal): Promise<number> | undefined {
    if (this.#dialect.counting !== 'template') return undefined;
    const lane = this.#laneFor(request, model);
    const { codec } = lane.reading;
    const isOwn = request.source?.protocol === codec.protocol;
    const portable = isOwn ? request : toPortable(request, codec.protocol).request;
    const call = { request, model, maxOutputTokens: undefined, whole: true };
    return countByTemplate(this.#direct(lane), this.#encode(lane, call, portable).body, signal);
  }

  /** Begins a call for the operator, to test whether the provider works. */
  probe(request: GenerateRequest, model: string, receiver: UpstreamReceiver): RunningAttempt {
    return this.#send({ request, model, maxOutputTokens: probeTokens, whole: false }, {}, receiver);
  }

  /**
   * Returns the provider's names of its models. Throws `UpstreamFailure`, and `SyntaxError` if the answer is not JSON; if the signal is aborted, its reason.
   */
  listModels(signal: AbortSignal): Promise<string[]> {
    return listOwnModels(this.#first.target, this.#first.protocol, signal);
  }

  /**
   * Waits until running calls have ended, then closes the connections. A later call gets separate connections, which are closed after it.
   */
  async close(): Promise<void> {
    await Promise.all(
      [...this.#lanes, ...(this.#reranking === undefined ? [] : [this.#reranking])].map(({ target }) => target.close()),
    );
  }

  #attempt(call: UpstreamCall, receiver: UpstreamReceiver): RunningAttempt {
    const { request, model, hold } = call;
    if (call.whole || request.delivery !== Delivery.WHOLE) return this.#send(call, hold, receiver);
    const { runtime } = this.#first.target;
    const untilMs = this.#wholeUntilMs.get(model) ?? 0;
    if (runtime.monotonicMs() < untilMs) return this.#send({ ...call, whole: true }, hold, receiver);
    const refused = (): void => void this.#wholeUntilMs.set(model, runtime.monotonicMs() + wholeForMs);
    return new StreamedOrWhole((whole, to) => this.#send({ ...call, whole }, hold, to), refused, receiver);
  }

  /** `keyUser` identifies the client's request: keys that are refused in one of its calls are not used in its other calls. */
  #send(call: SentCall, keyUser: object, receiver: UpstreamReceiver): RunningAttempt {
    const { request, model, whole, watch, tap } = call;
    const lane = this.#laneFor(request, model);
    const { target } = lane;
    const { codec } = lane.reading;
    const isOwn = request.source?.protocol === codec.protocol;
    let outgoing: Omit<OutgoingRequest, 'body'>;
    let body: ReturnType<typeof outgoingBody>;
    let restorers: EventRestorer[];
    try {
      const beganMs = target.runtime.monotonicMs();
      const forwarded = isOwn ? forwardedHeaders(request.source?.headers) : noHeaders;
      const { headers: own, withheld, unpriced = none } = filterHeaders(this.#passthrough, forwarded);
      const portable = isOwn ? keepUnchanged(request, codec.protocol) : toPortable(request, codec.protocol);
      const names = isOwn ? undefined : new ToolNames(portable.request, lane.protocol.toolName);
      const encoded = this.#encode(lane, call, names?.request ?? portable.request);
      const dropped = joinLists(portable.dropped, encoded.dropped, withheld).map(name =>
        clientName(request.endpoint, name),
      );
      refuseLoss(request, dropped);
      restorers = this.#restorers(lane.protocol, portable, names, dropped);
      const sent = joinLists(encoded.unpriced ?? none, unpriced);
      if (sent.length > 0) restorers.push(warning(`unpriced=${sent.join(',')}`));
      const plan = this.#plan(lane, model, whole);
      const adapted = lane.protocol.adapt?.(encoded.body, own) ?? { body: encoded.body, headers: own };
      const isPlain = Object.keys(adapted.headers).length === 0;
      const headers = isPlain ? plan.headers : this.#headers(lane, whole, adapted.headers);
      body = outgoingBody(adapted.body);
      watch?.translated(protocolNames[codec.protocol] ?? 'other', target.runtime.monotonicMs() - beganMs);
      const key = this.#keyMark(call, lane);
      if (key !== undefined) restorers.push(key);
      const { affinity, keyPicked } = key ?? {};
      const { accountId } = call;
      const { protocol } = lane;
      const path = protocol.reroute === undefined ? plan.path : target.path(protocol.path(model, whole));
      const reroute = protocol.reroute && ((text: string) => reroutedPath(lane, { model, whole, text }));
      const again = { reroute, affinity, keyPicked };
      outgoing = { keyUser, accountId, model, path, headers, whole, codec, watch, tap, ...again };
    } catch (thrown) {
      return failedAttempt(asError(thrown), receiver);
    }
    const reader = new AnswerReader(lane.reading, request.candidates ?? 1, restorers);
    const start = (written: OutgoingBody): RunningAttempt =>
      new HttpAttempt(target, { ...outgoing, body: written }, reader, receiver);
    return body instanceof Promise ? new WritingAttempt(body, start, receiver) : start(body);
  }

  /** Returns what keeps a conversation at its key, and names the key in the answer; undefined if the provider has one key. */
  #keyMark({ request, accountId }: SentCall, { target }: Lane): KeyMark | undefined {
    return target.keyCount > 1 ? new KeyMark(hashAffinity(request, accountId)) : undefined;
  }

  /** Returns the protocol for a request: the client's own, so that nothing is translated, unless the model refuses the request in it. */
  #laneFor(request: GenerateRequest, model: string): Lane {
    if (request.endpoint === Endpoint.COMPLETIONS) return this.#completions ?? this.#first;
    if (this.#lanes.length === 1) return this.#first;
    const own = this.#lane(request.source?.protocol, model) ?? this.#lane(undefined, model) ?? this.#first;
    const needed = neededProtocol(request, model, own.protocol.codec.protocol);
    return needed === undefined ? own : (this.#lane(needed, model) ?? own);
  }

  /** `wanted`: undefined for the first protocol in which the model is served. */
  #lane(wanted: Protocol | undefined, model: string): Lane | undefined {
    return this.#lanes.find(
      ({ protocol }) =>
        (wanted === undefined || protocol.codec.protocol === wanted) && protocol.serves?.(model) !== false,
    );
  }

  #direct({ target, reading }: Lane): DirectHttp {
    return { target, codec: reading.codec, bytesMax: this.#bytesMax, passthrough: this.#passthrough };
  }

  #lacks(what: string): Error {
    return new Error(`${this.#first.reading.provider} has no protocol with ${what}`);
  }

  #encode(
    { reading: { codec, provider } }: Lane,
    { model, maxOutputTokens, modelOutputTokens, modelReasons, whole, accountId, paidTools }: SentCall,
    request: GenerateRequest,
  ): EncodedRequest {
    const encoded = codec.encodeRequest({
      request: this.#passthrough === 'known' ? withoutExtras(request) : request,
      model,
      maxOutputTokens,
      modelOutputTokens,
      modelReasons,
      stream: !whole,
      provider,
      dialect: this.#dialect,
    });
    return filterBody(this.#passthrough, { protocol: codec.protocol, request, encoded, accountId, paidTools });
  }

  #plan(lane: Lane, model: string, whole: boolean): ModelPlan {
    const { protocol, target, plans: both } = lane;
    const { whole: wholePlans, streamed } = both;
    const plans = whole ? wholePlans : streamed;
    let plan = plans.get(model);
    if (plan === undefined) {
      plan = {
        path: target.path(protocol.path(model, whole)),
        headers: this.#headers(lane, whole, noHeaders),
      };
      plans.set(model, plan);
    }
    return plan;
  }

  /** Returns the headers of a call. `own`: the headers of its protocol that the client sent. */
  #headers(
    { target, protocol: { headers, joinedHeader } }: Lane,
    whole: boolean,
    own: Readonly<Record<string, string>>,
  ): string[][] {
    const accept = whole ? 'application/json' : 'text/event-stream, application/json';
    const defaults = { accept, 'user-agent': 'tollgate', ...headers, ...own };
    return target.headers(defaults, { 'content-type': 'application/json' }, joinedHeader);
  }

  /** Returns the steps that revert, in the answer, what the codec substituted because the protocol can't express it, and that add a warning with the dropped fields. */
  #restorers(
    { lacksCustomTools, answerTool }: UpstreamProtocol,
    { request, calls }: PortableRequest,
    names: ToolNames | undefined,
    dropped: readonly string[],
  ): EventRestorer[] {
    const restorers: EventRestorer[] = [];
    if (names !== undefined && names.request !== request) restorers.push(names);
    if (lacksCustomTools === true && request.tools.some(({ tool }) => tool.case === 'custom')) {
      restorers.push(new CustomCalls(request));
    }
    if (answerTool !== undefined && request.outputFormat?.type === OutputFormatType.JSON_SCHEMA) {
      restorers.push(new AnswerTool(answerTool));
    }
    if (this.#dialect.runningCounts === 'timings' && !asksForTimings(request)) restorers.push(new RunningTimings());
    if (calls !== undefined) restorers.push(calls);
    if (request.echo === true) restorers.push(new EchoMarker(request));
    if (dropped.length > 0) restorers.push(warning(`dropped=${dropped.join(',')}`));
    return restorers;
  }
}

/** Returns the entries of all lists, each once. */
function joinLists(...lists: readonly (readonly string[])[]): readonly string[] {
  if (lists.every(list => list.length === 0)) return none;
  const [first = none, ...rest] = lists.filter(list => list.length > 0);
  return rest.length === 0 ? first : [...new Set(lists.flat())];
}

const none: readonly string[] = [];

/** The names of protocols in traces. TypeScript requires an entry for every protocol. */
const namesByProtocol = {
  [Protocol.CHAT]: 'chat',
  [Protocol.RESPONSES]: 'responses',
  [Protocol.MESSAGES]: 'messages',
  [Protocol.GEMINI]: 'gemini',
  [Protocol.COMPLETIONS]: 'completions',
  [Protocol.IMAGES]: 'images',
} satisfies Readonly<Record<(typeof Protocol)[Exclude<keyof typeof Protocol, 'UNSPECIFIED'>], string>>;
const protocolNames: Readonly<Partial<Record<Protocol, string>>> = namesByProtocol;

/** Returns true if the client has requested llama.cpp's timings in every chunk. */
function asksForTimings({ source }: GenerateRequest): boolean {
  if (source === undefined) return false;
  const { buffer, byteOffset, length } = source.body;
  return Buffer.from(buffer, byteOffset, length).includes('"timings_per_token"');
}

/** The protocols whose providers decide themselves which calls need results. */
const checksCalls: ReadonlySet<Protocol> = new Set([Protocol.RESPONSES, Protocol.GEMINI]);

/**
 * Returns the unchanged request, for an upstream with the protocol of the client. Throws for calls without results, unless the upstream checks that.
 */
function keepUnchanged(request: GenerateRequest, protocol: Protocol): PortableRequest {
  if (!checksCalls.has(protocol)) checkCalls(request.items, request.endpoint);
  return { request, dropped: [], calls: undefined };
}

/** Returns a step that adds a warning to the start of an answer. */
function warning(text: string): EventRestorer {
  return {
    restored: events => {
      for (const { event } of events) if (event.case === 'started') event.value.warnings.push(text);
      return events;
    },
  };
}

/** Returns an attempt that ends with `failure`, for a call that can't be sent. */
function failedAttempt(failure: Error, receiver: UpstreamReceiver): RunningAttempt {
  let isCancelled = false;
  queueMicrotask(() => {
    if (!isCancelled) receiver.end(failure);
  });
  const ignore = (): void => undefined;
  return {
    cancel: () => {
      isCancelled = true;
    },
    pause: ignore,
    resume: ignore,
  };
}

/** Returns the path that a protocol offers after an error about the first one; undefined: none. */
function reroutedPath(
  { protocol, target }: Lane,
  { model, whole, text }: { readonly model: string; readonly whole: boolean; readonly text: string },
): string | undefined {
  const below = protocol.reroute?.(model, whole, text);
  return below === undefined ? undefined : target.path(below);
}
