import {
  create,
  type DescMessage,
  type DescMethod,
  type DescService,
  isMessage,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import type { Sink, StreamControl } from '../lib/push.ts';
import type { CallContext, PushedService, UnaryContext } from '../lib/pushed-service.ts';
import type { PushTransport } from './push-transport.ts';

type UnaryCall<O extends DescMessage> = (
  request: unknown,
  context: UnaryContext,
) => MessageInitShape<O> | Promise<MessageInitShape<O>>;
type StreamingCall = (request: unknown, context: CallContext, sink: Sink<never>) => StreamControl;

const neverAborted = new AbortController().signal;
const nothing = (): void => undefined;
const endedCall: StreamControl = { cancel: nothing, pause: nothing, resume: nothing };

/** Calls the services of this process. A call is a function call; messages and errors are passed unchanged. */
export class InProcessTransport implements PushTransport {
  /** The services that are offered. */
  readonly services: DescService[] = [];
  readonly #methods = new Map<DescMethod, unknown>();

  /** Adds a service. */
  service<S extends DescService>(service: S, implementation: PushedService<S>): this {
    this.services.push(service);
    for (const method of service.methods) {
      this.#methods.set(method, implementation[method.localName as keyof S['method']]);
    }
    return this;
  }

  readonly push: PushTransport['push'] = (method, request, headers, sink) => {
    const call = this.#methods.get(method) as StreamingCall | undefined;
    if (call !== undefined) return call(request, { requestHeader: headers, service: method.parent, method }, sink);
    queueMicrotask(() => sink.end(notOffered(method)));
    return endedCall;
  };

  readonly ask: PushTransport['ask'] = (method, request, headers, signal = neverAborted) => {
    const call = this.#methods.get(method) as UnaryCall<typeof method.output> | undefined;
    if (call === undefined) throw notOffered(method);
    const reply = call(request, { requestHeader: headers, service: method.parent, method, signal });
    return reply instanceof Promise
      ? reply.then(message => toMessage(method.output, message))
      : toMessage(method.output, reply);
  };
}

function notOffered({ parent, name }: DescMethod): ConnectError {
  return new ConnectError(`${parent.typeName}.${name} is not offered`, Code.Unimplemented);
}

/** Returns `init` if it is a message; otherwise creates a message from it. */
export function toMessage<D extends DescMessage>(desc: D, init: MessageInitShape<D>): MessageShape<D> {
  return isMessage(init, desc) ? init : create(desc, init);
}
