import { type DescMethodServerStreaming, type DescMethodUnary, type DescService, isMessage } from '@bufbuild/protobuf';
import type { HandlerContext, ServiceImpl } from '@connectrpc/connect';
import { GenerateRequestSchema } from '../gen/tollgate/v1/request_pb.ts';
import { edgeHeader } from '../lib/call-headers.ts';
import { pull } from '../lib/push.ts';
import { networkCall } from './network-call.ts';
import type { PushTransport } from './push-transport.ts';

/** Returns an implementation of `service` for callers over the network: Connect's streams over what `core` pushes. */
export function networkService<S extends DescService>(service: S, core: PushTransport): ServiceImpl<S> {
  const methods = service.methods.map(method => {
    if (method.methodKind === 'unary') {
      const ask = (request: never, { requestHeader, signal }: HandlerContext): unknown =>
        core.ask(method as DescMethodUnary, withoutSource(request, requestHeader), networkCall(requestHeader), signal);
      return [method.localName, ask];
    }
    if (method.methodKind !== 'server_streaming')
      throw new Error(`${method.name}: ${method.methodKind} is not offered`);
    const stream = (request: never, { requestHeader, signal }: HandlerContext): unknown =>
      pull(
        sink =>
          core.push(
            method as DescMethodServerStreaming,
            withoutSource(request, requestHeader),
            networkCall(requestHeader),
            sink,
          ),
        signal,
      );
    return [method.localName, stream];
  });
  return Object.fromEntries(methods) as ServiceImpl<S>;
}

/**
 * Takes out of a request what only an edge may say: the body that its fields were read from. What is checked and priced are the fields, what an upstream of the same protocol
 * gets is the body.
 */
function withoutSource<Message>(request: Message, requestHeader: Headers): Message {
  if (requestHeader.has(edgeHeader)) return request;
  // A request stands in a message of its own, or in another request.
  for (let each: unknown = request; isMessage(each); each = 'request' in each ? each.request : undefined) {
    if (isMessage(each, GenerateRequestSchema)) delete each.source;
  }
  return request;
}
