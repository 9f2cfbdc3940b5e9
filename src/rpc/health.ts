import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { type Health, HealthCheckResponse_ServingStatus as Status } from '../gen/grpc/health/v1/health_pb.ts';

/**
 * Implements grpc.health.v1.Health. All services always have the same status. `services`: the full names that can be checked, in addition to '' for the whole process. `draining` is aborted when the process begins to stop; a watch that has sent SERVING then sends NOT_SERVING, and every watch ends. It also ends after `durationMs`.
 */
export function healthService(
  services: readonly string[],
  draining: AbortSignal,
  durationMs: number,
  unready: () => string | undefined = () => undefined,
): ServiceImpl<typeof Health> {
  const known = ['', ...services];
  const readStatus = (service: string): Status => {
    if (!known.includes(service)) return Status.SERVICE_UNKNOWN;
    return draining.aborted || unready() !== undefined ? Status.NOT_SERVING : Status.SERVING;
  };
  return {
    check({ service }) {
      const status = readStatus(service);
      if (status === Status.SERVICE_UNKNOWN) throw new ConnectError('unknown service', Code.NotFound);
      return { status };
    },
    list() {
      return { statuses: Object.fromEntries(known.map(name => [name, { status: readStatus(name) }])) };
    },
    async *watch({ service }, context) {
      const status = readStatus(service);
      yield { status };
      if (draining.aborted) return;
      await untilAborted(AbortSignal.any([draining, context.signal, AbortSignal.timeout(durationMs)]));
      if (draining.aborted && !context.signal.aborted && status === Status.SERVING)
        yield { status: readStatus(service) };
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
