import type { WindowState } from '../errors/gateway-error.ts';
import type { LimitState } from '../gen/tollgate/v1/event_pb.ts';

/** Returns a request window as a message of the contract. */
export function limitState({ limit, max, remaining, resetAtMs }: WindowState): LimitState {
  return {
    $typeName: 'tollgate.v1.LimitState',
    limit,
    max: BigInt(max),
    remaining: BigInt(remaining),
    resetAtMs: BigInt(resetAtMs),
  };
}
