import type { LookupFunction } from 'node:net';
import { type Dispatcher, EnvHttpProxyAgent, Pool } from 'undici';

/** The proxies in the environment variables; absent: none. */
export interface ProxySettings {
  readonly httpProxy?: string;
  readonly httpsProxy?: string;
  /** Hosts to which connections are made without a proxy. */
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
 * Opens connections to one origin. undici's timeouts are off, because they are coarse and the gateway has its own. Redirects are never followed, because they would send the credential elsewhere. HTTP/1.1 is used, because an aborted request must close its socket.
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
  // Requests through a proxy have separate connection options.
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
