import type {
  DescMethod,
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  MessageInitShape,
  MessageShape,
} from '@bufbuild/protobuf';
import type { HeaderReader, Sink, StreamControl } from './push.ts';

/** A call, as a service sees it. */
export interface CallContext {
  readonly requestHeader: HeaderReader;
  readonly service: DescService;
  readonly method: DescMethod;
}

/** A call with one reply, as a service sees it. */
export interface UnaryContext extends CallContext {
  /** Aborted if the caller does not wait any more. */
  readonly signal: AbortSignal;
}

/**
 * An implementation of a service. A method with one reply returns the reply or throws an error, directly or through a promise. A method that streams
 * pushes its replies into `sink`; it must not throw, and must not call `sink` before it has returned.
 */
export type PushedService<S extends DescService> = {
  readonly [Name in keyof S['method']]: S['method'][Name] extends DescMethodUnary<infer I, infer O>
    ? (request: MessageShape<I>, context: UnaryContext) => MessageInitShape<O> | Promise<MessageInitShape<O>>
    : S['method'][Name] extends DescMethodServerStreaming<infer I, infer O>
      ? (request: MessageShape<I>, context: CallContext, sink: Sink<MessageShape<O>>) => StreamControl
      : never;
};
