import type { DescMethod, DescService } from '@bufbuild/protobuf';
import type { Environment } from '../../config/env.ts';
import type { Config } from '../../config/settings.ts';
import type { StoppableService } from '../../core/running-requests.ts';
import { CatalogService } from '../../gen/tollgate/v1/catalog_pb.ts';
import { CredentialService } from '../../gen/tollgate/v1/credential_pb.ts';
import { GenerationService } from '../../gen/tollgate/v1/generation_pb.ts';
import { ImageService } from '../../gen/tollgate/v1/image_pb.ts';
import { type CreateResponseRequest, ResponseService } from '../../gen/tollgate/v1/response_pb.ts';
import { listenerUrl } from '../../config/env.ts';
import type { CallPort } from '../../lib/threads/call-port.ts';
import { directServices } from '../../rpc/direct-services.ts';
import { InProcessTransport } from '../../rpc/in-process.ts';
import { PortTransport, RoutedTransport } from '../../rpc/port-transport.ts';
import type { PushTransport } from '../../rpc/push-transport.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { openDashboards, People } from '../dashboards.ts';
import {
  gaugeSources,
  type GatewayResources,
  listRequestServices,
  makeIds,
  makeRequestCore,
  offerRequestServices,
  reloadOrLog,
  makeRequestId,
} from '../gateway.ts';
import { openMemory } from '../body-limits.ts';
import { openEdge } from '../public-listener.ts';
import { LiveConfig } from '../live-config.ts';
import { endRequests } from '../stopping.ts';
import type { Stores } from '../stores.ts';
import { openTls } from '../tls.ts';
import { workerInstance } from './worker-data.ts';

/** The options with which a worker is opened. */
interface WorkerResources {
  /** The number of the worker, from 1. */
  readonly number: number;
  readonly environment: Environment;
  readonly config: Config;
  readonly stores: Stores;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly startTrace: GatewayResources['startTrace'];
  /** Reads the configuration file again. */
  readonly rereadConfig: () => Promise<Config>;
  /** The port to the main thread. */
  readonly port: CallPort;
}

/** An open worker. */
export interface WorkerGateway {
  /** Handles a message from the main thread if it belongs to a stream. Returns whether it did. */
  take(name: string, args: readonly unknown[]): boolean;
  /** Executes a command of the main thread. Returns its reply. */
  answer(name: string, args: readonly unknown[]): unknown;
  /** Stops as a gateway does: takes no new requests, and lets running ones continue for the grace period. */
  stop(): Promise<void>;
}

/** The services that run in the worker. */
const ownServices: ReadonlySet<DescService> = new Set([
  CredentialService,
  CatalogService,
  GenerationService,
  ...directServices,
]);
/**
 * Methods of other services that also run in the worker, because they end with the client's connection. Work that continues without it runs on the main thread.
 */
const ownMethods: ReadonlySet<DescMethod> = new Set<DescMethod>([
  ResponseService.method.createResponse,
  ResponseService.method.countInputTokens,
  ResponseService.method.compactConversation,
  ResponseService.method.endSession,
  ImageService.method.generate,
  ImageService.method.edit,
]);

/** Opens a worker. It listens, but refuses requests until the main thread sends `serve`. Throws if it can't listen. */
export async function openWorker(resources: WorkerResources): Promise<WorkerGateway> {
  const { environment, config, stores, logger, port, number } = resources;
  const live = new LiveConfig(config, resources.rereadConfig);
  const state = { serving: false, unready: undefined as string | undefined };
  // Only the main thread watches the free space of the disk.
  const health = { reason: undefined, onLow: () => undefined };
  const ids = makeIds(stores.ledger.lastId, logger, workerInstance(number));
  const publicUrl = (): string =>
    live.current.publicUrl ?? listenerUrl(environment.host, environment.port, config.tls !== undefined);
  const parts = { ...resources, health, live, ids, publicUrl, memory: openMemory(live) };
  const core = makeRequestCore(parts);
  // The sizes of files are left out, because the main thread reports them.
  resources.metrics.addGauges({ ...gaugeSources(environment.dataDir, core, parts.memory), fileBytes: () => ({}) });
  const tls = openTls(config, logger);
  const people = new People({ ...core, config, publicUrl });
  const mainThread = new PortTransport(port);
  const services = routeCalls(offerRequestServices(new InProcessTransport(), core), mainThread);
  const edge = openEdge(
    {
      ...parts,
      tls,
      services,
      dashboards: openDashboards({ config, addresses: live.addresses, core: services, logger, people }),
      nextRequestId: () => makeRequestId(ids),
      findListed: core.findListed,
      failed: (account, key, code) => port.notify('failed', account, key, code),
      unready: () => state.unready,
      metricsText: reader => port.call<string>('metricsText', reader),
    },
    () => !state.serving,
  );
  // Node.js has the option `reusePort`, but the framework's types lack it.
  const shared = { host: environment.host, port: environment.port, reusePort: true };
  await edge.listen(shared);
  void core.discovery.start();
  const running = listRequestServices(core);
  const graceOver = Promise.withResolvers<void>();
  const handlers: Readonly<Record<string, (...args: never[]) => unknown>> = {
    serve: () => void (state.serving = true),
    unready: (reason: string | undefined) => void (state.unready = reason),
    reload: async () => {
      tls.refresh();
      await reloadOrLog(core.reload, logger);
    },
    metrics: () => resources.metrics.text(),
    running: (accountId: number | undefined, keyId: number | undefined) =>
      core.generations.listRunning(accountId, keyId),
    revoke: (keyId: number) => revoke(running, keyId),
    endGrace: () => graceOver.resolve(),
  };
  return {
    take: (name, args) => mainThread.take(name, args),
    // The cast holds, because the main thread sends the arguments that each name takes.
    answer: (name, args) => handlers[name]?.(...(args as never[])),
    stop: async () => {
      state.serving = false;
      core.discovery.stop();
      tls.close();
      await endRequests(
        { services: running, responses: core.responses, graceMs: config.shutdownGraceMs },
        graceOver.promise,
      );
      await edge.close();
      await Promise.all([stores.documents.close(), stores.ledger.close()]);
    },
  };
}

/** Returns a transport that makes a call here or on the main thread. */
function routeCalls(here: PushTransport, mainThread: PushTransport): PushTransport {
  return new RoutedTransport((method, request) => {
    if (method === ResponseService.method.createResponse && (request as CreateResponseRequest).background)
      return mainThread;
    return ownServices.has(method.parent) || ownMethods.has(method) ? here : mainThread;
  });
}

function revoke(services: readonly StoppableService[], keyId: number): void {
  for (const service of services) service.revoke(keyId);
}
