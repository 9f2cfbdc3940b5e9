import type { HeaderReader } from '../lib/push.ts';
import { RequestTelemetry } from '../telemetry/request-telemetry.ts';

/** A call over the network, as the core gets it: its headers, and the facts that are collected about it. */
export class NetworkCall extends RequestTelemetry implements HeaderReader {
  readonly #headers: Headers;

  /** Functions to call once the call is over; undefined: nobody reports that. */
  #whenOver: (() => void)[] | undefined;
  /** Called before the first of them is added. */
  #onHold: (() => void) | undefined;
  #isOver = false;

  constructor(headers: Headers) {
    super();
    this.#headers = headers;
  }

  onOver(done: () => void): boolean {
    if (this.#isOver) {
      done();
      return true;
    }
    this.#onHold?.();
    this.#onHold = undefined;
    this.#whenOver?.push(done);
    return this.#whenOver !== undefined;
  }

  /** Announces that `over` will be called. `onHold`: called when a service first needs to know that. */
  watch(onHold?: () => void): this {
    this.#whenOver ??= [];
    this.#onHold = onHold;
    return this;
  }

  /** Must be called when the answer was sent or the caller has disconnected. */
  over(): void {
    this.#isOver = true;
    for (const done of this.#whenOver?.splice(0) ?? []) done();
  }

  get(name: string): string | null {
    return this.#headers.get(name);
  }

  has(name: string): boolean {
    return this.#headers.has(name);
  }
}

/** The calls by their headers, because the headers are the only object that all code for a call has. */
const calls = new WeakMap<Headers, NetworkCall>();

/** Returns the call that the headers belong to; for the same headers, it is always the same object. */
export function networkCall(headers: Headers): NetworkCall {
  const known = calls.get(headers);
  if (known !== undefined) return known;
  const call = new NetworkCall(headers);
  calls.set(headers, call);
  return call;
}

/** Returns the facts about the call that the headers belong to; undefined: it has reached no service. */
export function findNetworkCall(headers: Headers): RequestTelemetry | undefined {
  return calls.get(headers);
}
