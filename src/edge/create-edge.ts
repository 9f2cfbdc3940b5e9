import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import fastify, {
  type FastifyHttpOptions,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import { chatCodec } from '../codecs/chat/index.ts';
import { completionsCodec } from '../codecs/completions/index.ts';
import { messagesCodec } from '../codecs/messages/index.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { Endpoint } from '../gen/tollgate/v1/request_pb.ts';
import { isAccountPath, registerAccount } from './account-routes.ts';
import { resolveAlias } from './aliases.ts';
import { writeAnswer } from './answer.ts';
import { Call, type ErrorShape } from './call.ts';
import { answerConnectionError } from './connection-error.ts';
import { corsHeaders, preflightHeaders } from './cors.ts';
import { isDashboardPath, registerDashboard } from './dashboard-routes.ts';
import { Edge } from './edge.ts';
import { registerBatches } from './batches/batch-routes.ts';
import { registerFiles } from './batches/file-routes.ts';
import { registerMessageBatches } from './batches/message-batch-routes.ts';
import { embeddingRoute, registerDirect, rerankRoute } from './direct-route.ts';
import { answerError } from './error-answer.ts';
import { registerGeneration } from './generation-route.ts';
import { registerErrorDocs } from './error-docs.ts';
import { registerReference } from './reference-routes.ts';
import { operatorPaths, registerHealth } from './health-routes.ts';
import { isMessagesPath, messagesPath, registerCountTokens } from './count-tokens-route.ts';
import { registerImageFiles } from './image-file-route.ts';
import { registerImages } from './image-routes.ts';
import { registerModels } from './model-routes.ts';
import type { EdgeOptions } from './options.ts';
import type { TlsTarget } from '../lib/tls-files.ts';
import { registerStoredConversations } from './conversations/routes.ts';
import { registerConversations } from './responses/conversation-routes.ts';
import { registerCreateResponse } from './responses/create-route.ts';
import { StalledWrites } from './stalled-writes.ts';
import { isSocketUpgrade, registerSocket } from './responses/socket-upgrade.ts';
import { registerStoredResponses } from './responses/stored-routes.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Generations that are being answered, streamed or whole. */
    openAnswers(): number;
    /** Resolves when no generation is being answered. */
    idle(): Promise<void>;
  }
}

/** Deadline for the arrival of a request, body included. */
const requestTimeoutMs = 300_000;
const headersTimeoutMs = 60_000;
/** Longer than the 60 s of usual load balancers, so that they close idle connections and not the gateway. */
const keepAliveTimeoutMs = 75_000;
/** Connections that are still open this long after `close()` are cut. */
const closeGraceMs = 2000;

/** Replaces Fastify's own compilers of schemas, which would load 100 modules at every start; no route here has a schema. */
function noSchemas(): never {
  throw new Error('a route has a schema, and nothing compiles schemas of Fastify here');
}

/**
 * The public listener: REST and SSE over the core's services, to be started with `listen`. It has no access to storage, prices or
 * providers. To stop it: make `draining()` return true, await `idle()` for at most the grace period, then call `close()`, which takes at
 * most two seconds.
 */
export function createEdge(options: EdgeOptions): FastifyInstance {
  const edge = new Edge(options);
  const app: FastifyInstance = fastify({
    logger: false,
    genReqId: () => options.nextRequestId(),
    requestIdHeader: false,
    rewriteUrl: ({ url = '' }) => resolveAlias(url),
    bodyLimit: options.bodyBytesMax,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    connectionTimeout: 0,
    // Requests that arrive while the gateway stops are refused here, with the envelope.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    ...serverOptions(options.tls),
    frameworkErrors: (error, request, reply) => {
      request.call = toCall(edge, request);
      void answerError(edge, request, reply, { thrown: error });
    },
    clientErrorHandler: (error, socket) => answerConnectionError(edge, error, socket),
  });
  if (options.tls !== undefined) options.tls.keepUpdated(app.server as unknown as TlsTarget);
  app.decorate('openAnswers', () => edge.openAnswers());
  app.decorate('idle', () => edge.idle());
  app.decorateRequest('call');
  app.addHook('onRequest', (request, reply, done) => {
    request.call = toCall(edge, request);
    if (!refuses(edge, request, reply)) done();
  });
  app.setErrorHandler((thrown, request, reply) => answerError(edge, request, reply, { thrown }));
  app.setNotFoundHandler((request, reply) => answerError(edge, request, reply, notFound));
  readBodiesInRoutes(app);
  closeInTime(app, edge);
  // A client that has closed its sending side still gets its answer; Node would close the connection.
  Object.assign(app.server, { httpAllowHalfOpen: true });
  registerHealth(app, edge);
  registerErrorDocs(app);
  registerReference(app, edge);
  registerModels(app, edge);
  registerGeneration(app, edge, {
    path: '/v1/chat/completions',
    codec: chatCodec,
    endpoint: Endpoint.CHAT_COMPLETIONS,
  });
  registerGeneration(app, edge, {
    path: '/v1/completions',
    codec: completionsCodec,
    endpoint: Endpoint.COMPLETIONS,
  });
  registerGeneration(app, edge, { path: messagesPath, codec: messagesCodec, endpoint: Endpoint.MESSAGES });
  registerCreateResponse(app, edge);
  registerStoredResponses(app, edge);
  registerConversations(app, edge);
  registerStoredConversations(app, edge);
  registerSocket(app, edge);
  registerCountTokens(app, edge);
  registerAccount(app, edge);
  registerImages(app, edge);
  registerImageFiles(app, edge);
  registerFiles(app, edge);
  registerBatches(app, edge);
  registerMessageBatches(app, edge);
  registerDirect(app, edge, '/v1/embeddings', embeddingRoute(edge));
  for (const url of ['/v1/rerank', '/v2/rerank']) registerDirect(app, edge, url, rerankRoute(edge));
  if (options.dashboard !== undefined) registerDashboard(app, options.dashboard);
  return app;
}

/** Options of the server below the framework. Without a Host header Node would answer by itself, without the envelope. */
function serverOptions(tls: EdgeOptions['tls']): Pick<FastifyHttpOptions<Server>, 'http'> {
  const http = { headersTimeout: headersTimeoutMs, requireHostHeader: false, shouldUpgradeCallback: isSocketUpgrade };
  if (tls === undefined) return { http };
  const https = { ...tls.material, ...http, ALPNProtocols: ['http/1.1'], handshakeTimeout: headersTimeoutMs };
  // The cast holds: a server over TLS is used like one without.
  return { https } as Pick<FastifyHttpOptions<Server>, 'http'>;
}

const notFound = { thrown: new GatewayError('not_found', 'No such path, or not with this method.') };

function toCall({ options }: Edge, { id, raw }: FastifyRequest): Call {
  const { corsOrigins, runtime } = options;
  const { headers } = raw;
  const cors = corsOrigins.length === 0 ? undefined : corsHeaders(corsOrigins, headers.origin);
  return new Call(runtime, id, chooseErrorShape(raw), cors).follow(headers, options);
}

/** Every client of the Anthropic interface sends its version, on every path. */
function chooseErrorShape({ url = '', headers }: IncomingMessage): ErrorShape {
  if (isAccountPath(url)) return 'account';
  return isMessagesPath(url) || headers['anthropic-version'] !== undefined ? 'messages' : 'openai';
}

/** Answers requests that need no route and no key: a stopping gateway, unknown paths (before their body is read), preflight requests. */
function refuses(edge: Edge, request: FastifyRequest, reply: FastifyReply): boolean {
  const { call, raw } = request;
  if (edge.stopping() && !operatorPaths.has(request.routeOptions.url ?? '')) {
    void answerError(edge, request, reply, { thrown: new GatewayError('overloaded', 'The gateway is stopping.') });
    return true;
  }
  if (!request.is404) return false;
  const preflight = isDashboardPath(raw.url ?? '') ? undefined : preflightHeaders(raw, call.headers);
  if (preflight === undefined) {
    void answerError(edge, request, reply, notFound);
  } else {
    reply.hijack();
    writeAnswer(raw, reply.raw, { status: 204, headers: preflight, body: '' });
  }
  return true;
}

/**
 * The framework reads no body: each route reads its own after the caller is known, and sends `100 Continue` only
 * then.
 */
function readBodiesInRoutes(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(['application/json', '*'], (_request, _payload, done) => {
    done(null);
  });
  const route = (request: IncomingMessage, response: ServerResponse): void => app.routing(request, response);
  app.server.on('checkContinue', route).on('checkExpectation', route);
}

function closeInTime(app: FastifyInstance, edge: Edge): void {
  const { runtime } = edge.options;
  const isHeapFull = (): boolean => edge.load.isHeapFull;
  const stalled = new StalledWrites(app.server, runtime, () => edge.options.unsent, isHeapFull);
  app.addHook('preClose', done => {
    edge.isListenerClosing = true;
    edge.parser.close();
    stalled.close();
    edge.load.close();
    setTimeout(() => app.server.closeAllConnections(), closeGraceMs).unref();
    done();
  });
}
