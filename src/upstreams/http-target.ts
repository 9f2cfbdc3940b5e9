import type { LookupFunction } from 'node:net';
import type { Dispatcher } from 'undici';
import type { KeyChange, KeyHealth, UpstreamFailure } from '../generation/upstream.ts';
import { defined } from '../lib/defined.ts';
import type { Runtime } from '../lib/runtime.ts';
import { type Authentication, authentications } from './authentication.ts';
import { type ConnectionSettings, openConnections, type ProxySettings } from './connections.ts';
import type { UpstreamTimeouts } from './deadlines.ts';
import { cleanFailure } from './error-answer.ts';
import { KeyRing } from './key-ring.ts';
import type { RequestSigner } from './request-signer.ts';
import { type CleanMessage, messageCleaner } from './message-cleaner.ts';

/** A credential whose text is returned only by `reveal`. */
export interface RevealableKey {
  reveal(): string;
}

/** The settings of a provider that HTTP calls need. */
export interface HttpTargetOptions {
  /** The base URL, in the form that the protocol's official client takes. */
  readonly baseUrl: string;
  /** The keys, which are used in rotation; empty: no credential is sent. */
  readonly keys: readonly RevealableKey[];
  /** Headers that are sent with every call, by their names in lower case. They override the gateway's headers, except the one with the key. */
  readonly headers: Readonly<Record<string, RevealableKey>>;
  readonly timeouts: UpstreamTimeouts;
  readonly proxy: ProxySettings;
  readonly runtime: Runtime;
  /** Called when a key is refused, and when it works again. */
  readonly keyChanged?: ((health: KeyHealth, change: KeyChange) => void) | undefined;
  /** The state of the keys, if another address of the same provider shares it; absent: it is new. */
  readonly ring?: KeyRing;
  /** Resolves the addresses of the host; absent: the system's resolver. */
  readonly lookup?: LookupFunction;
  /** Adds the credential to each request; absent: the keys are the credential. */
  readonly signer?: RequestSigner | undefined;
}

type HeaderMap = Readonly<Record<string, string>>;

/** One provider over HTTP: its origin, headers, keys and connections, which all its calls share. */
export class HttpTarget {
  readonly origin: string;
  readonly keys: KeyRing;
  readonly keyCount: number;
  readonly timeouts: UpstreamTimeouts;
  readonly runtime: Runtime;
  readonly signer: RequestSigner | undefined;
  readonly #base: URL;
  readonly #settings: ConnectionSettings;
  readonly #configured: Readonly<Record<string, string>>;
  /** The header with the credential, for each key; if there are no keys, one entry without a header. */
  readonly #credentials: readonly HeaderMap[];
  readonly #clean: CleanMessage;
  /** The connections; undefined before the first call. */
  #connections: Dispatcher | undefined;
  #closed = false;

  constructor(options: HttpTargetOptions, authentication: Authentication) {
    const keys = options.keys.map(key => key.reveal());
    const makeCredential = authentications[authentication];
    this.keyCount = keys.length;
    this.#base = new URL(options.baseUrl);
    this.origin = this.#base.origin;
    this.timeouts = options.timeouts;
    this.runtime = options.runtime;
    this.signer = options.signer;
    const { proxy, lookup, timeouts } = options;
    this.#settings = { origin: this.origin, connectMs: timeouts.connectMs, proxy, ...defined({ lookup }) };
    const configured = Object.entries(options.headers).map(([name, value]) => [name, value.reveal()] as const);
    this.#configured = Object.fromEntries(configured);
    this.#credentials = keys.length === 0 ? [{}] : keys.map(key => Object.fromEntries([makeCredential(key)]));
    // The credential of a signer rests like a key.
    const count = options.signer === undefined ? keys.length : 1;
    this.keys = options.ring ?? new KeyRing(count, { runtime: options.runtime, changed: options.keyChanged });
    const secrets = [...keys, ...Object.values(this.#configured)];
    this.#clean = messageCleaner({ secrets, baseUrl: options.baseUrl });
  }

  /** Returns the path and query of a request: `below` is appended to the base URL, which may have a path and a query. */
  path(below: string): string {
    const joined = this.#base.pathname.replace(/\/+$/, '') + below;
    if (this.#base.search === '') return joined;
    return joined + (joined.includes('?') ? `&${this.#base.search.slice(1)}` : this.#base.search);
  }

  /**
   * Returns, for each key by its index, the headers as a list of alternating names (in lower case) and values. Precedence: the header with the key, `fixed`, configured headers, `defaults`. Of the header named `joined`, the default and the configured value are both sent, separated by a comma.
   */
  headers(defaults: HeaderMap, fixed: HeaderMap = {}, joined = ''): string[][] {
    const headers: Record<string, string> = { ...defaults, ...this.#configured, ...fixed };
    const [first, second] = [defaults[joined], this.#configured[joined]];
    if (first !== undefined && second !== undefined) headers[joined] = `${first},${second}`;
    return this.#credentials.map(credential => Object.entries({ ...headers, ...credential }).flat());
  }

  /** Returns whether the configuration sets this header (in lower case), so that requests can't set it. */
  isConfigured(header: string): boolean {
    return header in this.#configured;
  }

  /**
   * Returns connections for a call, which must `release` them when it has ended. After `close`, each call gets separate connections.
   */
  acquire(): Dispatcher {
    if (this.#closed) return openConnections(this.#settings);
    this.#connections ??= openConnections(this.#settings);
    return this.#connections;
  }

  /** Ends the use of connections by a call. */
  release(connections: Dispatcher): void {
    if (connections !== this.#connections) void connections.close();
  }

  /** Closes the connections after the calls that use them have ended. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#connections?.close();
  }

  /** Closes the connections immediately, even if calls use them. */
  async destroy(): Promise<void> {
    await this.#connections?.destroy();
  }

  /** Returns the same failure without addresses and credentials in its texts. */
  clean(failure: UpstreamFailure): UpstreamFailure {
    return cleanFailure(failure, this.#clean);
  }
}
