import type { DescMessage, DescMethodServerStreaming, DescMethodUnary, MessageShape } from '@bufbuild/protobuf';
import type { HeaderReader, Sink, StreamControl } from '../lib/push.ts';

/**
 * The transport to the core's services: in this process, or in another one. A call fails with an error that
 * `fromConnectError` reads.
 */
export interface PushTransport {
  /** Calls a method that streams its replies. `sink` is not called before this has returned; every failure reaches it through `end`. */
  push<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageShape<I>,
    headers: HeaderReader,
    sink: Sink<MessageShape<O>>,
  ): StreamControl;
  /**
   * Calls a method with one reply, which is returned synchronously if the implementation has it at once. Throws or rejects with the call's
   * error. `signal`: aborted if the caller no longer waits.
   */
  ask<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    headers: HeaderReader,
    signal?: AbortSignal,
  ): MessageShape<O> | Promise<MessageShape<O>>;
}
