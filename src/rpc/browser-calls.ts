import type { IncomingMessage, ServerResponse } from 'node:http';
import type { DescService } from '@bufbuild/protobuf';
import { createConnectRouter, type HandlerContext, type ServiceImpl } from '@connectrpc/connect';
import { compressionBrotli, compressionGzip, universalRequestFromNodeRequest } from '@connectrpc/connect-node';
import { boundedCall } from './bounded-body.ts';
import { callBoundary, type CallWatch, createGate } from './call-boundary.ts';
import { defaultMessageBytesMax, messageBounds, type MessageLimits } from './message-bounds.ts';
import { networkService } from './network-services.ts';
import { networkCall } from './network-call.ts';
import type { PushTransport } from './push-transport.ts';
import { writeReply } from './reply-writer.ts';

/** The services that pages of the dashboard may call, and their options. */
export interface BrowserCallOptions extends MessageLimits {
  readonly core: PushTransport;
  readonly services: readonly DescService[];
  /** Checks a call before its body is read. Throws if it is refused. */
  readonly gate: (context: HandlerContext) => Promise<void> | void;
  /** Methods that replace those of the core for pages, by the name of their service. */
  readonly replaced: Readonly<Record<string, Partial<Record<string, unknown>>>>;
  readonly watch: CallWatch;
}

/** A call from a page. */
export interface BrowserCall {
  /** The path of the method: `/tollgate.v1.AccountService/ListKeys`. */
  readonly path: string;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
}

/**
 * Returns the handler of calls from pages. It accepts only the Connect protocol over POST with its header, so that a page of another origin can't make a call without a preflight request, which is never allowed. It resolves to false if there is no such method; then nothing was answered.
 */
export function createBrowserCalls(options: BrowserCallOptions): (call: BrowserCall) => Promise<boolean> {
  const router = createConnectRouter({
    acceptCompression: [compressionGzip, compressionBrotli],
    interceptors: [callBoundary(options.watch)],
    requestGate: createGate(options.gate, options.watch),
    requireConnectProtocolHeader: true,
    grpc: false,
    grpcWeb: false,
    binaryOptions: { readUnknownFields: false },
    readMaxBytes: options.messageBytesMax ?? defaultMessageBytesMax,
  });
  for (const service of options.services) {
    const implementation = networkService(service, options.core, undefined);
    // The cast holds, because replaced methods have the names and types of the service's methods.
    const replaced = options.replaced[service.typeName] as Partial<ServiceImpl<DescService>> | undefined;
    router.service(service, { ...implementation, ...replaced });
  }
  const handlers = new Map(router.handlers.map(handler => [handler.requestPath, handler]));
  return async ({ path, request, response, requestId }) => {
    const handler = handlers.get(path);
    if (handler === undefined) return false;
    const call = universalRequestFromNodeRequest(request, response, undefined, undefined);
    const bounds = messageBounds(options, handler.service, false);
    const bounded = boundedCall(call, { ...bounds, input: handler.method.input, requestId });
    const known = networkCall(call.header).watch();
    try {
      await writeReply(await handler(bounded), { request, response }, call.signal);
    } finally {
      known.over();
    }
    return true;
  };
}
