import { parentPort, workerData } from 'node:worker_threads';
import { readEnvironment } from '../../config/env.ts';
import { CallPort } from '../../lib/threads/call-port.ts';
import { version } from '../../lib/version.ts';
import { readError, writeError } from '../../rpc/port-errors.ts';
import { createLogger } from '../../telemetry/logger.ts';
import { Metrics } from '../../telemetry/metrics.ts';
import { readOtelSettings } from '../../telemetry/otel/settings.ts';
import { readConfig } from '../read-config.ts';
import { HeldIds } from './held-ids.ts';
import { LedgerLane, type SentPort } from './ledger-lane.ts';
import { LedgerLink } from './ledger-link.ts';
import { openLentStores } from './lent-stores.ts';
import { openWorker, type WorkerGateway } from './open-worker.ts';
import { shareLimits } from './share-limits.ts';
import { pulseMs, type WorkerData } from './worker-data.ts';

/** The program of a worker thread: opens the services that answer requests, serves the public listener, and executes the main thread's commands. */

const data = workerData as WorkerData;
const main = parentPort;
if (main === null) throw new Error('worker.ts must run in a worker thread');

const opened = Promise.withResolvers<WorkerGateway>();
// If the start fails, this thread ends, which tells the main thread.
opened.promise.catch(() => undefined);
const port = new CallPort(main, { answer, writeError, readError });
const pulse = new Int32Array(data.pulse);
setInterval(() => Atomics.add(pulse, 0, 1), pulseMs);

const environment = { ...readEnvironment(), host: data.host, port: data.port, workers: data.count };
const rereadConfig = async () => shareLimits(await readConfig(environment, data.configPath), environment.workers + 1);
const config = await rereadConfig();
const metrics = new Metrics(version);
const link = new LedgerLink({
  lane: new LedgerLane(main, readError),
  offer: ledgerPort => main.postMessage([ledgerPort] satisfies SentPort, [ledgerPort]),
  held: new HeldIds(data.held),
  settleMs: config.ledger.settleTimeoutMs,
  observe: (commitMs, waiting) => metrics.committed(commitMs, waiting),
});
const logger = createLogger({ level: config.logLevel, worker: data.number });
const otel = readOtelSettings(environment.telemetry);
const exported =
  otel === undefined
    ? undefined
    : (await import('../../telemetry/otel/open.ts')).openOpenTelemetry(otel, version, logger);
const gateway = await openWorker({
  environment,
  config,
  logger,
  rereadConfig,
  port,
  number: data.number,
  metrics,
  stores: openLentStores(environment.dataDir, { port, link, credentialVersion: data.credentialVersion }),
  startTrace: exported?.startTrace,
});
opened.resolve(gateway);

/** Returns the reply to a command of the main thread. */
function answer(name: string, args: readonly unknown[]): unknown {
  if (name === 'ready') return opened.promise.then(() => undefined);
  return opened.promise.then(worker => {
    if (worker.take(name, args)) return undefined;
    return name === 'stop' ? stop(worker) : worker.answer(name, args);
  });
}

async function stop(worker: WorkerGateway): Promise<void> {
  await worker.stop();
  await exported?.close();
  process.exit();
}
