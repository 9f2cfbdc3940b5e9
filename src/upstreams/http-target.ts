import type { Dispatcher } from 'undici';
import type { UpstreamCodec } from '../codecs/codec.ts';
import type { UpstreamFailure } from '../generation/upstream.ts';
import type { Runtime } from '../lib/runtime.ts';
import { type Authentication, authentications } from './authentication.ts';
import { openConnections, type ProxySettings } from './connections.ts';
import type { UpstreamTimeouts } from './deadlines.ts';
import { cleanFailure, statusFailure } from './error-answer.ts';
import { KeyRing, type RevealableKey } from './key-ring.ts';
import { type CleanMessage, messageCleaner } from './message-cleaner.ts';
import type { WholeAnswer } from './whole-body.ts';

/** A provider of the configuration, as far as HTTP goes. */
export interface HttpTargetOptions {
  /** As the protocol's official client takes it. */
  readonly baseUrl: string;
  /** Used in rotation; empty: no credential is sent. */
  readonly keys: readonly RevealableKey[];
  /** Sent with every call, lower-case names; they win over what the gateway sends by itself, save a key. */
  readonly headers: Readonly<Record<string, RevealableKey>>;
  readonly timeouts: UpstreamTimeouts;
  readonly proxy: ProxySettings;
  readonly runtime: Runtime;
}

/** The headers of a call beside the configured ones and the key; lower-case names. */
export interface CallHeaders {
  /** Configured headers win over these. */
  readonly defaults: Readonly<Record<string, string>>;
  readonly contentType: string;
  /** A header whose default and configured values are both sent, joined. */
  readonly joined?: string | undefined;
}

/** Where the requests to one provider go, and what is the same for all of them. */
export class HttpTarget {
  readonly origin: string;
  readonly keys: KeyRing;
  readonly timeouts: UpstreamTimeouts;
  readonly runtime: Runtime;
  readonly #base: URL;
  readonly #proxy: ProxySettings;
  readonly #configured: Readonly<Record<string, string>>;
  /** The header of each key; one without a header if there are no keys. */
  readonly #credentials: readonly (readonly string[])[];
  readonly #clean: CleanMessage;
  /** Undefined before the first call, and while a closed target has no call. */
  #connections: Dispatcher | undefined;
  #running = 0;
  #closed = false;

  constructor(options: HttpTargetOptions, authentication: Authentication) {
    const keys = options.keys.map(key => key.reveal());
    this.#base = new URL(options.baseUrl);
    this.origin = this.#base.origin;
    this.keys = new KeyRing(options.keys);
    this.timeouts = options.timeouts;
    this.runtime = options.runtime;
    this.#proxy = options.proxy;
    this.#configured = Object.fromEntries(
      Object.entries(options.headers).map(([name, value]) => [name, value.reveal()] as const),
    );
    this.#credentials = keys.length === 0 ? [[]] : keys.map(authentications[authentication]);
    const secrets = [...keys, ...Object.values(this.#configured)];
    this.#clean = messageCleaner({ secrets, baseUrl: options.baseUrl });
  }

  /** Returns the path of a request below the base URL, which may have a path and a query of its own. */
  path(below: string): string {
    const joined = this.#base.pathname.replace(/\/+$/, '') + below;
    if (this.#base.search === '') return joined;
    return joined + (joined.includes('?') ? `&${this.#base.search.slice(1)}` : this.#base.search);
  }

  /** Returns the headers to send with each key, by the key's index: names and values in turn. */
  headers({ defaults, contentType, joined = '' }: CallHeaders): string[][] {
    const headers: Record<string, string> = { ...defaults, ...this.#configured, 'content-type': contentType };
    const [first, second] = [defaults[joined], this.#configured[joined]];
    if (first !== undefined && second !== undefined) headers[joined] = `${first},${second}`;
    return this.#credentials.map(credential => {
      const [name = ''] = credential;
      const sent = Object.entries(headers).filter(([each]) => each !== name);
      return [...sent.flat(), ...credential];
    });
  }

  /** Returns connections for a call, which must call `release` when it has ended. */
  acquire(): Dispatcher {
    const { connectMs } = this.timeouts;
    this.#connections ??= openConnections({ origin: this.origin, connectMs, proxy: this.#proxy });
    this.#running += 1;
    return this.#connections;
  }

  /** Ends a call's use of the connections. */
  release(): void {
    this.#running -= 1;
    if (this.#closed && this.#running === 0) void this.#disconnect();
  }

  /** Lets running calls end, then closes the connections. A call that still follows has connections of its own, which close after it. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#disconnect();
  }

  /** Maps an answer with an error status to a failure, its texts cleaned. */
  refusal({ head, body }: WholeAnswer, codec: Pick<UpstreamCodec, 'parseError'>): UpstreamFailure {
    return statusFailure(head, body.toString('utf8'), { codec, clean: this.#clean, clock: this.runtime });
  }

  /** Returns the same failure with its texts cleaned of addresses and credentials. */
  clean(failure: UpstreamFailure): UpstreamFailure {
    return cleanFailure(failure, this.#clean);
  }

  async #disconnect(): Promise<void> {
    const connections = this.#connections;
    this.#connections = undefined;
    await connections?.close();
  }
}
