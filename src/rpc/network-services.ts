import type { DescMethodServerStreaming, DescMethodUnary, DescService } from '@bufbuild/protobuf';
import type { HandlerContext, ServiceImpl } from '@connectrpc/connect';
import { pull } from '../lib/push.ts';
import { networkCall } from './network-call.ts';
import type { PushTransport } from './push-transport.ts';
import { type DecodeSource, trustedRequest } from './trusted-request.ts';

/**
 * Returns an implementation of `service` for callers over the network. It turns the messages that `core` pushes into the async iterables that Connect expects. `decode`: see `trustedRequest`; undefined: raw bodies are never accepted.
 */
export function networkService<S extends DescService>(
  service: S,
  core: PushTransport,
  decode: DecodeSource | undefined,
): ServiceImpl<S> {
  const methods = service.methods.map(method => {
    const trusted = (request: never, requestHeader: Headers): Promise<never> =>
      trustedRequest(request, { method, requestHeader }, decode);
    if (method.methodKind === 'unary') {
      const ask = async (request: never, { requestHeader, signal }: HandlerContext): Promise<unknown> =>
        core.ask(method as DescMethodUnary, await trusted(request, requestHeader), networkCall(requestHeader), signal);
      return [method.localName, ask];
    }
    if (method.methodKind !== 'server_streaming')
      throw new Error(`${method.name}: ${method.methodKind} is not offered`);
    async function* stream(sent: never, { requestHeader, signal }: HandlerContext): AsyncGenerator {
      const request = await trusted(sent, requestHeader);
      const call = networkCall(requestHeader);
      yield* pull(sink => core.push(method as DescMethodServerStreaming, request, call, sink), signal);
    }
    return [method.localName, stream];
  });
  return Object.fromEntries(methods) as ServiceImpl<S>;
}
