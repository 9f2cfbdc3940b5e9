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
import { answerInOrder } from '../lib/answer-in-order.ts';
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
import { answerError, type RequestFailure } from './error-answer.ts';
import { registerGemini } from './gemini/routes.ts';
import { geminiMethods, isGoogleRequest, rewriteGemini } from './gemini/target.ts';
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
    /** Returns how many generations are being answered, streamed or whole. */
    openAnswers(): number;
    /** Resolves when no generation is being answered. */
    idle(): Promise<void>;
  }
}

/** The time in which a request must arrive, body included. */
const requestTimeoutMs = 300_000;
const headersTimeoutMs = 60_000;
/** Longer than the usual 60 s of load balancers, so that they, not the gateway, close idle connections. */
const keepAliveTimeoutMs = 75_000;
/** Connections that are still open this long after `close()` are cut. */
const closeGraceMs = 2000;

/** Replaces Fastify's schema compilers, which would load 100 modules at every start. No route here has a schema. */
function noSchemas(): never {
  throw new Error('a route has a schema, but Fastify’s schema compilers are not loaded');
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
    rewriteUrl: request => rewriteGemini(request) ?? resolveAlias(request.url ?? ''),
    bodyLimit: options.bodyBytesMax,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    connectionTimeout: 0,
    // Requests that arrive while the gateway stops are refused by `refuses` below, with the envelope.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    ...serverOptions(options.tls),
    frameworkErrors: (error, request, reply) => {
      request.call = toCall(edge, request, reply);
      void answerError(edge, request, reply, { thrown: error });
    },
    clientErrorHandler: (error, socket) => answerConnectionError(edge, error, socket),
  });
  if (options.tls !== undefined) options.tls.keepUpdated(app.server as unknown as TlsTarget);
  app.decorate('openAnswers', () => edge.openAnswers());
  app.decorate('idle', () => edge.idle());
  app.decorateRequest('call');
  app.addHook('onRequest', (request, reply, done) => {
    request.call = toCall(edge, request, reply);
    if (!refuses(edge, request, reply)) done();
  });
  app.setErrorHandler((thrown, request, reply) => answerError(edge, request, reply, { thrown }));
  app.setNotFoundHandler((request, reply) => answerError(edge, request, reply, notFound(request)));
  readBodiesInRoutes(app);
  answerInOrder(app.server);
  closeInTime(app, edge);
  // A client that has closed its sending side still gets its answer. By default Node.js would close the connection.
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
  registerGemini(app, edge);
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

/** Returns the options of Node's server. `requireHostHeader` is false, because Node.js would answer a request without `Host` itself, without the envelope. */
function serverOptions(tls: EdgeOptions['tls']): Pick<FastifyHttpOptions<Server>, 'http'> {
  const http = { headersTimeout: headersTimeoutMs, requireHostHeader: false, shouldUpgradeCallback: isSocketUpgrade };
  if (tls === undefined) return { http };
  const https = { ...tls.material, ...http, ALPNProtocols: ['http/1.1'], handshakeTimeout: headersTimeoutMs };
  // The cast is safe: a TLS server is used like one without TLS.
  return { https } as Pick<FastifyHttpOptions<Server>, 'http'>;
}

/** Returns the failure for a path that does not exist. */
function notFound({ call }: FastifyRequest): RequestFailure {
  const message =
    call.errorShape === 'google'
      ? `No such path, or not with this method. Of Google’s interface this gateway has models and their methods ${geminiMethods.join(', ')}.`
      : 'No such path, or not with this method.';
  return { thrown: new GatewayError('not_found', message) };
}

function toCall({ options }: Edge, { id, raw }: FastifyRequest, reply: FastifyReply): Call {
  const { corsOrigins, runtime } = options;
  const { headers } = raw;
  const cors = corsOrigins.length === 0 ? undefined : corsHeaders(corsOrigins, headers.origin);
  const call = new Call(runtime, id, chooseErrorShape(raw), cors).follow(headers, options);
  call.response = reply.raw;
  return call;
}

/** Returns the shape of a request's errors. Google's paths are recognised by their target, Anthropic's clients are recognised on every path by `anthropic-version`. */
function chooseErrorShape(request: IncomingMessage): ErrorShape {
  const { url = '', headers } = request;
  if (isGoogleRequest(request)) return 'google';
  if (isAccountPath(url)) return 'account';
  return isMessagesPath(url) || headers['anthropic-version'] !== undefined ? 'messages' : 'openai';
}

/** Answers a request if it needs no route and no key: any while the gateway stops, those of unknown paths (before their body is read), preflight requests. Returns whether it did. */
function refuses(edge: Edge, request: FastifyRequest, reply: FastifyReply): boolean {
  const { call, raw } = request;
  if (edge.stopping() && !operatorPaths.has(request.routeOptions.url ?? '')) {
    void answerError(edge, request, reply, { thrown: new GatewayError('overloaded', 'The gateway is stopping.') });
    return true;
  }
  if (!request.is404) return false;
  const preflight = isDashboardPath(raw.url ?? '') ? undefined : preflightHeaders(raw, call.headers);
  if (preflight === undefined) {
    void answerError(edge, request, reply, notFound(request));
  } else {
    reply.hijack();
    writeAnswer(raw, reply.raw, { status: 204, headers: preflight, body: '' });
  }
  return true;
}

/**
 * Stops Fastify from reading bodies. Each route reads its body itself once the caller is known, and sends `100 Continue` only then.
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
