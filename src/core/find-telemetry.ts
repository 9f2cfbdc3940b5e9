import { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import type { Caller } from './credential.ts';

/** Returns the telemetry of the request that a call belongs to; undefined if it has none, for example because the call comes from another process. */
export function findTelemetry({ requestHeader }: Caller): RequestTelemetry | undefined {
  return requestHeader instanceof RequestTelemetry ? requestHeader : undefined;
}
