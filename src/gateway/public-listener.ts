import type { FastifyInstance } from 'fastify';
import { createEdge } from '../edge/create-edge.ts';
import { errorDocsPath } from '../edge/error-docs.ts';
import type { EdgeOptions, ErrorTexts } from '../edge/options.ts';
import { systemRuntime } from '../lib/runtime.ts';
import type { InProcessTransport } from '../rpc/in-process.ts';
import type { PushTransport } from '../rpc/push-transport.ts';
import { bodyBounds, parserLimits } from './body-limits.ts';
import type { openDashboards, People } from './dashboards.ts';
import type { CoreResources } from './gateway.ts';
import type { LiveConfig } from './live-config.ts';
import type { ListenerTls } from './tls.ts';
import type { Workers } from './workers/workers.ts';

/** The options of both listeners. */
export interface ListenerOptions extends CoreResources {
  readonly tls: ListenerTls;
  readonly services: InProcessTransport;
  readonly nextRequestId: () => string;
  readonly dashboards: ReturnType<typeof openDashboards>;
  readonly findListed: NonNullable<EdgeOptions['findListed']>;
  readonly people: People;
}

/** The options of the public listener. */
interface PublicListenerOptions
  extends Omit<ListenerOptions, 'services' | 'people'>, Pick<EdgeOptions, 'failed' | 'metricsText'> {
  readonly services: PushTransport;
  /** Returns why requests can't be accepted; undefined: they can. */
  readonly unready: () => string | undefined;
}

/** The public listener, served by this thread or by workers. */
export interface Front {
  /** Starts to listen. Throws the error of listening. */
  listen(): Promise<unknown>;
  /** The port that it listens on; known after `listen`. */
  readonly port: number;
  close(): Promise<unknown>;
}

/** Returns the public listener that this thread serves. */
export function openFront(parts: ListenerOptions, draining: () => boolean): Front {
  const { environment, health, people } = parts;
  const { host, port } = environment;
  const edge = openEdge(
    { ...parts, failed: people.noteFailure, unready: () => health.reason, metricsText: undefined },
    draining,
  );
  return {
    listen: () => edge.listen({ host, port }),
    get port() {
      return portIn(edge, port);
    },
    close: () => edge.close(),
  };
}

/** Returns the public listener that workers serve. */
export function shareFront(workers: Workers, { environment, services, people, metrics }: ListenerOptions): Front {
  const home = {
    transport: services,
    services: services.services,
    failed: people.noteFailure,
    ownMetrics: (reader?: 'anyone') => metrics.text(reader),
  };
  return {
    listen: () => workers.listen(environment, home),
    get port() {
      return workers.port;
    },
    close: () => workers.close(),
  };
}

function portIn(edge: FastifyInstance, port: number): number {
  const address = edge.server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}

/** Returns the public listener, which starts with `listen`. */
export function openEdge(parts: PublicListenerOptions, draining: () => boolean): FastifyInstance {
  const { live, services, logger, metrics, unready, nextRequestId, publicUrl, startTrace, dashboards } = parts;
  const { metrics: shownTo, limits } = live.current;
  return createEdge({
    transport: services,
    nextRequestId,
    runtime: systemRuntime,
    logger,
    metrics,
    findListed: parts.findListed,
    addresses: live.addresses,
    startTrace,
    dashboard: dashboards.publicPages,
    failed: parts.failed,
    metricsText: parts.metricsText,
    publicMetrics: shownTo === 'public',
    bodyBytesMax: limits.bodyBytes,
    otherBodyBytesMax: limits.otherBodyBytes,
    get fileBytesMax() {
      return live.current.batches.fileBytes;
    },
    get bounds() {
      return bodyBounds(live);
    },
    memory: parts.memory,
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
    get unauthenticatedMax() {
      return live.current.limits.addressRequests;
    },
    parser: parserLimits(live),
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
    unready,
  });
}

/** Returns the configured texts of error answers. */
export function errorTexts(live: LiveConfig, publicUrl: () => string): ErrorTexts {
  const { docs, support, community, tips } = live.current.texts;
  return {
    docs: docs ?? `${publicUrl()}${errorDocsPath}#{code}`,
    support: support ?? null,
    community: community ?? null,
    tips,
  };
}
