import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError } from '../config/config-error.ts';
import { type Environment, listenerUrl } from '../config/env.ts';
import type { Config } from '../config/settings.ts';
import { accountService } from '../core/account.ts';
import { accountingService } from '../core/accounting.ts';
import { BodyStore } from '../core/bodies/body-store.ts';
import { adminService, type Reloaded } from '../core/admin.ts';
import { Catalog } from '../core/catalog/catalog.ts';
import { catalogService } from '../core/catalog/catalog-service.ts';
import { credentialService, requireCredential, visibleModels } from '../core/credential.ts';
import { StoredConversations } from '../core/conversations/stored-conversations.ts';
import { DirectAnswers, type DirectDependencies } from '../core/direct/direct-answers.ts';
import { embeddings } from '../core/embeddings/embeddings.ts';
import { rerank } from '../core/rerank/rerank.ts';
import type { StoppableService } from '../core/running-requests.ts';
import { Generations } from '../core/generation/generations.ts';
import { UnseenOutput } from '../core/generation/unseen-output.ts';
import { hasScope, ServiceTokens } from '../core/service-tokens.ts';
import { openBatches } from './batches.ts';
import { Responses } from '../core/responses/responses.ts';
import { Replays } from '../core/idempotency/replays.ts';
import { Router } from '../core/routing/router.ts';
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
import type { RequestTelemetry, RequestTrace } from '../telemetry/request-telemetry.ts';
import { sourceDecoder } from '../edge/decode-source.ts';
import { JsonParser } from '../edge/json-parser.ts';
import { DashboardService } from '../gen/tollgate/v1/dashboard_pb.ts';
import type { LargeMemory } from '../core/held-content.ts';
import { openMemory, parserLimits } from './body-limits.ts';
import { openDashboards, People } from './dashboards.ts';
import { bootstrap, type FirstKeys } from './bootstrap.ts';
import { configurationView } from './configuration-view.ts';
import { ledgerCheck } from './ledger-check.ts';
import { storageView } from './storage-view.ts';
import { ConfigurationAudit } from './configuration-audit.ts';
import { openImages } from './images.ts';
import { errorTexts, type ListenerOptions, openFront, shareFront } from './public-listener.ts';
import { catalogContent, LiveConfig, type ReloadedConfig, reloadRefusal, type ReloadTargets } from './live-config.ts';
import { watchFileSizes } from './file-sizes.ts';
import { retryPolicy, toRoutes, simulatorName, toStrategies } from './routing.ts';
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
import { openTls } from './tls.ts';
import { UpstreamSet } from './upstream-set.ts';
import type { Workers } from './workers/workers.ts';
import { openWebhooks, type NotifyOperator } from './webhooks.ts';

/** A running gateway. */
export interface Gateway {
  readonly publicUrl: string;
  readonly rpcUrl: string;
  /** The generated keys; absent except on the first start. */
  readonly firstKeys?: FirstKeys;
  /** The dashboard's URL; on the first start it is a link that signs in once. */
  readonly dashboard: { readonly url: string; readonly isLink: boolean };
  /**
   * Returns the providers that environment variables have enabled. Resolves when those that are queried for their models have answered, but after `ms` at the latest.
   */
  findProviders(ms: number): Promise<FoundProvider[]>;
  /** Stops the gateway. It takes no new requests; running ones may continue for the grace period, then they are interrupted and settled. Resolves when everything is closed, to whether everything was stored. */
  stop(): Promise<boolean>;
  /** Ends the grace period of a stop that has begun. */
  hurry(): void;
  /** Reads the configuration again and logs the result. If it is invalid, nothing changes. */
  reload(): void;
}

/** The factor by which a provider's token count may exceed the gateway's before the gateway cuts an answer at its output limit. */
const foreignTolerance = 1.15;

/** The options with which a gateway is opened. */
export interface GatewayResources {
  readonly environment: Environment;
  readonly config: Config;
  readonly stores: Stores;
  /** The number of this gateway among those that share a database; absent: it shares none. */
  readonly instance?: number;
  /** The worker threads that serve the public listener; undefined: this thread serves it. */
  readonly workers?: Workers | undefined;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly health: Pick<StorageHealth, 'reason' | 'onLow'>;
  /** Begins the trace of a request; absent: traces are disabled. */
  readonly startTrace?: ((telemetry: RequestTelemetry) => RequestTrace) | undefined;
  /** Reads the configuration for a reload. Throws `ConfigError`. */
  readonly rereadConfig: () => Promise<Config>;
}

/** Opens all parts of a gateway in this process. Throws the error of listening, for example that a port is in use. */
export async function openGateway(resources: GatewayResources): Promise<Gateway> {
  const { environment, config, stores, logger, workers } = resources;
  const live = new LiveConfig(config, resources.rereadConfig);
  const ids = makeIds(stores.ledger.lastId, logger, resources.instance);
  const publicUrl = (): string => live.current.publicUrl ?? address();
  const address = (): string => listenerUrl(environment.host, front.port, config.tls !== undefined);
  const parts = { ...resources, live, ids, publicUrl, memory: openMemory(live) };
  const core = makeCore(parts);
  resources.metrics.addGauges(gaugeSources(environment.dataDir, core, parts.memory));
  await core.responses.recover();
  const state = { serving: false };
  const tls = openTls(config, logger);
  const people = new People({ ...core, config, publicUrl, workers });
  const services = makeServices(core, people, workers, operatorView(parts));
  const dashboards = openDashboards({ config, addresses: live.addresses, core: services, logger, people });
  const listening = {
    ...parts,
    tls,
    services,
    nextRequestId: () => makeRequestId(ids),
    findListed: core.findListed,
    dashboards,
    people,
  };
  const front = workers === undefined ? openFront(listening, () => !state.serving) : shareFront(workers, listening);
  const rpc = openRpc(listening, core);
  const rpcAt = await rpc.listen(environment.rpcHost, environment.rpcPort);
  const rpcUrl = people.listening(listenerUrl(environment.rpcHost, rpcAt.port, config.rpc.tls !== undefined));
  await openSocket(rpc, resources);
  await front.listen();
  // After listening has succeeded: if the first start can't listen, no keys must be left that were never shown.
  const firstKeys = await bootstrap(stores.ledger, environment);
  await core.audit.started(config);
  state.serving = true;
  workers?.serve();
  const starting = Promise.all([core.discovery.start(), core.deliveries.start()]);
  const secretFiles = watchSecretFiles(live, core.reload, logger);
  renumberWhenLost(stores, ids, () => listRunning(core, workers));
  await Promise.all([core.images.resume(), core.batches.resume()]);
  const stopping = createStopping({
    edge: front,
    rpc,
    ...core,
    services: listRunning(core, workers),
    graceMs: config.shutdownGraceMs,
    unready: () => resources.health.reason,
  });
  return {
    publicUrl: address(),
    rpcUrl,
    ...(firstKeys === undefined ? {} : { firstKeys }),
    dashboard: people.entrance(firstKeys !== undefined && firstKeys.file === undefined),
    findProviders: async ms => {
      await Promise.race([starting, sleep(ms, undefined, { ref: false })]);
      return foundProviders(live.whole, name => core.discovery.findState(name));
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
      void reloadOrLog(core.reload, logger);
    },
  };
}

/** Returns a source of ids above `lastId`. `instance`: a different number for each thread that makes ids; absent: 0. */
export function makeIds(lastId: number, logger: Logger, instance = 0): IdSource {
  const refusal = (reason: string): Error => {
    logger.error({ reason }, 'no request id can be made: set the clock right and restart');
    return overloaded('The gateway’s clock is wrong.', new Error(reason));
  };
  return new IdSource(systemClock, lastId, { instance, monotonicMs: () => systemRuntime.monotonicMs(), refusal });
}

/** Returns an id for a request, even if no ledger id can be made at the moment. Requests that need no ledger id are then still answered; admissions are refused. */
export function makeRequestId(ids: IdSource): string {
  try {
    return publicRequestId(ids.next());
  } catch {
    return unnumberedRequestId();
  }
}

/** Ends what runs, and takes new ids, when this gateway has lost its number among those that share a database. */
function renumberWhenLost(stores: Stores, ids: IdSource, running: () => ReturnType<typeof listRunning>): void {
  stores.onLeaseEnded?.(number => {
    ids.renumber(number);
    for (const service of running()) service.interruptAll();
  });
}

/** Reloads the configuration when a secret file changes. */
function watchSecretFiles(live: LiveConfig, reload: () => Promise<Reloaded>, logger: Logger): SecretFileWatch {
  const watch = new SecretFileWatch({
    sources: () => live.current.secretSources ?? [],
    reload: () => reloadOrLog(reload, logger),
  });
  watch.start();
  return watch;
}

/** Applies new configurations: of a reloaded file, and with discovered models. */
function reloading(live: LiveConfig, targets: ReloadTargets, proxy: ProxySettings) {
  const discovery = new Discovery({
    proxy,
    logger: targets.logger,
    config: () => live.current,
    onModelsChanged: models => live.discovered(models, targets),
  });
  const reload = async (): Promise<ReloadedConfig> => {
    const reloaded = await live.reload(targets);
    void discovery.queryAll();
    return reloaded;
  };
  return { reload, discovery };
}

/** Reloads the configuration. If that fails, the error is logged and the gateway continues unchanged. */
export async function reloadOrLog(reload: () => Promise<Reloaded>, logger: Logger): Promise<void> {
  try {
    await reload();
  } catch (thrown) {
    // A reload by a signal must never end the gateway.
    if (!(thrown instanceof ConfigError)) logger.error({ error: thrown }, 'the reload failed');
  }
}

function openRouter(
  { config, metrics, logger, tell }: GatewayResources & { readonly tell: NotifyOperator },
  upstreams: UpstreamSet,
): Router {
  return new Router({
    config: { providers: upstreams.replace(config), routes: toRoutes(config), strategies: toStrategies(config) },
    clock: systemClock,
    retry: retryPolicy(config),
    observer: routingObserver(metrics, logger, tell),
  });
}

/** Returns the sources of gauges, which are read when metrics are requested. */
export function gaugeSources(
  dataDir: string,
  core: Pick<Core, 'router' | 'upstreams' | 'generations' | 'unseenOutput'>,
  memory: LargeMemory,
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
    largeMemory: () => memory,
    fileBytes: watchFileSizes(dataDir),
    learnedTokens: () =>
      unseenOutput.tokens
        .samples()
        .map(({ route, of, ratio }) => ({ provider: route.provider, model: route.modelId, of, ratio })),
  };
}

const keyStates = ['working', 'resting', 'probing'] as const;

/** The services of both listeners. */
type Core = ReturnType<typeof makeCore>;
/** The services that answer requests, and what they need. */
type RequestCore = ReturnType<typeof makeRequestCore>;

/** The resources of a gateway, and what was made from them first. */
export interface CoreResources extends GatewayResources {
  readonly live: LiveConfig;
  readonly memory: LargeMemory;
  readonly ids: IdSource;
  /** Returns the public URL. It is known only when the listener is open, because the system may choose the port. */
  readonly publicUrl: () => string;
}

/**
 * Makes the services of both listeners, and what runs in the background. The returned `reload` throws `ConfigError`.
 */
function makeCore(parts: CoreResources) {
  const { stores, live, logger, workers } = parts;
  const core = makeRequestCore(parts);
  const texts = (): ErrorTexts => errorTexts(live, parts.publicUrl);
  const batches = openBatches({ ...parts, ...core, texts });
  const audit = new ConfigurationAudit({ ledger: stores.ledger, dataDir: parts.environment.dataDir, logger });
  const reload = async (): Promise<ReloadedConfig> => {
    const reloaded = await core.reload();
    await workers?.reload();
    await audit.reloaded(live.current, reloaded.changes);
    return reloaded;
  };
  return { ...core, audit, batches, reload, stopRetention: startRetention(stores.ledger, live, logger) };
}

/** Makes the services that answer requests, on this thread or in a worker. The returned `reload` throws `ConfigError`. */
export function makeRequestCore(parts: CoreResources) {
  const { environment, config, live, stores, ids, logger, memory } = parts;
  const box = new SealedBox(stores.secrets);
  const isShared = stores.onLeaseEnded !== undefined;
  const events = openWebhooks({ ...parts, ledger: stores.ledger, box, isShared });
  const upstreams = new UpstreamSet(environment.proxy, (provider, health, change) =>
    observeKey({ metrics: parts.metrics, logger, tell: events.tell }, provider, health, change),
  );
  const router = openRouter({ ...parts, tell: events.tell }, upstreams);
  const catalog = new Catalog(catalogContent(config), id => router.isAvailable(id));
  const shared = {
    ledger: stores.ledger,
    router,
    catalog,
    ids,
    // One for all paths, so that an Idempotency-Key that was used on another path is known.
    replays: new Replays({ ...stores, memory, runtime: systemRuntime }),
    exposeRoute: () => live.current.exposeRoute,
    settleMs: config.ledger.settleTimeoutMs,
  };
  const unseenOutput = new UnseenOutput();
  const bodies = openBodies(parts, box);
  const generations = new Generations({
    ...shared,
    runtime: systemRuntime,
    unseenOutput,
    bodies,
    answerBytesMax: () => {
      const { answerBytes: choice, wholeAnswerBytes: whole } = live.current.limits;
      return { choice, whole };
    },
    choicesMax: () => {
      const { runningChoices: all, accountRunningChoices: account } = live.current.limits;
      return { all, account };
    },
    findTolerance: provider => (provider === simulatorName ? 1 : foreignTolerance),
  });
  const { responses, kept } = openResponses(parts, { generations, replays: shared.replays, box });
  const images = openImages({ ...stores, ...shared, live, memory, logger, publicUrl: parts.publicUrl });
  const direct = openDirect({ ...shared, runtime: systemRuntime });
  const tokens = new ServiceTokens(serviceTokens(environment.dataDir, config));
  const replaceTokens = (read: Config): void => tokens.replace(serviceTokens(environment.dataDir, read));
  const targets = { upstreams, router, catalog, logger, tokens: replaceTokens };
  const { reload, discovery } = reloading(live, targets, environment.proxy);
  return {
    ...stores,
    ...shared,
    upstreams,
    generations,
    bodies,
    unseenOutput,
    responses,
    kept,
    images,
    ...direct,
    direct: Object.values(direct),
    tokens,
    providers: () => listProviders(live, upstreams),
    findListed: (name: string) => catalog.find(name)?.id,
    reload,
    discovery,
    ...events,
  };
}

/** Opens the store of request bodies. */
function openBodies({ live, stores, logger }: CoreResources, box: SealedBox): BodyStore {
  return new BodyStore({
    documents: stores.documents,
    box,
    clock: systemClock,
    settings: () => {
      const { bodies: keep, bodyBytesMax: bytesMax, bodyLifetimeMs: lifetimeMs } = live.current.content;
      return { keep, bytesMax, lifetimeMs };
    },
    failed: (requestId, error) =>
      logger.warn({ request_id: requestId, error }, 'the bodies of a request could not be stored'),
  });
}

/** Opens responses, and the stored conversations that responses are added to. */
function openResponses(
  { config, live, stores, memory, ids, logger }: CoreResources,
  dependencies: { readonly generations: Generations; readonly replays: Replays; readonly box: SealedBox },
) {
  const { responseLifetimeMs: lifetimeMs } = config.content;
  const { box, replays } = dependencies;
  const kept = new StoredConversations({ ...stores, memory, ids, box, replays, lifetimeMs, clock: systemClock });
  const sessionMemory = () => {
    const { sessionMemoryBytes: max, accountSessionMemoryBytes: ownerMax } = live.current.limits;
    return { max, ownerMax };
  };
  const responses = new Responses({
    ...stores,
    ...dependencies,
    runtime: systemRuntime,
    memory,
    ids,
    kept,
    lifetimeMs,
    sessionMemory,
    onDefect: (responseId, error) =>
      logger.error({ responseId, error }, 'a background response lost output because of an internal failure'),
  });
  return { responses, kept };
}

/** Opens the direct endpoints, whose answers are not streamed. */
function openDirect(dependencies: DirectDependencies) {
  return { embeddings: new DirectAnswers(dependencies, embeddings), rerank: new DirectAnswers(dependencies, rerank) };
}

/** Opens the Unix socket for the operator's commands. If the default socket can't be opened, that is only logged, because commands can use the port. */
async function openSocket(rpc: RpcListener, { environment, logger }: GatewayResources): Promise<void> {
  const { rpcSocket } = environment;
  if (rpcSocket === undefined) return;
  try {
    await rpc.listenOnSocket(rpcSocket.path);
  } catch (thrown) {
    if (rpcSocket.isNamed) throw thrown;
    logger.warn({ error: thrown }, 'the socket for commands could not be opened; commands use the port');
  }
}

/** Returns the configured providers with the state of their keys. */
function listProviders(live: LiveConfig, upstreams: UpstreamSet) {
  const keys = new Map(upstreams.keys().map(each => [each.provider, each.keys]));
  return live.current.providers.map(({ name, protocol, baseUrl, others = [] }) => ({
    name,
    protocol: [protocol, ...others.map(each => each.protocol)].join(', '),
    baseUrl,
    keys: keys.get(name) ?? [],
  }));
}

/** Returns the services with running requests that a stop has to end. */
function listRunning(core: Core, workers: Workers | undefined): StoppableService[] {
  return [core.batches, ...listRequestServices(core), ...(workers === undefined ? [] : [workers])];
}

/** Returns the services that answer requests. */
export function listRequestServices({ generations, images, direct }: RequestCore): StoppableService[] {
  return [generations, images, ...direct];
}

/** Returns what the operator's view of the gateway is read from. */
function operatorView({ environment, config, live, health, stores }: CoreResources) {
  return {
    plans: config.plans,
    configuration: configurationView(live, environment),
    readStorage: storageView({ environment, live, health, stores }),
    verifyLedger: ledgerCheck(stores.ledger),
  };
}

/** Returns the implementations of all services, for both listeners. */
function makeServices(
  core: Core,
  people: People,
  workers: Workers | undefined,
  operator: ReturnType<typeof operatorView>,
): InProcessTransport {
  const { ledger, catalog, tokens, webhooks, bodies } = core;
  const { router, providers, upstreams } = core;
  const { publicUrl } = people.options;
  const findListedId = (name: string): string => catalog.findListedId(name);
  const findModel = (name: string) => catalog.named(name);
  const testProvider: UpstreamSet['test'] = (name, model) => upstreams.test(name, model);
  const seen = { router, providers, testProvider };
  const reload = async (): Promise<Reloaded> => {
    try {
      return await core.reload();
    } catch (thrown) {
      throw reloadRefusal(thrown);
    }
  };
  const revoked = (keyId: number): void => {
    for (const service of listRunning(core, workers)) service.revoke(keyId);
  };
  return offerRequestServices(new InProcessTransport(), core)
    .service(ConversationService, core.kept.service)
    .service(FileService, core.batches.fileService)
    .service(BatchService, core.batches.service)
    .service(
      AccountService,
      accountService({ ledger, clock: systemClock, findListedId, findModel, revoked, webhooks, bodies }),
    )
    .service(AccountingService, accountingService({ ledger, tokens, clock: systemClock }))
    .service(
      AdminService,
      adminService({
        ledger,
        tokens,
        findListedId,
        findModel,
        reload,
        revoked,
        publicUrl,
        webhooks,
        bodies,
        people: people.options,
        ...seen,
        ...operator,
      }),
    )
    .service(DashboardService, people.service);
}

/** Adds the services that answer requests to a transport. */
export function offerRequestServices(transport: InProcessTransport, core: RequestCore): InProcessTransport {
  const { ledger, catalog, tokens } = core;
  const visible = (context: CallContext) => visibleModels(context, { ledger, tokens });
  return transport
    .service(CredentialService, credentialService({ ledger, tokens }))
    .service(CatalogService, catalogService({ catalog, visible }))
    .service(GenerationService, core.generations.service)
    .service(ResponseService, core.responses.service)
    .service(ImageService, core.images.service)
    .service(EmbeddingService, { embed: (request, context) => core.embeddings.answer(request, context) })
    .service(RerankService, { rerank: (request, context) => core.rerank.answer(request, context) });
}

function openRpc(parts: ListenerOptions, core: Core): RpcListener {
  const { live, services, logger, metrics, nextRequestId, dashboards } = parts;
  const { ledger, tokens } = core;
  const { rpc: settings, limits } = live.current;
  const parser = new JsonParser(parserLimits(live), systemRuntime);
  const listener = createRpcListener({
    services,
    nextRequestId,
    hasScope: (token, scope) => {
      const found = tokens.find(token);
      return found !== undefined && hasScope(found, scope);
    },
    decodeSource: sourceDecoder(parser),
    messageBytesMax: limits.bodyBytes,
    unready: () => parts.health.reason,
    addresses: live.addresses,
    controlBytesMax: settings.controlBytes,
    elementsMax: settings.messageElements,
    openCalls: settings.open,
    tls: parts.tls.rpc,
    dashboard: (request, response, requestId) => dashboards.internalPages.answer(request, response, requestId),
    socketOnly: settings.admin === 'socket' ? [AdminService] : [],
    gate: context => requireCredential(context, { ledger, tokens }),
    metrics: async () => ({
      contentType: metricsContentType,
      body: (await parts.workers?.metricsText()) ?? metrics.text(),
    }),
    observe: call => logCall(logger, call),
  });
  const close: RpcListener['close'] = async graceMs => {
    await listener.close(graceMs);
    parser.close();
  };
  return { ...listener, close };
}
