import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { ConfigError } from '../config/config-error.ts';
import { type Environment, listenerUrl } from '../config/env.ts';
import type { Config } from '../config/settings.ts';
import { accountService } from '../core/account.ts';
import { accountingService } from '../core/accounting.ts';
import { adminService, type Reloaded } from '../core/admin.ts';
import { Catalog } from '../core/catalog/catalog.ts';
import { catalogService } from '../core/catalog/catalog-service.ts';
import { credentialService, requireCredential, visibleModels } from '../core/credential.ts';
import { StoredConversations } from '../core/conversations/stored-conversations.ts';
import { DirectAnswers, type DirectTools } from '../core/direct/direct-answers.ts';
import { embeddings } from '../core/embeddings/embeddings.ts';
import { rerank } from '../core/rerank/rerank.ts';
import type { StoppableService } from '../core/running.ts';
import { Generations } from '../core/generation/generations.ts';
import { UnseenOutput } from '../core/generation/unseen-output.ts';
import { serverSecrets } from '../core/secret-files.ts';
import { hasScope, ServiceTokens } from '../core/service-tokens.ts';
import { openBatches } from './batches.ts';
import { Responses } from '../core/responses/responses.ts';
import { Replays } from '../core/idempotency/replays.ts';
import { Router } from '../core/routing/router.ts';
import { createEdge } from '../edge/create-edge.ts';
import { errorDocsPath } from '../edge/error-docs.ts';
import type { ErrorTexts } from '../edge/options.ts';
import { AccountService } from '../gen/tollgate/v1/account_pb.ts';
import { AccountingService } from '../gen/tollgate/v1/accounting_pb.ts';
import { AdminService } from '../gen/tollgate/v1/admin_pb.ts';
import { CatalogService } from '../gen/tollgate/v1/catalog_pb.ts';
import { CredentialService } from '../gen/tollgate/v1/credential_pb.ts';
import { GenerationService } from '../gen/tollgate/v1/generation_pb.ts';
import { ResponseService } from '../gen/tollgate/v1/response_pb.ts';
import { BatchService, FileService } from '../gen/tollgate/v1/batch_pb.ts';
import { EmbeddingService } from '../gen/tollgate/v1/embedding_pb.ts';
import { ConversationService } from '../gen/tollgate/v1/conversation_pb.ts';
import { RerankService } from '../gen/tollgate/v1/rerank_pb.ts';
import { ImageService } from '../gen/tollgate/v1/image_pb.ts';
import { overloaded } from '../errors/overloaded.ts';
import { systemClock } from '../lib/clock.ts';
import { dollarsNumber } from '../lib/dollars.ts';
import { IdSource, publicRequestId, unnumberedRequestId } from '../lib/ids.ts';
import type { CallContext } from '../lib/pushed-service.ts';
import { systemRuntime } from '../lib/runtime.ts';
import { SealedBox } from '../lib/sealed-box.ts';
import { InProcessTransport } from '../rpc/in-process.ts';
import { createRpcListener, type RpcListener } from '../rpc/listener.ts';
import type { ProxySettings } from '../upstreams/connections.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type GaugeSources, metricsContentType, type Metrics } from '../telemetry/metrics.ts';
import type { RequestStory, RequestTrace } from '../telemetry/request-story.ts';
import { decodeSource } from '../edge/decode-source.ts';
import { DashboardService } from '../gen/tollgate/v1/dashboard_pb.ts';
import { openDashboards, People } from './dashboards.ts';
import { bootstrap, type FirstKeys } from './bootstrap.ts';
import { openImages } from './images.ts';
import { catalogContent, LiveConfig, reloadRefusal, type ReloadTargets } from './live-config.ts';
import { readFileSizes } from './file-sizes.ts';
import { retryPolicy, routesOf, simulatorName, strategiesOf } from './routing.ts';
import { Discovery } from './discovery.ts';
import { type FoundProvider, foundProviders } from './found-providers.ts';
import { observeKey, routingObserver } from './routing-observer.ts';
import { SecretFileWatch } from './secret-file-watch.ts';
import { startRetention } from './retention.ts';
import { createStopping } from './stopping.ts';
import { serviceTokens } from './service-tokens.ts';
import type { StorageHealth } from './storage-health.ts';
import { logCall } from './rpc-log.ts';
import type { Stores } from './stores.ts';
import { type ListenerTls, openTls } from './tls.ts';
import { UpstreamSet } from './upstream-set.ts';
import { openWebhooks, type TellOperator } from './webhooks.ts';

/** A running gateway. */
export interface Gateway {
  readonly publicUrl: string;
  readonly rpcUrl: string;
  /** Absent but on the first start. */
  readonly firstKeys?: FirstKeys;
  /** Where the dashboard is; on the first start a link that signs in once. */
  readonly dashboard: { readonly url: string; readonly isLink: boolean };
  /** Resolves to the providers that the environment has switched on: as soon as those that are asked for their models have answered, or `ms` later. */
  findProviders(ms: number): Promise<FoundProvider[]>;
  /** Ends as decided: no new requests, streams in flight get the grace, the rest is cut and settled. Resolves when all is closed, with whether all was stored. */
  stop(): Promise<boolean>;
  /** Ends the grace of a stop that is under way. */
  hurry(): void;
  /** Reads the configuration again; the log says what came of it. A bad one changes nothing. */
  reload(): void;
}

/** How far a provider's tokenizer may count above the gateway's before an answer is cut at its output limit. */
const foreignTolerance = 1.15;

/** What a gateway is opened on. */
export interface Ground {
  readonly environment: Environment;
  readonly config: Config;
  readonly stores: Stores;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly health: StorageHealth;
  /** Begins the trace of a request; absent: traces are switched off. */
  readonly startTrace?: ((story: RequestStory) => RequestTrace) | undefined;
  /** Reads the configuration for a reload. Throws `ConfigError`. */
  readonly readAgain: () => Promise<Config>;
}

/** Opens everything in one process. Throws what listening throws (a port in use). */
export async function openGateway(ground: Ground): Promise<Gateway> {
  const { environment, config, stores, logger } = ground;
  const live = new LiveConfig(config, ground.readAgain);
  const refusal = (reason: string): Error => {
    logger.error({ reason }, 'no request id can be made: set the clock right and restart');
    return overloaded('The gateway’s clock is wrong.', new Error(reason));
  };
  const ids = new IdSource(systemClock, stores.ledger.lastId, {
    monotonicMs: () => systemRuntime.monotonicMs(),
    refusal,
  });
  const publicUrl = (): string => live.current.publicUrl ?? address();
  const address = (): string => listenerUrl(environment.host, portOf(edge, environment.port), config.tls !== undefined);
  const parts = { ...ground, live, ids, publicUrl };
  const core = makeCore(parts);
  ground.metrics.show(gaugeSources(environment.dataDir, core));
  await core.responses.recover();
  const state = { serving: false };
  const tls = openTls(config, logger);
  const people = new People({ ...core, config, publicUrl });
  const services = makeServices(core, people);
  const dashboards = openDashboards({ config, core: services, logger, people });
  const listening = { ...parts, tls, services, nextRequestId: () => requestIdOrNot(ids), dashboards, people };
  const edge: FastifyInstance = openEdge(listening, () => !state.serving);
  const rpc = openRpc(listening, core);
  const rpcAt = await rpc.listen(environment.rpcHost, environment.rpcPort);
  const rpcUrl = people.listening(listenerUrl(environment.rpcHost, rpcAt.port, config.rpc.tls !== undefined));
  await openSocket(rpc, ground);
  await edge.listen({ host: environment.host, port: environment.port });
  // Only now: a first start that can't listen must not leave keys behind that nobody was shown.
  const firstKeys = await bootstrap(stores.ledger, environment);
  state.serving = true;
  const asked = Promise.all([core.discovery.start(), core.deliveries.start()]);
  const secretFiles = new SecretFileWatch({
    sources: () => live.current.secretSources ?? [],
    reload: () => reloadedOrNot(core.reload, logger),
  });
  secretFiles.start();
  await Promise.all([core.images.resume(), core.batches.resume()]);
  const stopping = createStopping({
    edge,
    rpc,
    ...core,
    services: listRunning(core),
    graceMs: config.shutdownGraceMs,
    unready: () => ground.health.reason,
  });
  return {
    publicUrl: address(),
    rpcUrl,
    ...(firstKeys === undefined ? {} : { firstKeys }),
    dashboard: people.entrance(firstKeys !== undefined),
    findProviders: async ms => {
      await Promise.race([asked, sleep(ms, undefined, { ref: false })]);
      return foundProviders(live.whole, name => core.discovery.stateOf(name));
    },
    stop: () => {
      state.serving = false;
      core.discovery.stop();
      people.now.close();
      secretFiles.stop();
      tls.close();
      return stopping.stop();
    },
    hurry: stopping.hurry,
    reload: () => {
      tls.refresh();
      void reloadedOrNot(core.reload, logger);
    },
  };
}

/** Names a request, also while no id can be made: what it may do without one is answered, and its admission is refused. */
function requestIdOrNot(ids: IdSource): string {
  try {
    return publicRequestId(ids.next());
  } catch {
    return unnumberedRequestId();
  }
}

/** What hands other configurations on: the file read again, and the models that servers tell. */
function reloading(live: LiveConfig, targets: ReloadTargets, proxy: ProxySettings) {
  const discovery = new Discovery({
    proxy,
    logger: targets.logger,
    config: () => live.current,
    found: models => live.discovered(models, targets),
  });
  const reload = async (): Promise<Reloaded> => {
    const reloaded = await live.reload(targets);
    void discovery.ask();
    return reloaded;
  };
  return { reload, discovery };
}

/** A bad configuration is in the log, and the gateway goes on as it was. */
async function reloadedOrNot(reload: () => Promise<Reloaded>, logger: Logger): Promise<void> {
  try {
    await reload();
  } catch (thrown) {
    // A signal must not end the gateway, whatever is wrong.
    if (!(thrown instanceof ConfigError)) logger.error({ error: thrown }, 'the reload failed');
  }
}

function openRouter(
  { config, metrics, logger, tell }: Ground & { readonly tell: TellOperator },
  upstreams: UpstreamSet,
): Router {
  return new Router({
    config: { providers: upstreams.replace(config), routes: routesOf(config), strategies: strategiesOf(config) },
    clock: systemClock,
    retry: retryPolicy(config),
    observer: routingObserver(metrics, logger, tell),
  });
}

/** Returns what the metrics look at whenever somebody asks for them. */
function gaugeSources(
  dataDir: string,
  core: Pick<Core, 'router' | 'upstreams' | 'generations' | 'unseenOutput'>,
): GaugeSources {
  const { router, upstreams, generations, unseenOutput } = core;
  return {
    breakers: () =>
      router.breakers().map(({ route, state }) => ({ provider: route.provider, model: route.modelId, state })),
    providerKeys: () =>
      upstreams
        .keys()
        .flatMap(({ provider, keys }) =>
          keyStates.map(state => ({ provider, state, count: keys.filter(key => key.state === state).length })),
        ),
    heldUsd: () => dollarsNumber(generations.heldNanoUsd()),
    fileBytes: () => readFileSizes(dataDir),
    learnedTokens: () =>
      unseenOutput.tokens
        .samples()
        .map(({ route, of, ratio }) => ({ provider: route.provider, model: route.modelId, of, ratio })),
  };
}

const keyStates = ['working', 'resting', 'probing'] as const;

/** What both listeners offer. */
type Core = ReturnType<typeof makeCore>;

/** What everything in the process is made from. */
interface Parts extends Ground {
  readonly live: LiveConfig;
  readonly ids: IdSource;
  /** Known only when the listener is open: the system may pick its port. */
  readonly publicUrl: () => string;
}

/** The `reload` that it returns throws `ConfigError`. */
function makeCore(parts: Parts) {
  const { environment, config, live, stores, ids, logger } = parts;
  const box = new SealedBox(serverSecrets(environment.dataDir));
  const events = openWebhooks({ ...parts, ledger: stores.ledger, box });
  const upstreams = new UpstreamSet(environment.proxy, (provider, health) =>
    observeKey({ metrics: parts.metrics, logger, tell: events.tell }, provider, health),
  );
  const router = openRouter({ ...parts, tell: events.tell }, upstreams);
  const catalog = new Catalog(catalogContent(config), id => router.isAvailable(id));
  const shared = {
    ledger: stores.ledger,
    router,
    catalog,
    ids,
    // One for all paths: a key that was used on another is known.
    replays: new Replays(stores.documents, stores.ledger, systemClock),
    exposeRoute: () => live.current.exposeRoute,
    settleMs: config.ledger.settleTimeoutMs,
  };
  const unseenOutput = new UnseenOutput();
  const generations = new Generations({
    ...shared,
    runtime: systemRuntime,
    unseenOutput,
    answerBytesMax: () => {
      const { answerBytes: choice, wholeAnswerBytes: whole } = live.current.limits;
      return { choice, whole };
    },
    toleranceOf: provider => (provider === simulatorName ? 1 : foreignTolerance),
  });
  const { responses, kept } = openResponses(parts, { generations, replays: shared.replays, box });
  const opened = { ...shared, environment, live, documents: stores.documents, logger, publicUrl: parts.publicUrl };
  const { images, files } = openImages(opened);
  const direct = openDirect({ ...shared, runtime: systemRuntime });
  const texts = (): ErrorTexts => errorTexts(live, parts.publicUrl);
  const batches = openBatches({ ...opened, ...direct, metrics: parts.metrics, generations, responses, texts });
  const tokens = new ServiceTokens(serviceTokens(environment.dataDir, config));
  const tokensOf = (read: Config): void => tokens.replace(serviceTokens(environment.dataDir, read));
  const targets = { upstreams, router, catalog, logger, tokens: tokensOf };
  const { reload, discovery } = reloading(live, targets, environment.proxy);
  return {
    ...stores,
    router,
    upstreams,
    files,
    catalog,
    generations,
    unseenOutput,
    responses,
    kept,
    images,
    batches,
    ...direct,
    tokens,
    providers: () => listProviders(live, upstreams),
    reload,
    discovery,
    ...events,
    stopRetention: startRetention(stores.ledger, live, logger),
  };
}

/** Responses, and the conversations that they are made in. */
function openResponses(
  { config, live, stores, ids }: Parts,
  tools: { readonly generations: Generations; readonly replays: Replays; readonly box: SealedBox },
) {
  const { responseLifetimeMs: lifetimeMs } = config.content;
  const { box } = tools;
  const kept = new StoredConversations({ ...stores, ids, box, lifetimeMs, clock: systemClock });
  const sessionMemory = () => {
    const { sessionMemoryBytes: bytesMax, accountSessionMemoryBytes: ownerBytesMax } = live.current.limits;
    return { bytesMax, ownerBytesMax };
  };
  const responses = new Responses({
    ...stores,
    ...tools,
    runtime: systemRuntime,
    ids,
    kept,
    lifetimeMs,
    sessionMemory,
  });
  return { responses, kept };
}

/** The services whose answers come at once. */
function openDirect(tools: DirectTools) {
  return { embeddings: new DirectAnswers(tools, embeddings), rerank: new DirectAnswers(tools, rerank) };
}

/** Opens the Unix socket for the operator's commands. One that was not asked for may fail: the port does the same. */
async function openSocket(rpc: RpcListener, { environment, logger }: Ground): Promise<void> {
  const { rpcSocket } = environment;
  if (rpcSocket === undefined) return;
  try {
    await rpc.listenOnSocket(rpcSocket.path);
  } catch (thrown) {
    if (rpcSocket.isNamed) throw thrown;
    logger.warn({ error: thrown }, 'the socket for commands could not be opened: they use the port');
  }
}

/** The configured providers with the state of their keys. */
function listProviders(live: LiveConfig, upstreams: UpstreamSet) {
  const keys = new Map(upstreams.keys().map(each => [each.provider, each.keys]));
  return live.current.providers.map(({ name, protocol, baseUrl }) => ({
    name,
    protocol,
    baseUrl,
    keys: keys.get(name) ?? [],
  }));
}

interface ListenerParts extends Parts {
  readonly tls: ListenerTls;
  readonly services: InProcessTransport;
  readonly nextRequestId: () => string;
  readonly dashboards: ReturnType<typeof openDashboards>;
  readonly people: People;
}

function portOf(edge: FastifyInstance, port: number): number {
  const address = edge.server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}

function openEdge(parts: ListenerParts, draining: () => boolean): FastifyInstance {
  const { live, services, logger, metrics, health, nextRequestId, publicUrl, startTrace, dashboards, people } = parts;
  const { metrics: shownTo, limits } = live.current;
  return createEdge({
    transport: services,
    nextRequestId,
    runtime: systemRuntime,
    logger,
    metrics,
    startTrace,
    dashboard: dashboards.publicPages,
    failed: (account, key, code) => people.errors.add({ accountId: Number(account), keyId: Number(key), code }),
    publicMetrics: shownTo === 'public',
    bodyBytesMax: limits.bodyBytes,
    otherBodyBytesMax: limits.otherBodyBytes,
    get fileBytesMax() {
      return live.current.batches.fileBytes;
    },
    get bounds() {
      const { bodyDepth: depthMax, bodyValues: valuesMax, listEntries: entriesMax } = live.current.limits;
      return { depthMax, valuesMax, entriesMax };
    },
    get bodyMemory() {
      const { bodyBytes, bodyMemoryBytes, accountBodyMemoryBytes } = live.current.limits;
      // One body of the largest size always fits.
      return {
        bytesMax: Math.max(bodyBytes, bodyMemoryBytes),
        ownerBytesMax: Math.max(bodyBytes, accountBodyMemoryBytes),
      };
    },
    get load() {
      const { loopLagMs: lagMs, heapPermille } = live.current.overload;
      return { lagMs, heapShare: heapPermille / 1000 };
    },
    get fair() {
      const { sliceMs, queue: waitingMax } = live.current.overload;
      return { sliceMs, waitingMax };
    },
    get unsent() {
      const { stallMs, unsentMemoryBytes: bytesMax } = live.current.limits;
      return { stallMs, bytesMax };
    },
    get strangersMax() {
      return live.current.limits.addressRequests;
    },
    parser: { memoryBytesMax: limits.parseMemoryBytes, timeMs: limits.parseMs },
    tls: parts.tls.edge,
    get keepAliveMs() {
      return live.current.keepAliveMs;
    },
    get strict() {
      return live.current.strict;
    },
    get texts() {
      return errorTexts(live, publicUrl);
    },
    get corsOrigins() {
      return live.current.corsOrigins;
    },
    draining,
    unready: () => health.reason,
  });
}

/** What errors say beside their message. */
function errorTexts(live: LiveConfig, publicUrl: () => string): ErrorTexts {
  const { docs, support, community, tips } = live.current.texts;
  return {
    docs: docs ?? `${publicUrl()}${errorDocsPath}#{code}`,
    support: support ?? null,
    community: community ?? null,
    tips,
  };
}

/** Returns the services whose requests run for a while. */
function listRunning({ batches, generations, images, embeddings, rerank }: Core): StoppableService[] {
  return [batches, generations, images, embeddings, rerank];
}

/** The services of the contract, for both listeners. */
function makeServices(core: Core, people: People): InProcessTransport {
  const { ledger, catalog, responses, tokens, webhooks } = core;
  const { router, providers, upstreams } = core;
  const { publicUrl } = people.options;
  const listedId = (name: string): string => catalog.listedId(name);
  const testProvider: UpstreamSet['test'] = (name, model) => upstreams.test(name, model);
  const seen = { router, providers, testProvider };
  const visible = (context: CallContext) => visibleModels(context, { ledger, tokens });
  const reload = async (): Promise<Reloaded> => {
    try {
      return await core.reload();
    } catch (thrown) {
      throw reloadRefusal(thrown);
    }
  };
  const revoked = (keyId: number): void => {
    for (const service of listRunning(core)) service.revoke(keyId);
  };
  return new InProcessTransport()
    .service(CredentialService, credentialService({ ledger, tokens }))
    .service(CatalogService, catalogService({ catalog, visible }))
    .service(GenerationService, core.generations.service)
    .service(ResponseService, responses.service)
    .service(ConversationService, core.kept.service)
    .service(ImageService, core.images.service)
    .service(EmbeddingService, { embed: (request, context) => core.embeddings.answer(request, context) })
    .service(RerankService, { rerank: (request, context) => core.rerank.answer(request, context) })
    .service(FileService, core.batches.fileService)
    .service(BatchService, core.batches.service)
    .service(AccountService, accountService({ ledger, clock: systemClock, listedId, revoked, webhooks }))
    .service(AccountingService, accountingService({ ledger, tokens, clock: systemClock }))
    .service(
      AdminService,
      adminService({
        ledger,
        tokens,
        listedId,
        reload,
        revoked,
        publicUrl,
        webhooks,
        people: people.options,
        ...seen,
      }),
    )
    .service(DashboardService, people.service);
}

function openRpc(parts: ListenerParts, core: Core): RpcListener {
  const { live, services, logger, metrics, nextRequestId, dashboards } = parts;
  const { ledger, tokens } = core;
  const settings = live.current.rpc;
  return createRpcListener({
    services,
    nextRequestId,
    hasScope: (token, scope) => {
      const found = tokens.find(token);
      return found !== undefined && hasScope(found, scope);
    },
    decodeSource,
    messageBytesMax: live.current.limits.bodyBytes,
    unready: () => parts.health.reason,
    controlBytesMax: settings.controlBytes,
    elementsMax: settings.messageElements,
    openCalls: settings.open,
    tls: parts.tls.rpc,
    dashboard: (request, response, requestId) => dashboards.internalPages.answer(request, response, requestId),
    socketOnly: settings.admin === 'socket' ? [AdminService] : [],
    gate: context => requireCredential(context, { ledger, tokens }),
    metrics: () => Promise.resolve({ contentType: metricsContentType, body: metrics.text() }),
    observe: call => logCall(logger, call),
  });
}
