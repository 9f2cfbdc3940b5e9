import { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import type { Caller } from './credential.ts';

/** Returns the caller's request telemetry; undefined if it is in another process, or there is none. */
export function findTelemetry({ requestHeader }: Caller): RequestTelemetry | undefined {
  return requestHeader instanceof RequestTelemetry ? requestHeader : undefined;
}
