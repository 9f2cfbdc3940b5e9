import type { DescMessage, DescMethodServerStreaming, DescMethodUnary, MessageShape } from '@bufbuild/protobuf';
import type { HeaderReader, Sink, StreamControl } from '../lib/push.ts';

/**
 * Calls the core's services, in this process or in another one. Calls fail with errors that `fromConnectError` converts to a `GatewayError`.
 */
export interface PushTransport {
  /** Calls a method that streams its replies, which are pushed into `sink`. `sink` is not called before this has returned. It gets every failure through `end`. */
  push<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageShape<I>,
    headers: HeaderReader,
    sink: Sink<MessageShape<O>>,
  ): StreamControl;
  /**
   * Calls a method with one reply. The reply is returned synchronously if the implementation returns it synchronously. Throws or rejects with the error of the call. `signal` is aborted if the caller no longer waits.
   */
  ask<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    headers: HeaderReader,
    signal?: AbortSignal,
  ): MessageShape<O> | Promise<MessageShape<O>>;
}
