import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { DescService } from '@bufbuild/protobuf';
import { createConnectRouter, type HandlerContext } from '@connectrpc/connect';
import type { UniversalHandler } from '@connectrpc/connect/protocol';
import { compressionBrotli, compressionGzip, universalRequestFromNodeRequest } from '@connectrpc/connect-node';
import { GatewayError } from '../errors/gateway-error.ts';
import { Health } from '../gen/grpc/health/v1/health_pb.ts';
import { ServerReflection } from '../gen/grpc/reflection/v1/reflection_pb.ts';
import { callBoundary, type CallObserver, createGate } from './call-boundary.ts';
import { healthService } from './health.ts';
import type { InProcessTransport } from './in-process.ts';
import { networkService } from './network-services.ts';
import { edgeHeader, fingerprintHeader } from '../lib/call-headers.ts';
import { ledgerIdOf, requestIdHeader } from '../lib/ids.ts';
import { type Runtime, systemRuntime } from '../lib/runtime.ts';
import { type ConnectionLimits, createProtocolSwitch } from './protocol-switch.ts';
import { reflectionService } from './reflection.ts';
import { writeReply } from './reply-writer.ts';

/** What the internal listener serves. */
export interface RpcListenerOptions {
  /** The services; health and reflection are added to them. */
  readonly services: InProcessTransport;
  /** Makes a public request id (`req_…`), for every call but those of an edge that bring their own. */
  readonly nextRequestId: () => string;
  /**
   * Whether a token proves that its caller is an edge. Such a caller names its requests, says what their bodies were, and authorises its own clients: it passes the gate. Absent:
   * nobody is one.
   */
  readonly isEdgeToken?: (token: string) => boolean;
  /** What a call must satisfy before its body is read, beside what its service checks; absent: nothing. */
  readonly gate?: (context: HandlerContext) => Promise<void>;
  /** Returns `GET /metrics`, a page as Prometheus reads it; absent: 404. */
  readonly metrics?: () => Promise<{ readonly contentType: string; readonly body: string }>;
  /** Why the gateway can't take requests though it runs, for people; undefined: it can. Absent: it always can. */
  readonly unready?: () => string | undefined;
  /** Told of every call that ended. */
  readonly observe?: CallObserver;
  /** What calls are timed by; absent: the machine's clock. */
  readonly runtime?: Runtime;
  /** The largest message, in bytes; default 64 MiB. An edge's may be twice as large. */
  readonly messageBytesMax?: number;
  /** What differs from `defaultConnectionLimits`. */
  readonly connections?: Partial<ConnectionLimits>;
}

/** An open port. */
export interface RpcListener {
  /** Opens the port (0: the system picks one) and answers what was opened. */
  listen(host: string, port: number): Promise<{ readonly host: string; readonly port: number }>;
  /** From now on `/readyz` is 503, health NOT_SERVING, and new calls are `overloaded`; calls in flight go on. */
  drain(): void;
  /** Drains, waits at most `graceMs` for calls in flight, then cuts them. */
  close(graceMs: number): Promise<void>;
}

/** Generous for services of one's own network, finite for their mistakes. */
const defaultConnectionLimits: ConnectionLimits = {
  headMs: 10_000,
  requestMs: 300_000,
  pingMs: 30_000,
  streamsMax: 10_000,
  sessionMegabytesMax: 1_024,
  windowBytes: 1 << 20,
};

const messageBytesMax = 64 << 20;
/** What an edge's message may have beside the body of its client, which it has twice: as it came, and decoded. */
const edgeExtraBytes = 1 << 20;
const ownServices: readonly DescService[] = [Health, ServerReflection];
const drainRetryMs = 1_000;

/**
 * The internal listener: gRPC, gRPC-Web and Connect over cleartext HTTP/2 and HTTP/1.1 on one port, with health, reflection, `/healthz`,
 * `/readyz` and `/metrics`. Errors are thrown as `GatewayError` by services and carry an `ErrorDetail`. Source: decisions §1.
 */
export function createRpcListener(options: RpcListenerOptions): RpcListener {
  const stopping = new AbortController();
  const draining = stopping.signal;
  const bytesMax = options.messageBytesMax ?? messageBytesMax;
  const handlers = createHandlers(options, draining, bytesMax);
  const edgeHandlers = createHandlers(options, draining, 2 * bytesMax + edgeExtraBytes);
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const requestId = admitHeaders(request.headers, options);
    response.setHeader('x-request-id', requestId);
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    const handler = (edgeHeader in request.headers ? edgeHandlers : handlers).get(path);
    if (handler === undefined) {
      return answerPlainHttp({ path, request, response }, draining, options);
    }
    const call = universalRequestFromNodeRequest(request, response, undefined, undefined);
    await writeReply(await handler(call), response, call.signal);
  };
  const ports = createProtocolSwitch(
    (request, response) => {
      // What is thrown here is a request that can't be parsed (its `Host`), or an answer that nobody takes any more: services' errors are answers.
      answer(request, response).catch(() => {
        if (!response.headersSent) response.writeHead(400);
        response.end();
      });
    },
    { ...defaultConnectionLimits, ...options.connections },
  );
  return {
    listen: async (host, port) => ({ host, port: await ports.listen(host, port) }),
    drain: () => stopping.abort(),
    close: async graceMs => {
      stopping.abort();
      await ports.close(graceMs);
    },
  };
}

/**
 * Makes the headers of a call tell the truth, before anything reads them: its request id, which is returned, and `edgeHeader` and `fingerprintHeader` only in the calls of an
 * edge.
 */
function admitHeaders(headers: IncomingHttpHeaders, options: RpcListenerOptions): string {
  const { [edgeHeader]: token, [requestIdHeader]: named } = headers;
  const isEdge = typeof token === 'string' && options.isEdgeToken?.(token) === true;
  if (!isEdge) {
    delete headers[edgeHeader];
    delete headers[fingerprintHeader];
  }
  const keepsId = isEdge && typeof named === 'string' && ledgerIdOf(named) !== undefined;
  const requestId = keepsId ? named : options.nextRequestId();
  headers[requestIdHeader] = requestId;
  return requestId;
}

/** Returns the handlers of all methods by their paths. */
function createHandlers(
  options: RpcListenerOptions,
  draining: AbortSignal,
  readMaxBytes: number,
): ReadonlyMap<string, UniversalHandler> {
  const watch = { observe: options.observe ?? (() => undefined), runtime: options.runtime ?? systemRuntime };
  const check = async (context: HandlerContext): Promise<void> => {
    if (ownServices.includes(context.service)) return;
    if (draining.aborted) {
      throw new GatewayError('overloaded', 'The gateway is stopping.', { retryAfterMs: drainRetryMs });
    }
    // An edge has found out who calls; and what it fetches for clients without a key has a credential of its own.
    if (!context.requestHeader.has(edgeHeader)) await options.gate?.(context);
  };
  const { services } = options.services;
  const offered = [...services, ...ownServices];
  const router = createConnectRouter({
    acceptCompression: [compressionGzip, compressionBrotli],
    interceptors: [callBoundary(watch)],
    requestGate: createGate(check, watch),
    readMaxBytes,
  });
  for (const service of services) router.service(service, networkService(service, options.services));
  router.service(
    Health,
    healthService(
      offered.map(({ typeName }) => typeName),
      draining,
      options.unready,
    ),
  );
  router.service(ServerReflection, reflectionService(offered, draining));
  return new Map(router.handlers.map(handler => [handler.requestPath, handler]));
}

async function answerPlainHttp(
  { path, request, response }: { path: string; request: IncomingMessage; response: ServerResponse },
  draining: AbortSignal,
  { metrics, unready }: Pick<RpcListenerOptions, 'metrics' | 'unready'>,
): Promise<void> {
  const reads = request.method === 'GET' || request.method === 'HEAD';
  const send = (status: number, contentType: string, body: string): void => {
    response.writeHead(status, { 'content-type': contentType, 'content-length': Buffer.byteLength(body) });
    response.end(request.method === 'HEAD' ? '' : body);
  };
  const json = (status: number, body: object): void => send(status, 'application/json', JSON.stringify(body));
  if (reads && path === '/healthz') json(200, { status: 'ok' });
  else if (reads && path === '/readyz') {
    const reason = unready?.();
    if (draining.aborted) json(503, { status: 'draining' });
    else if (reason !== undefined) json(503, { status: 'unready', reason });
    else json(200, { status: 'ready' });
  } else if (reads && path === '/metrics' && metrics !== undefined) {
    const page = await metrics();
    send(200, page.contentType, page.body);
  } else {
    // A body that nobody reads must not be taken for the connection's next request.
    if (request.httpVersionMajor === 1) response.setHeader('connection', 'close');
    // The path is not repeated: callers paste keys into URLs.
    json(404, { code: 'not_found', message: 'There is nothing at this path on this listener.' });
  }
}
