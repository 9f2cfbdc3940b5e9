import type { LookupFunction } from 'node:net';
import { type Dispatcher, EnvHttpProxyAgent, Pool } from 'undici';

/** Proxies from the environment; absent: none. */
export interface ProxySettings {
  readonly httpProxy?: string;
  readonly httpsProxy?: string;
  /** Hosts that are connected to directly. */
  readonly noProxy?: string;
}

/** The settings of connections to one upstream. */
export interface ConnectionSettings {
  readonly origin: string;
  readonly connectMs: number;
  readonly proxy: ProxySettings;
  /** Resolves the addresses of a host; absent: the system's resolver. */
  readonly lookup?: LookupFunction;
}

/**
 * The connections to one origin. Every option that matters is spelled out: the limits of time are the gateway's own (undici's
 * are coarse), so undici's are off; redirects are never followed, because they would carry the credential elsewhere; HTTP/1.1, because an aborted
 * request must close its socket.
 */
export function openConnections({ origin, connectMs, proxy, lookup }: ConnectionSettings): Dispatcher {
  const options = {
    connections: null,
    pipelining: 1,
    allowH2: false,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxResponseSize: -1,
    maxHeaderSize: 65_536,
    keepAliveTimeout: 4_000,
    keepAliveMaxTimeout: 60_000,
    keepAliveTimeoutThreshold: 1_000,
    strictContentLength: true,
    connect: {
      timeout: connectMs,
      rejectUnauthorized: true,
      keepAlive: true,
      noDelay: true,
      autoSelectFamily: true,
      ...(lookup === undefined ? {} : { lookup }),
    },
  };
  if (proxy.httpProxy === undefined && proxy.httpsProxy === undefined) return new Pool(origin, options);
  // Proxied requests have connection options of their own, and none of these if they are not tunnelled.
  const tls = { rejectUnauthorized: true };
  const factory = (to: string | URL, own: object): Pool => new Pool(to, { ...options, ...own });
  return new EnvHttpProxyAgent({
    ...options,
    ...proxy,
    factory,
    connectTimeout: connectMs,
    requestTls: tls,
    proxyTls: tls,
  });
}
