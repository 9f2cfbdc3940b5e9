import type {
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  MessageInitShape,
  MessageShape,
} from '@bufbuild/protobuf';
import { type CallOptions, type Client, makeAnyClient, type Transport } from '@connectrpc/connect';

/** Connect's own options; the headers by the name that lib.dom would have for them. */
type Options = Omit<CallOptions, 'headers'> & { readonly headers?: ConstructorParameters<typeof Headers>[0] };

/**
 * The generated client of a service, made without the two down-levelled generators that the stock one puts around every message of a stream: they cost
 * 12 µs a call and 0.5 µs an event, a fifth of what a request may cost (docs/benchmarks.md). Unary and server-streaming methods only; any transport.
 */
export function leanClient<S extends DescService>(service: S, transport: Transport): Client<S> {
  const client = makeAnyClient(service, method => {
    if (method.methodKind === 'unary') return unaryCall(transport, method);
    if (method.methodKind === 'server_streaming') return streamingCall(transport, method);
    return null;
  });
  // The methods have the signatures that the service's descriptor gives them; a table of functions can't say so.
  return client as Client<S>;
}

function unaryCall(transport: Transport, method: DescMethodUnary) {
  return async (input: MessageInitShape<typeof method.input>, options: Options = {}) => {
    const { signal, timeoutMs, headers, contextValues } = options;
    const response = await transport.unary(method, signal, timeoutMs, headers, input, contextValues);
    options.onHeader?.(response.header);
    options.onTrailer?.(response.trailer);
    return response.message;
  };
}

function streamingCall(transport: Transport, method: DescMethodServerStreaming) {
  return (input: MessageInitShape<typeof method.input>, options: Options = {}) => {
    const { signal, timeoutMs, headers, contextValues } = options;
    const opened = transport.stream(method, signal, timeoutMs, headers, only(input), contextValues).then(response => {
      options.onHeader?.(response.header);
      return response.message[Symbol.asyncIterator]();
    });
    // A caller that never reads is not told; one that reads is, by `next`.
    opened.catch(() => undefined);
    return messagesOf(opened);
  };
}

type Messages = AsyncIterator<MessageShape<DescMethodServerStreaming['output']>>;

function messagesOf(
  opened: Promise<Messages>,
): AsyncIterableIterator<MessageShape<DescMethodServerStreaming['output']>> {
  let source: Messages | undefined;
  const messages: AsyncIterableIterator<MessageShape<DescMethodServerStreaming['output']>> = {
    [Symbol.asyncIterator]: () => messages,
    next: () => {
      if (source !== undefined) return source.next();
      return opened.then(found => {
        source = found;
        return found.next();
      });
    },
  };
  return messages;
}

/** A stream of one message. A generator, because a network transport ends its input with `throw`. */
async function* only<T>(message: T): AsyncGenerator<T, void, undefined> {
  yield message;
}
