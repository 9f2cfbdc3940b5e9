import type { Interceptor, Transport } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';

/** Where a gateway's internal listener is, and as whom to call it. */
export interface RpcTarget {
  readonly host: string;
  readonly port: number;
  /** Sent as `authorization: Bearer …`. */
  readonly credential: string;
  /** How long a call may take, in ms; default 30 s. */
  readonly timeoutMs?: number;
}

/** A transport for the generated clients to a running gateway: Connect over cleartext HTTP/1.1, which needs no session to be closed. */
export function createRpcTransport({ host, port, credential, timeoutMs = 30_000 }: RpcTarget): Transport {
  return createConnectTransport({
    baseUrl: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    httpVersion: '1.1',
    defaultTimeoutMs: timeoutMs,
    interceptors: [withCredential(credential)],
  });
}

function withCredential(credential: string): Interceptor {
  return next => request => {
    request.header.set('authorization', `Bearer ${credential}`);
    return next(request);
  };
}
