import { createServer } from 'node:net';
import type { DescService } from '@bufbuild/protobuf';
import { LedgerStartError } from '../../lib/sqlite/start-error.ts';
import type { RunningFacts } from '../../core/generation/running-facts.ts';
import type { StoppableService } from '../../core/running-requests.ts';
import type { PushTransport } from '../../rpc/push-transport.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { StorageHealth } from '../storage-health.ts';
import type { LendingStores } from '../stores.ts';
import { MergedMetrics } from './merged-metrics.ts';
import { WorkerThread, type WorkerDependencies } from './worker-thread.ts';

/** The first and the longest wait before a worker that ended is replaced. */
const againMs = { min: 100, max: 5_000 };
/** If a worker ran at least this long, its start is not the reason for its end. */
const soundMs = 30_000;
const checkMs = 500;
/** A worker whose event loop has not run for this many checks (15 s, in which the main thread was running) is ended. */
const stuckChecks = 30;

/** The options of workers. */
export interface WorkersOptions {
  readonly count: number;
  readonly configPath: string | undefined;
  readonly stores: LendingStores;
  readonly logger: Logger;
  readonly health: Pick<StorageHealth, 'reason' | 'ledgerWatch' | 'documentWatch'>;
}

/** The calls of workers to the main thread. */
export interface WorkerHome {
  readonly transport: PushTransport;
  readonly services: readonly DescService[];
  /** Called for every request of a worker that was refused or failed. */
  readonly failed: WorkerDependencies['failed'];
  /** Returns the metrics of the main thread, in Prometheus' text format. */
  readonly ownMetrics: (reader?: 'anyone') => string;
}

/**
 * The threads that serve the public listener, each with its own request services. The stores and background work stay on the main thread, so that a worker may end at any time.
 */
export class Workers implements StoppableService {
  readonly #options: WorkersOptions;
  readonly #metrics = new MergedMetrics();
  readonly #threads = new Map<number, WorkerThread>();
  #home: WorkerHome | undefined;
  #at = { host: '', port: 0 };
  #timer: NodeJS.Timeout | undefined;
  #waitMs = againMs.min;
  #draining: Promise<void> | undefined;

  constructor(options: WorkersOptions) {
    this.#options = options;
  }

  /** The port of the public listener. */
  get port(): number {
    return this.#at.port;
  }

  /** Starts the workers. Resolves when all of them listen. Throws the error of listening. */
  async listen(at: { readonly host: string; readonly port: number }, home: WorkerHome): Promise<void> {
    this.#home = home;
    this.#at = { host: at.host, port: await findPort(at) };
    const numbers = Array.from({ length: this.#options.count }, (_, index) => index + 1);
    const started = await Promise.allSettled(numbers.map(number => this.#start(number).ready));
    const failed = started.find(each => each.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    this.#timer = setInterval(() => this.#check(), checkMs).unref();
  }

  /** Lets the workers accept requests. */
  serve(): void {
    this.#tellAll('serve');
  }

  /** Makes all workers read the configuration again. Resolves when they have; a worker that fails logs the reason. */
  async reload(): Promise<void> {
    await this.#callAll('reload');
  }

  /** Returns the metrics of all threads, in Prometheus' text format. */
  async metricsText(reader?: 'anyone'): Promise<string> {
    const texts = await this.#callAll<string>('metrics');
    for (const [number, text] of texts) this.#metrics.keep(number, text);
    return this.#metrics.text(this.#home?.ownMetrics(reader) ?? '');
  }

  /** Returns the running requests of the workers. */
  async listRunning(accountId: number | undefined, keyId: number | undefined): Promise<RunningFacts[]> {
    const lists = await this.#callAll<RunningFacts[]>('running', accountId, keyId);
    return [...lists.values()].flat();
  }

  drain(): Promise<void> {
    this.#draining ??= this.#stop();
    return this.#draining;
  }

  async idle(): Promise<void> {
    await this.#draining;
  }

  interruptAll(): void {
    this.#tellAll('endGrace');
  }

  revoke(keyId: number): void {
    this.#tellAll('revoke', keyId);
  }

  /** Stops the workers that still run. */
  async close(): Promise<void> {
    await Promise.all(Array.from(this.#threads.values(), thread => thread.kill()));
  }

  #start(number: number): WorkerThread {
    const home = this.#home;
    if (home === undefined) throw new Error('listen must be called before workers can be started');
    const { stores, health, configPath, logger } = this.#options;
    const dependencies: WorkerDependencies = {
      ...home,
      stores,
      wroteOff: (id, nanoUsd) => health.ledgerWatch.wroteOff(id, nanoUsd),
      documentsLost: cause => health.documentWatch.lost(cause),
      metricsText: reader => this.metricsText(reader),
      ended: (error, livedMs) => this.#onEnd(number, error, livedMs),
    };
    const { credentialVersion } = stores.ledger;
    const { count } = this.#options;
    const thread = new WorkerThread({ number, count, ...this.#at, configPath, credentialVersion }, dependencies);
    this.#threads.set(number, thread);
    logger.debug({ worker: number }, 'a worker is started');
    return thread;
  }

  #onEnd(number: number, error: Error, livedMs: number): void {
    this.#threads.delete(number);
    this.#metrics.ended(number);
    if (this.#draining !== undefined || this.#timer === undefined) return;
    this.#options.logger.error({ worker: number, error }, 'a worker ended: it is replaced');
    this.#waitMs = livedMs > soundMs ? againMs.min : Math.min(this.#waitMs * 2, againMs.max);
    setTimeout(() => {
      if (this.#draining !== undefined) return;
      this.#start(number).ready.then(
        thread => thread.tell('serve'),
        // The new worker has ended too, and is replaced because of that.
        () => undefined,
      );
    }, this.#waitMs);
  }

  /** Sends the workers the reason why storage can't be written, if there is one, and ends workers that are stuck. */
  #check(): void {
    this.#tellAll('unready', this.#options.health.reason);
    for (const thread of this.#threads.values()) {
      if (thread.countStill() < stuckChecks) continue;
      this.#options.logger.error({ worker: thread.number }, 'a worker is stuck: it is ended');
      void thread.kill();
    }
  }

  async #stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(Array.from(this.#threads.values(), thread => thread.stop()));
  }

  #tellAll(name: string, ...args: readonly unknown[]): void {
    for (const thread of this.#threads.values()) if (thread.isReady) thread.tell(name, ...args);
  }

  /** Calls all workers, and returns their replies. Workers that end meanwhile are left out. */
  async #callAll<Reply>(name: string, ...args: readonly unknown[]): Promise<Map<number, Reply>> {
    const ready = [...this.#threads.values()].filter(({ isReady }) => isReady);
    const replies = await Promise.allSettled(ready.map(thread => thread.ask<Reply>(name, ...args)));
    return new Map(
      replies.flatMap((reply, index) =>
        reply.status === 'fulfilled' ? [[ready[index]?.number ?? 0, reply.value] as const] : [],
      ),
    );
  }
}

/**
 * Returns the port for the workers to share; for 0, one that the system chooses. Throws `EADDRINUSE` if another program listens there. Workers would not notice that, because a shared port accepts any listener.
 */
async function findPort({ host, port }: { readonly host: string; readonly port: number }): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen({ host, port, exclusive: true }, resolve);
  });
  const address = server.address();
  await new Promise(resolve => {
    server.close(resolve);
  });
  return typeof address === 'object' && address !== null ? address.port : port;
}

/** Throws `LedgerStartError` if sockets can't share a port on this system. */
export function refuseWithoutSharedPorts(): void {
  if (['linux', 'freebsd', 'dragonfly', 'sunos', 'aix'].includes(process.platform)) return;
  throw new LedgerStartError(
    'unreadable',
    `--workers needs Linux or FreeBSD: ${process.platform} has no ports that threads can share.`,
  );
}
