import {
  type DescMethod,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type DescService,
  fromBinary,
  type Message,
  toBinary,
} from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import {
  accountIdHeader,
  actsForHeader,
  apiKeyIdHeader,
  clientAddressHeader,
  dashboardListenerHeader,
  fingerprintHeader,
  idempotencyKeyHeader,
} from '../lib/call-headers.ts';
import { requestIdHeader } from '../lib/ids.ts';
import type { HeaderReader, Sink, StreamControl } from '../lib/push.ts';
import type { CallPort } from '../lib/threads/call-port.ts';
import { type NetworkCall, networkCall } from './network-call.ts';
import { readError, writeError } from './port-errors.ts';
import type { PushTransport } from './push-transport.ts';

/**
 * Calls services in another thread: messages are sent in their binary form, as over the network, but the caller is trusted.
 *
 * A service may hold memory until the answer of a call was sent, or until nobody waits for it. Then it sends `rpc.hold`, and the calling thread, which knows the client, sends `rpc.over` at that time. Other calls cost no such messages.
 */

/** The headers of a call that the core reads. */
const forwarded = [
  'authorization',
  'x-api-key',
  requestIdHeader,
  idempotencyKeyHeader,
  fingerprintHeader,
  clientAddressHeader,
  accountIdHeader,
  actsForHeader,
  apiKeyIdHeader,
  dashboardListenerHeader,
];

/** The receivers of running streams, by the stream's number. */
type Streams = Map<number, { message(bytes: Uint8Array): void; end(error: Error | undefined, isHeld: boolean): void }>;

/** A call that has no reply yet. */
interface OpenCall {
  readonly headers: HeaderReader;
  /** Whether the service holds memory until the call's reply arrives, because nobody knows when the answer is sent. */
  isHeld: boolean;
}

/** Calls the services of the thread at the other end of a port. */
export class PortTransport implements PushTransport {
  readonly #port: CallPort;
  readonly #streams: Streams = new Map();
  /** The calls that have no reply yet, by their numbers. */
  readonly #open = new Map<number, OpenCall>();
  /** The calls for which the service holds memory. */
  readonly #watched = new Set<number>();
  #last = 0;

  constructor(port: CallPort) {
    this.#port = port;
  }

  readonly ask: PushTransport['ask'] = async (method, request, headers) => {
    const input = toBinary(method.input, request);
    const number = this.#begin(headers);
    const call = [number, method.parent.typeName, method.name, input, writeHeaders(headers)];
    let isHeld = false;
    try {
      const [reply, holds] = await this.#port.call<Reply>('rpc.ask', ...call);
      isHeld = holds;
      return fromBinary(method.output, reply);
    } finally {
      this.#end(number, isHeld);
    }
  };

  readonly push: PushTransport['push'] = (method, request, headers, sink) => {
    const stream = this.#begin(headers);
    this.#streams.set(stream, {
      message: bytes => sink.message(fromBinary(method.output, bytes)),
      end: (error, isHeld) => {
        this.#end(stream, isHeld);
        sink.end(error);
      },
    });
    const input = toBinary(method.input, request);
    this.#port.notify('rpc.push', stream, method.parent.typeName, method.name, input, writeHeaders(headers));
    const control = (what: keyof StreamControl) => (): void => this.#port.notify('rpc.control', stream, what);
    return { cancel: control('cancel'), pause: control('pause'), resume: control('resume') };
  };

  #begin(headers: HeaderReader): number {
    this.#last += 1;
    this.#open.set(this.#last, { headers, isHeld: false });
    return this.#last;
  }

  /** Ends a call whose reply has arrived. `isHeld`: the service holds memory for it. */
  #end(number: number, isHeld: boolean): void {
    const call = this.#open.get(number);
    // The reply may arrive before the message `rpc.hold` is handled.
    if (isHeld) this.#hold(number);
    this.#open.delete(number);
    // If nobody knows when the answer was sent, it is over now.
    if (call?.isHeld === true) this.#over(number);
  }

  /** The service holds memory for a call: tells it when the call is over. */
  #hold(number: number): void {
    if (this.#watched.has(number)) return;
    const call = this.#open.get(number);
    if (call === undefined) return this.#over(number);
    this.#watched.add(number);
    call.isHeld = !(call.headers.onOver?.(() => this.#over(number)) ?? false);
  }

  #over(number: number): void {
    this.#watched.delete(number);
    this.#port.notify('rpc.over', number);
  }

  /** Handles a message from the other end if it belongs to a call. Returns whether it did. */
  take(name: string, [id, value, isHeld]: readonly unknown[]): boolean {
    if (name === 'rpc.hold') {
      this.#hold(Number(id));
      return true;
    }
    if (name !== 'rpc.message' && name !== 'rpc.end') return false;
    const stream = this.#streams.get(Number(id));
    if (name === 'rpc.message') {
      stream?.message(value as Uint8Array);
      return true;
    }
    this.#streams.delete(Number(id));
    stream?.end(value === undefined ? undefined : readError(value), isHeld === true);
    return true;
  }
}

/** Serves the calls that a `PortTransport` sends to this thread. */
export class PortCalls {
  readonly #transport: PushTransport;
  readonly #unary = new Map<string, DescMethodUnary>();
  readonly #streaming = new Map<string, DescMethodServerStreaming>();
  readonly #tell: CallPort['notify'];
  readonly #streams = new Map<number, StreamControl>();
  /** The calls for which a service holds memory. */
  readonly #held = new Map<number, NetworkCall>();

  /** `tell` sends a message to the thread that made the calls. */
  constructor(transport: PushTransport, services: readonly DescService[], tell: CallPort['notify']) {
    this.#transport = transport;
    this.#tell = tell;
    for (const method of services.flatMap(service => service.methods)) {
      const name = `${method.parent.typeName}/${method.name}`;
      if (isUnary(method)) this.#unary.set(name, method);
      if (isStreaming(method)) this.#streaming.set(name, method);
    }
  }

  /** Handles a message. Returns the reply; undefined if the message has none, or does not come from a `PortTransport`. */
  answer(name: string, args: readonly unknown[]): Promise<Reply> | undefined {
    if (name === 'rpc.ask') return this.#ask(args);
    if (name === 'rpc.push') this.#push(args);
    if (name === 'rpc.control') {
      const [stream, what] = args as [number, keyof StreamControl];
      this.#streams.get(stream)?.[what]();
    }
    if (name === 'rpc.over') this.#over(Number(args[0]));
    return undefined;
  }

  /** Cancels all streams, and ends all calls. Called if the calling thread is gone. */
  end(): void {
    for (const control of this.#streams.values()) control.cancel();
    for (const number of this.#held.keys()) this.#over(number);
  }

  #over(number: number): void {
    this.#held.get(number)?.over();
    this.#held.delete(number);
  }

  /** Returns the headers of a call, which tell services when it is over. */
  #readHeaders(number: number, written: WrittenHeaders): HeaderReader {
    const call = networkCall(new Headers(written as [string, string][]));
    return call.watch(() => {
      this.#held.set(number, call);
      this.#tell('rpc.hold', number);
    });
  }

  async #ask(args: readonly unknown[]): Promise<Reply> {
    const [number, service, name, input, headers] = args as CallArguments;
    const method = this.#unary.get(`${service}/${name}`);
    if (method === undefined) throw notOffered(service, name);
    const call = this.#readHeaders(number, headers);
    const reply = await this.#transport.ask(method, fromBinary(method.input, input), call);
    return [toBinary(method.output, reply), this.#held.has(number)];
  }

  #push(args: readonly unknown[]): void {
    const [stream, service, name, input, headers] = args as CallArguments;
    const method = this.#streaming.get(`${service}/${name}`);
    if (method === undefined) return this.#tell('rpc.end', stream, writeError(notOffered(service, name)));
    const { output } = method;
    const sink: Sink<Message> = {
      message: message => this.#tell('rpc.message', stream, toBinary(output, message)),
      end: error => {
        this.#streams.delete(stream);
        this.#tell('rpc.end', stream, error === undefined ? undefined : writeError(error), this.#held.has(stream));
      },
    };
    this.#streams.set(
      stream,
      this.#transport.push(method, fromBinary(method.input, input), this.#readHeaders(stream, headers), sink),
    );
  }
}

function isUnary(method: DescMethod): method is DescMethodUnary {
  return method.methodKind === 'unary';
}

function isStreaming(method: DescMethod): method is DescMethodServerStreaming {
  return method.methodKind === 'server_streaming';
}

function notOffered(service: string, name: string): ConnectError {
  return new ConnectError(`${service}.${name} is not offered`, Code.Unimplemented);
}

/** The reply of a call, and whether the service holds memory for it. */
type Reply = readonly [message: Uint8Array, isHeld: boolean];
type WrittenHeaders = readonly [name: string, value: string][];
type CallArguments = [number: number, service: string, name: string, input: Uint8Array, headers: WrittenHeaders];

function writeHeaders(headers: HeaderReader): WrittenHeaders {
  return forwarded.flatMap((name): [string, string][] => {
    const value = headers.get(name);
    return value === null ? [] : [[name, value]];
  });
}

/** Calls each method through the transport that `pick` returns for it. */
export class RoutedTransport implements PushTransport {
  readonly #pick: (method: DescMethod, request: unknown) => PushTransport;

  constructor(pick: (method: DescMethod, request: unknown) => PushTransport) {
    this.#pick = pick;
  }

  readonly ask: PushTransport['ask'] = (method, request, headers, signal) =>
    this.#pick(method, request).ask(method, request, headers, signal);

  readonly push: PushTransport['push'] = (method, request, headers, sink) =>
    this.#pick(method, request).push(method, request, headers, sink);
}
