import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { type Health, HealthCheckResponse_ServingStatus as Status } from '../gen/grpc/health/v1/health_pb.ts';

/** The health of the process as grpc.health.v1 tells it: all services live and die together. */
export class HealthState {
  readonly #known: ReadonlySet<string>;
  readonly #draining = new AbortController();

  /** `services`: the full names that can be asked about; '' is the process as a whole. */
  constructor(services: Iterable<string>) {
    this.#known = new Set(['', ...services]);
  }

  /** Aborted when the process begins to stop. */
  get draining(): AbortSignal {
    return this.#draining.signal;
  }

  /** From now on nothing is served. */
  drain(): void {
    this.#draining.abort();
  }

  /** SERVICE_UNKNOWN for a name that is not served. */
  status(service: string): Status {
    if (!this.#known.has(service)) return Status.SERVICE_UNKNOWN;
    return this.draining.aborted ? Status.NOT_SERVING : Status.SERVING;
  }

  get names(): Iterable<string> {
    return this.#known;
  }
}

/** grpc.health.v1.Health. A watch ends after it has told that the process stops. */
export function healthService(health: HealthState): ServiceImpl<typeof Health> {
  return {
    check({ service }) {
      const status = health.status(service);
      if (status === Status.SERVICE_UNKNOWN) throw new ConnectError(`unknown service ${service}`, Code.NotFound);
      return { status };
    },
    list() {
      return { statuses: Object.fromEntries([...health.names].map(name => [name, { status: health.status(name) }])) };
    },
    async *watch({ service }, context) {
      const status = health.status(service);
      yield { status };
      if (health.draining.aborted) return;
      await untilAborted(AbortSignal.any([health.draining, context.signal]));
      if (!context.signal.aborted && status === Status.SERVING) yield { status: health.status(service) };
    },
  };
}

/** Resolves when a signal is aborted. */
export function untilAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise(resolve => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}
