import type {
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  MessageInitShape,
  MessageShape,
} from '@bufbuild/protobuf';
import { makeAnyClient } from '@connectrpc/connect';
import { type HeaderReader, pull } from '../lib/push.ts';
import { toMessage } from './in-process.ts';
import type { PushTransport } from './push-transport.ts';

/** The options of a call. */
export interface CallOptions {
  /** The headers of the call; absent: none. */
  readonly headers?: HeaderReader;
  /** Cancels the call when it is aborted; absent: the call can't be cancelled. */
  readonly signal?: AbortSignal;
}

/** A client of a service over a `PushTransport`. Streams are async iterables; a stream that is not read is never requested. */
export type LeanClient<S extends DescService> = {
  readonly [Name in keyof S['method']]: S['method'][Name] extends DescMethodUnary<infer I, infer O>
    ? (request: MessageInitShape<I>, options?: CallOptions) => Promise<MessageShape<O>>
    : S['method'][Name] extends DescMethodServerStreaming<infer I, infer O>
      ? (request: MessageInitShape<I>, options?: CallOptions) => AsyncIterableIterator<MessageShape<O>>
      : never;
};

const noHeaders = new Headers();

/** Returns a client of the unary and server-streaming methods of a service. Calls fail with errors that `fromConnectError` converts. */
export function leanClient<S extends DescService>(service: S, transport: PushTransport): LeanClient<S> {
  const client = makeAnyClient(service, method => {
    if (method.methodKind === 'unary') {
      return async (init: MessageInitShape<typeof method.input>, { headers = noHeaders, signal }: CallOptions = {}) =>
        transport.ask(method, toMessage(method.input, init), headers, signal);
    }
    if (method.methodKind === 'server_streaming') {
      return (init: MessageInitShape<typeof method.input>, { headers = noHeaders, signal }: CallOptions = {}) =>
        pull(sink => transport.push(method, toMessage(method.input, init), headers, sink), signal);
    }
    return null;
  });
  // The cast holds, because the methods are made from the service's descriptor, which the types can't express.
  return client as LeanClient<S>;
}
