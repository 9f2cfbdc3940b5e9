import type { WindowState } from '../errors/gateway-error.ts';
import type { LimitState } from '../gen/tollgate/v1/event_pb.ts';

/** Converts the window of a limit of requests or tokens to its protobuf message. */
export function limitState({ limit, unit, max, remaining, resetAtMs }: WindowState): LimitState {
  return {
    $typeName: 'tollgate.v1.LimitState',
    limit,
    unit,
    max: BigInt(max),
    remaining: BigInt(remaining),
    resetAtMs: resetAtMs === Number.POSITIVE_INFINITY ? 0n : BigInt(resetAtMs),
  };
}
