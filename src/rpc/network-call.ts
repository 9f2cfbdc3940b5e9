import type { HeaderReader } from '../lib/push.ts';
import { RequestTelemetry } from '../telemetry/request-telemetry.ts';

/** A call over the network as the core is called with it: its headers, and what becomes known of it. */
export class NetworkCall extends RequestTelemetry implements HeaderReader {
  readonly #headers: Headers;

  constructor(headers: Headers) {
    super();
    this.#headers = headers;
  }

  get(name: string): string | null {
    return this.#headers.get(name);
  }

  has(name: string): boolean {
    return this.#headers.has(name);
  }
}

/** By the headers, which are all that the parts of a call have in common. */
const calls = new WeakMap<Headers, NetworkCall>();

/** Returns the call that these headers belong to; always the same one. */
export function networkCall(headers: Headers): NetworkCall {
  const known = calls.get(headers);
  if (known !== undefined) return known;
  const call = new NetworkCall(headers);
  calls.set(headers, call);
  return call;
}

/** Returns what has become known of the call that these headers belong to; undefined: it has reached no service. */
export function findNetworkCall(headers: Headers): RequestTelemetry | undefined {
  return calls.get(headers);
}
