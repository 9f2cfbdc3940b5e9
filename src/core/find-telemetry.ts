import { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import type { Caller } from './credential.ts';

/** Returns the telemetry of a call's request; undefined if the call comes from another process or has none. */
export function findTelemetry({ requestHeader }: Caller): RequestTelemetry | undefined {
  return requestHeader instanceof RequestTelemetry ? requestHeader : undefined;
}
