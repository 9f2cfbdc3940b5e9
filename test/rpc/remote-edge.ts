/** A public listener in the process of the test, over the internal listener of a gateway in another process. */
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createEdge } from '../../src/edge/create-edge.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { IdSource, publicRequestId } from '../../src/lib/ids.ts';
import { systemRuntime } from '../../src/lib/runtime.ts';
import { RemoteTransport } from '../../src/rpc/remote.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import type { Gateway } from '../gateway.ts';
import { largeMemory } from '../large-memory.ts';
import { ClientAddresses } from '../../src/lib/client-address.ts';

/** A remote edge. */
export interface RemoteEdge {
  /** The gateway with the remote listener as its public one. */
  readonly gateway: Gateway;
  close(): Promise<void>;
}

/** Opens a listener over `gateway`. */
export async function openRemoteEdge(gateway: Gateway): Promise<RemoteEdge> {
  const edgeToken = readFileSync(join(gateway.dataDir, 'edge.token'), 'utf8').trim();
  const transport = new RemoteTransport({ baseUrl: gateway.rpcUrl, edgeToken });
  const ids = new IdSource(systemClock, 0, { instance: 1 });
  const app = createEdge({
    transport,
    nextRequestId: () => publicRequestId(ids.next()),
    runtime: systemRuntime,
    logger: createLogger({ level: 'silent' }),
    metrics: new Metrics('0.0.0'),
    publicMetrics: false,
    bodyBytesMax: 64 << 20,
    otherBodyBytesMax: 1_048_576,
    fileBytesMax: 1024 ** 2,
    bounds: { depthMax: 512, valuesMax: 100_000, entriesMax: 10_000 },
    memory: largeMemory(),
    parser: { memoryBytesMax: 512 << 20, timeMs: 10_000 },
    unsent: { stallMs: 60_000, bytesMax: 256 << 20 },
    unauthenticatedMax: 256,
    load: { lagMs: 60_000, heapShare: 1 },
    fair: { sliceMs: 10, waitingMax: 1000 },
    keepAliveMs: 15_000,
    strict: false,
    texts: { docs: null, support: null, community: null, tips: {} },
    corsOrigins: [],
    addresses: new ClientAddresses(() => []),
    draining: () => false,
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  return {
    gateway: { ...gateway, url: `http://127.0.0.1:${port}` },
    close: async () => {
      await app.close();
      transport.close();
    },
  };
}
