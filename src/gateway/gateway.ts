import type { FastifyInstance } from 'fastify';
import { ConfigError } from '../config/config-error.ts';
import { type Environment, httpUrl } from '../config/env.ts';
import type { Config } from '../config/settings.ts';
import { accountService } from '../core/account.ts';
import { accountingService } from '../core/accounting.ts';
import { adminService, type Reloaded } from '../core/admin.ts';
import { Catalog } from '../core/catalog/catalog.ts';
import { catalogService } from '../core/catalog/catalog-service.ts';
import { credentialService, requireCredential, visibleModels } from '../core/credential.ts';
import { secretsEqual } from '../core/keys.ts';
import { Generations } from '../core/generation/generations.ts';
import { UnseenOutput } from '../core/generation/unseen-output.ts';
import { edgeToken, operatorToken, serverSecrets } from '../core/secret-files.ts';
import { Responses } from '../core/responses/responses.ts';
import { Replays } from '../core/idempotency/replays.ts';
import { Router } from '../core/routing/router.ts';
import { createEdge } from '../edge/create-edge.ts';
import { errorDocsPath } from '../edge/error-docs.ts';
import { AccountService } from '../gen/tollgate/v1/account_pb.ts';
import { AccountingService } from '../gen/tollgate/v1/accounting_pb.ts';
import { AdminService } from '../gen/tollgate/v1/admin_pb.ts';
import { CatalogService } from '../gen/tollgate/v1/catalog_pb.ts';
import { CredentialService } from '../gen/tollgate/v1/credential_pb.ts';
import { GenerationService } from '../gen/tollgate/v1/generation_pb.ts';
import { ResponseService } from '../gen/tollgate/v1/response_pb.ts';
import { ImageService } from '../gen/tollgate/v1/image_pb.ts';
import { systemClock } from '../lib/clock.ts';
import { IdSource, publicRequestId } from '../lib/ids.ts';
import type { CallContext } from '../lib/pushed-service.ts';
import { systemRuntime } from '../lib/runtime.ts';
import { SealedBox } from '../lib/sealed-box.ts';
import { InProcessTransport } from '../rpc/in-process.ts';
import { createRpcListener, type RpcListener } from '../rpc/listener.ts';
import type { ProxySettings } from '../upstreams/connections.ts';
import type { Logger } from '../telemetry/logger.ts';
import { metricsContentType, type Metrics } from '../telemetry/metrics.ts';
import { bootstrap, type FirstKeys } from './bootstrap.ts';
import { openImages } from './images.ts';
import { catalogContent, LiveConfig, reloadRefusal, type ReloadTargets } from './live-config.ts';
import { retryPolicy, routesOf, simulatorName } from './routing.ts';
import { Discovery } from './discovery.ts';
import { routingObserver } from './routing-observer.ts';
import { createStopping } from './stopping.ts';
import type { Stores } from './stores.ts';
import { UpstreamSet } from './upstream-set.ts';

/** A running gateway. */
export interface Gateway {
  readonly publicUrl: string;
  readonly rpcUrl: string;
  /** Absent but on the first start. */
  readonly firstKeys?: FirstKeys;
  /** Ends as decided: no new requests, streams in flight get the grace, the rest is cut and settled. Resolves when all is closed. */
  stop(): Promise<void>;
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
  /** Reads the configuration for a reload. Throws `ConfigError`. */
  readonly readAgain: () => Promise<Config>;
}

/** Opens everything in one process. Throws what listening throws (a port in use). */
export async function openGateway(ground: Ground): Promise<Gateway> {
  const { environment, config, stores, logger } = ground;
  const live = new LiveConfig(config, ground.readAgain);
  const ids = new IdSource(systemClock, stores.ledger.lastId);
  const publicUrl = (): string => live.current.publicUrl ?? httpUrl(environment.host, portOf(edge, environment.port));
  const parts = { ...ground, live, ids, publicUrl };
  const core = makeCore(parts);
  await core.responses.recover();
  const state = { serving: false };
  const nextRequestId = (): string => publicRequestId(ids.next());
  const listening = { ...parts, services: makeServices(core), nextRequestId };
  const edge: FastifyInstance = openEdge(listening, () => !state.serving);
  const rpc = openRpc(listening, core);
  const rpcAt = await rpc.listen(environment.rpcHost, environment.rpcPort);
  await edge.listen({ host: environment.host, port: environment.port });
  // Only now: a first start that can't listen must not leave keys behind that nobody was shown.
  const firstKeys = await bootstrap(stores.ledger, environment);
  state.serving = true;
  core.discovery.start();
  await core.images.resume();
  const stopping = createStopping({ edge, rpc, ...core, graceMs: config.shutdownGraceMs });
  return {
    publicUrl: httpUrl(environment.host, portOf(edge, environment.port)),
    rpcUrl: httpUrl(environment.rpcHost, rpcAt.port),
    ...(firstKeys === undefined ? {} : { firstKeys }),
    stop: () => {
      state.serving = false;
      core.discovery.stop();
      return stopping.stop();
    },
    hurry: stopping.hurry,
    reload: () => void reloadedOrNot(core.reload, logger),
  };
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

function openRouter({ config, metrics, logger }: Ground, upstreams: UpstreamSet): Router {
  const router = new Router({
    config: { providers: upstreams.replace(config), routes: routesOf(config) },
    clock: systemClock,
    retry: retryPolicy(config),
    observer: routingObserver(metrics, logger),
  });
  metrics.showBreakers(() =>
    router.breakers().map(({ route, state }) => ({ provider: route.provider, model: route.modelId, state })),
  );
  return router;
}

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
  const { environment, config, live, stores, ids, logger, publicUrl } = parts;
  const upstreams = new UpstreamSet(environment.proxy);
  const router = openRouter(parts, upstreams);
  const catalog = new Catalog(catalogContent(config), id => router.isAvailable(id));
  const shared = {
    ledger: stores.ledger,
    router,
    catalog,
    ids,
    // One for all paths: a key that was used on another is known.
    replays: new Replays(stores.documents, stores.ledger, systemClock),
    exposeRoute: () => live.current.exposeRoute,
  };
  const generations = new Generations({
    ...shared,
    runtime: systemRuntime,
    unseenOutput: new UnseenOutput(),
    answerBytesMax: () => {
      const { answerBytes: choice, wholeAnswerBytes: whole } = live.current.limits;
      return { choice, whole };
    },
    toleranceOf: provider => (provider === simulatorName ? 1 : foreignTolerance),
  });
  const responses = new Responses({
    ...stores,
    generations,
    replays: shared.replays,
    runtime: systemRuntime,
    ids,
    box: new SealedBox(serverSecrets(environment.dataDir)),
    lifetimeMs: config.content.responseLifetimeMs,
    sessionMemory: () => {
      const { sessionMemoryBytes: bytesMax, accountSessionMemoryBytes: ownerBytesMax } = live.current.limits;
      return { bytesMax, ownerBytesMax };
    },
  });
  const { images, files } = openImages({
    ...shared,
    environment,
    live,
    documents: stores.documents,
    logger,
    publicUrl,
  });
  const { reload, discovery } = reloading(live, { upstreams, router, catalog, logger }, environment.proxy);
  return {
    ...stores,
    files,
    catalog,
    generations,
    responses,
    images,
    token: operatorToken(environment.dataDir),
    reload,
    discovery,
  };
}

interface ListenerParts extends Parts {
  readonly services: InProcessTransport;
  readonly nextRequestId: () => string;
}

function portOf(edge: FastifyInstance, port: number): number {
  const address = edge.server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}

function openEdge(parts: ListenerParts, draining: () => boolean): FastifyInstance {
  const { live, services, logger, metrics, nextRequestId, publicUrl } = parts;
  const { metrics: shownTo, limits } = live.current;
  return createEdge({
    transport: services,
    nextRequestId,
    runtime: systemRuntime,
    logger,
    metrics,
    publicMetrics: shownTo === 'public',
    bodyBytesMax: limits.bodyBytes,
    otherBodyBytesMax: limits.otherBodyBytes,
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
    get keepAliveMs() {
      return live.current.keepAliveMs;
    },
    get strict() {
      return live.current.strict;
    },
    get texts() {
      const { docs, support, community, tips } = live.current.texts;
      return {
        docs: docs ?? `${publicUrl()}${errorDocsPath}#{code}`,
        support: support ?? null,
        community: community ?? null,
        tips,
      };
    },
    get corsOrigins() {
      return live.current.corsOrigins;
    },
    draining,
  });
}

/** The services of the contract, for both listeners. */
function makeServices(core: Core): InProcessTransport {
  const { ledger, catalog, generations, responses, images, token } = core;
  const listedId = (name: string): string => catalog.listedId(name);
  const visible = (context: CallContext) => visibleModels(context, ledger, token);
  const reload = async (): Promise<Reloaded> => {
    try {
      return await core.reload();
    } catch (thrown) {
      throw reloadRefusal(thrown);
    }
  };
  return new InProcessTransport()
    .service(CredentialService, credentialService({ ledger, operatorToken: token, clock: systemClock }))
    .service(CatalogService, catalogService({ catalog, visible }))
    .service(GenerationService, generations.service)
    .service(ResponseService, responses.service)
    .service(ImageService, images.service)
    .service(AccountService, accountService({ ledger, clock: systemClock, listedId }))
    .service(AccountingService, accountingService({ ledger, operatorToken: token, clock: systemClock }))
    .service(AdminService, adminService({ ledger, operatorToken: token, listedId, reload }));
}

function openRpc(parts: ListenerParts, core: Core): RpcListener {
  const { environment, live, services, logger, metrics, nextRequestId } = parts;
  const own = edgeToken(environment.dataDir);
  return createRpcListener({
    services,
    nextRequestId,
    isEdgeToken: token => secretsEqual(token, own),
    messageBytesMax: live.current.limits.bodyBytes,
    gate: context => requireCredential(context, core.ledger, core.token),
    metrics: () => Promise.resolve({ contentType: metricsContentType, body: metrics.text() }),
    observe: call => {
      const { error, ...facts } = call;
      if (error === undefined) logger.info(facts, 'call');
      else logger[error.facets.log]({ ...facts, error }, 'call');
    },
  });
}
