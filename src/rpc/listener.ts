import type { ClientAddresses } from '../lib/client-address.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { DescService } from '@bufbuild/protobuf';
import { createConnectRouter, type HandlerContext, type ServiceImpl } from '@connectrpc/connect';
import type { UniversalHandler } from '@connectrpc/connect/protocol';
import { compressionBrotli, compressionGzip, universalRequestFromNodeRequest } from '@connectrpc/connect-node';
import { GatewayError } from '../errors/gateway-error.ts';
import { Health } from '../gen/grpc/health/v1/health_pb.ts';
import { ServerReflection } from '../gen/grpc/reflection/v1/reflection_pb.ts';
import { ServerReflection as AlphaReflection } from '../gen/grpc/reflection/v1alpha/reflection_pb.ts';
import { callBoundary, type CallObserver, createGate } from './call-boundary.ts';
import { boundedCall } from './bounded-body.ts';
import { healthService } from './health.ts';
import type { InProcessTransport } from './in-process.ts';
import { networkService } from './network-services.ts';
import {
  actsForHeader,
  apiKeyIdHeader,
  clientAddressHeader,
  edgeHeader,
  fingerprintHeader,
} from '../lib/call-headers.ts';
import { parseLedgerId, requestIdHeader } from '../lib/ids.ts';
import { type Runtime, systemRuntime } from '../lib/runtime.ts';
import type { TlsFiles } from '../lib/tls-files.ts';
import { defaultMessageBytesMax, edgeExtraBytes, messageBounds, type MessageLimits } from './message-bounds.ts';
import { networkCall } from './network-call.ts';
import { type NewCallLimits, NewCalls } from './new-calls.ts';
import { OpenCalls, type OpenCallLimits } from './open-calls.ts';
import { type ConnectionLimits, createProtocolSwitch, type ProtocolSwitch } from './protocol-switch.ts';
import { reflectionService } from './reflection.ts';
import { writeReply } from './reply-writer.ts';
import type { DecodeSource } from './trusted-request.ts';

/** The services and options of the internal listener. */
export interface RpcListenerOptions extends MessageLimits {
  /** The services; health and reflection are added. */
  readonly services: InProcessTransport;
  /** Returns a new public request id (`req_…`), for every call except those of an edge that has given them an id. */
  readonly nextRequestId: () => string;
  /**
   * Returns whether a service token has a scope. `edge`: the caller gives its requests their ids, sends their raw bodies, and authenticates its clients itself, so the gate does not check it. `generate`: the caller acts for the API key whose id it sends. Absent: there are no service tokens.
   */
  readonly hasScope?: (token: string, scope: 'edge' | 'generate') => boolean;
  /** Decodes the raw body that an edge sends with a request; absent: raw bodies are never accepted. */
  readonly decodeSource?: DecodeSource;
  /** Checks a call before its body is read, in addition to what its service checks; absent: nothing is checked. */
  readonly gate?: (context: HandlerContext) => Promise<void>;
  /** Returns the answer of `GET /metrics` in the format of Prometheus; absent: the path is 404. */
  readonly metrics?: () => Promise<{ readonly contentType: string; readonly body: string }>;
  /** Returns, in words for people, why the running gateway can't accept requests; undefined: it can. Absent: it always can. */
  readonly unready?: () => string | undefined;
  /** Finds the address of a caller behind a trusted proxy; absent: it is that of the connection. */
  readonly addresses?: ClientAddresses;
  /** Called for every call that has ended. */
  readonly observe?: CallObserver;
  /** Times the calls; absent: the system's clock and timers. */
  readonly runtime?: Runtime;
  /** Answers the paths of the dashboard; absent: there is no dashboard. */
  readonly dashboard?: ((request: IncomingMessage, response: ServerResponse, requestId: string) => void) | undefined;
  /** Overrides of `defaultOpenCallLimits`. */
  readonly openCalls?: Partial<OpenCallLimits>;
  /** Overrides of `defaultNewCallLimits`. */
  readonly newCalls?: Partial<NewCallLimits>;
  /** The certificate of the port; absent: cleartext. The socket is always cleartext. */
  readonly tls?: TlsFiles | undefined;
  /** Services that can be called only over the Unix socket; absent: none. */
  readonly socketOnly?: readonly DescService[];
  /** Overrides of `defaultConnectionLimits`. */
  readonly connections?: Partial<ConnectionLimits>;
}

/** The internal listener. */
export interface RpcListener {
  /** Opens the port (0: the system chooses one), and returns the opened one. */
  listen(host: string, port: number): Promise<{ readonly host: string; readonly port: number }>;
  /** Opens the same services on a Unix socket that only its owner can open. An existing socket is replaced. */
  listenOnSocket(path: string): Promise<void>;
  /** From now on `/readyz` is 503, the health status is NOT_SERVING, and new calls are refused as `overloaded`. Running calls continue. */
  drain(): void;
  /** Drains, waits at most `graceMs` for running calls, then cuts them off. */
  close(graceMs: number): Promise<void>;
}

/** Generous for services of the operator's network, but finite in case of their mistakes. */
const defaultConnectionLimits: ConnectionLimits = {
  headMs: 10_000,
  requestMs: 300_000,
  pingMs: 30_000,
  streamsMax: 1_024,
  sessionMegabytesMax: 1_024,
  windowBytes: 1 << 20,
};

/** Enough for health probes, and for people who read the API by reflection. */
const defaultOpenCallLimits: OpenCallLimits = {
  bytesMax: 4_096,
  callsMax: 256,
  perAddressMax: 32,
  durationMs: 600_000,
};

/** Bodies come with their calls or soon after them, so only a caller that holds them back exceeds the counts. */
const defaultNewCallLimits: NewCallLimits = { perTurn: 8, bodilessPerAddress: 1_024, bodilessPerCredential: 256 };

const ownServices: readonly DescService[] = [Health, ServerReflection, AlphaReflection];
const drainRetryMs = 1_000;

/**
 * The internal listener: gRPC, gRPC-Web and Connect over HTTP/2 and HTTP/1.1 on one port, over TLS if it has a certificate, with health, reflection, `/healthz`,
 * `/readyz` and `/metrics`. Services throw `GatewayError`s, which callers get as RPC errors with an `ErrorDetail`. Source: docs/interfaces/rpc.md "The listener".
 */
export function createRpcListener(options: RpcListenerOptions): RpcListener {
  const stopping = new AbortController();
  const draining = stopping.signal;
  const handlers = createHandlers(options, draining);
  const openCalls = new OpenCalls({ ...defaultOpenCallLimits, ...options.openCalls }, options.runtime ?? systemRuntime);
  const newCalls = new NewCalls({ ...defaultNewCallLimits, ...options.newCalls }, options.runtime ?? systemRuntime);
  const answer = async (request: IncomingMessage, response: ServerResponse, isSocket: boolean): Promise<void> => {
    const requestId = admitHeaders(request, options);
    response.setHeader('x-request-id', requestId);
    response.setHeader('x-content-type-options', 'nosniff');
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    if (options.dashboard !== undefined && /^\/dashboard(?:\/|$)/.test(path)) {
      return options.dashboard(request, response, requestId);
    }
    const handler = handlers.get(path);
    const isHidden = !isSocket && handler !== undefined && options.socketOnly?.includes(handler.service) === true;
    if (handler === undefined || isHidden) {
      return answerPlainHttp({ path, request, response }, draining, options);
    }
    response.setHeader('cache-control', 'no-store');
    const { service, method } = handler;
    const isOpen = ownServices.includes(service);
    if (isOpen && !openCalls.admit(request, response)) return refuseBusy(request, response);
    const call = universalRequestFromNodeRequest(request, response, undefined, undefined);
    const bounds = messageBounds(options, service, edgeHeader in request.headers);
    // Calls without a credential may have only small messages, which their handlers limit.
    const taken = isOpen ? call : boundedCall(call, { ...bounds, input: method.input, requestId });
    const known = networkCall(call.header).watch();
    try {
      await writeReply(await handler(taken), { request, response }, call.signal);
    } finally {
      known.over();
    }
  };
  const serve = (isSocket: boolean, tls?: TlsFiles): ProtocolSwitch =>
    createProtocolSwitch(
      (request, response) => {
        // Only requests that can't be parsed (their `Host`) and answers that can't be delivered fail here; errors of services are answers.
        const begin = (): void => {
          answer(request, response, isSocket).catch(() => {
            if (!response.headersSent) response.writeHead(400);
            response.end();
          });
        };
        newCalls.add(request, response, begin, () => refuseBusy(request, response));
      },
      { ...defaultConnectionLimits, ...options.connections },
      tls,
    );
  const ports = serve(false, options.tls);
  let socket: ProtocolSwitch | undefined;
  return {
    listen: async (host, port) => ({ host, port: await ports.listen(host, port) }),
    listenOnSocket: path => {
      socket = serve(true);
      return socket.listenOnSocket(path);
    },
    drain: () => stopping.abort(),
    close: async graceMs => {
      stopping.abort();
      await Promise.all([ports.close(graceMs), socket?.close(graceMs)]);
    },
  };
}

/** Refuses a call without a credential because there are too many of them. All protocols of the listener understand this status as "unavailable". */
function refuseBusy(request: IncomingMessage, response: ServerResponse): void {
  if (request.httpVersionMajor === 1) response.setHeader('connection', 'close');
  response.writeHead(503, { 'retry-after': '1' });
  response.end();
}

/**
 * Corrects the headers of a call before anything reads them, and returns its request id. Sets the request id; keeps `edgeHeader`, `fingerprintHeader` and the client's address only in calls of an edge, and sets the caller's address in all others; keeps `actsForHeader` only in calls of a service that has the scope `generate`.
 */
function admitHeaders(request: IncomingMessage, options: RpcListenerOptions): string {
  const { headers, socket } = request;
  const { [edgeHeader]: token, [requestIdHeader]: named, [apiKeyIdHeader]: keyId } = headers;
  const isEdge = typeof token === 'string' && options.hasScope?.(token, 'edge') === true;
  if (!isEdge) {
    delete headers[edgeHeader];
    delete headers[fingerprintHeader];
    delete headers[clientAddressHeader];
    const address = options.addresses?.find(request) ?? socket.remoteAddress ?? '';
    if (address !== '') headers[clientAddressHeader] = address;
  }
  delete headers[actsForHeader];
  if (typeof keyId === 'string' && /^[1-9]\d{0,15}$/.test(keyId)) {
    const bearer = /^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1];
    if (bearer !== undefined && options.hasScope?.(bearer, 'generate') === true) headers[actsForHeader] = keyId;
  }
  const keepsId = isEdge && typeof named === 'string' && parseLedgerId(named) !== undefined;
  const requestId = keepsId ? named : options.nextRequestId();
  headers[requestIdHeader] = requestId;
  return requestId;
}

/** Returns the handlers of all methods by their paths. */
function createHandlers(options: RpcListenerOptions, draining: AbortSignal): ReadonlyMap<string, UniversalHandler> {
  const watch = { observe: options.observe ?? (() => undefined), runtime: options.runtime ?? systemRuntime };
  const check = async (context: HandlerContext): Promise<void> => {
    if (ownServices.includes(context.service)) return;
    if (draining.aborted) {
      throw new GatewayError('overloaded', 'The gateway is stopping.', { retryAfterMs: drainRetryMs });
    }
    // Calls of an edge are not checked here, because the edge authenticates its clients.
    if (!context.requestHeader.has(edgeHeader)) await options.gate?.(context);
  };
  const { services } = options.services;
  const offered = [...services, ...ownServices];
  const router = createConnectRouter({
    acceptCompression: [compressionGzip, compressionBrotli],
    interceptors: [callBoundary(watch)],
    requestGate: createGate(check, watch),
    // Fields that only a newer caller knows would have no effect.
    binaryOptions: { readUnknownFields: false },
    // Only an upper bound: `boundedCall` checks the limit of each service.
    readMaxBytes: 2 * (options.messageBytesMax ?? defaultMessageBytesMax) + edgeExtraBytes,
  });
  for (const service of services) {
    router.service(service, networkService(service, options.services, options.decodeSource));
  }
  const { bytesMax, durationMs } = { ...defaultOpenCallLimits, ...options.openCalls };
  const open = { acceptCompression: [], readMaxBytes: bytesMax };
  const names = offered.map(({ typeName }) => typeName);
  router.service(Health, healthService(names, draining, durationMs, options.unready), open);
  const reflection = reflectionService(offered, draining, durationMs);
  router.service(ServerReflection, reflection, open);
  // The same messages under the older name, which is the only one that some clients ask for (grpcio-reflection of Python, Postman).
  router.service(AlphaReflection, reflection as unknown as ServiceImpl<typeof AlphaReflection>, open);
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
    // Closed, so that an unread body is not taken for the connection's next request.
    if (request.httpVersionMajor === 1) response.setHeader('connection', 'close');
    // The path is not repeated, because callers may have pasted a key into it.
    json(404, { code: 'not_found', message: 'There is nothing at this path on this listener.' });
  }
}
