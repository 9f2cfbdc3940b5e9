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
import { networkCall } from './network-call.ts';
import { readError, writeError } from './port-errors.ts';
import type { PushTransport } from './push-transport.ts';

/** Calls services in another thread: messages are sent in their binary form, as over the network, but the caller is trusted. */

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
type Streams = Map<number, { message(bytes: Uint8Array): void; end(error: Error | undefined): void }>;

/** Calls the services of the thread at the other end of a port. */
export class PortTransport implements PushTransport {
  readonly #port: CallPort;
  readonly #streams: Streams = new Map();
  #lastStream = 0;

  constructor(port: CallPort) {
    this.#port = port;
  }

  readonly ask: PushTransport['ask'] = async (method, request, headers) => {
    const input = toBinary(method.input, request);
    const call = [method.parent.typeName, method.name, input, writeHeaders(headers)];
    return fromBinary(method.output, await this.#port.call<Uint8Array>('rpc.ask', ...call));
  };

  readonly push: PushTransport['push'] = (method, request, headers, sink) => {
    this.#lastStream += 1;
    const stream = this.#lastStream;
    this.#streams.set(stream, {
      message: bytes => sink.message(fromBinary(method.output, bytes)),
      end: error => sink.end(error),
    });
    const input = toBinary(method.input, request);
    this.#port.notify('rpc.push', stream, method.parent.typeName, method.name, input, writeHeaders(headers));
    const control = (what: keyof StreamControl) => (): void => this.#port.notify('rpc.control', stream, what);
    return { cancel: control('cancel'), pause: control('pause'), resume: control('resume') };
  };

  /** Handles a message from the other end if it belongs to a stream. Returns whether it did. */
  take(name: string, [id, value]: readonly unknown[]): boolean {
    if (name !== 'rpc.message' && name !== 'rpc.end') return false;
    const stream = this.#streams.get(Number(id));
    if (name === 'rpc.message') {
      stream?.message(value as Uint8Array);
      return true;
    }
    this.#streams.delete(Number(id));
    stream?.end(value === undefined ? undefined : readError(value));
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
  answer(name: string, args: readonly unknown[]): Promise<Uint8Array> | undefined {
    if (name === 'rpc.ask') return this.#ask(args);
    if (name === 'rpc.push') this.#push(args);
    if (name === 'rpc.control') {
      const [stream, what] = args as [number, keyof StreamControl];
      this.#streams.get(stream)?.[what]();
    }
    return undefined;
  }

  /** Cancels all streams. Called if the calling thread is gone. */
  end(): void {
    for (const control of this.#streams.values()) control.cancel();
  }

  async #ask(args: readonly unknown[]): Promise<Uint8Array> {
    const [service, name, input, headers] = args as [string, string, Uint8Array, WrittenHeaders];
    const method = this.#unary.get(`${service}/${name}`);
    if (method === undefined) throw notOffered(service, name);
    const reply = await this.#transport.ask(method, fromBinary(method.input, input), readHeaders(headers));
    return toBinary(method.output, reply);
  }

  #push(args: readonly unknown[]): void {
    const [stream, service, name, input, headers] = args as [number, string, string, Uint8Array, WrittenHeaders];
    const method = this.#streaming.get(`${service}/${name}`);
    if (method === undefined) return this.#tell('rpc.end', stream, writeError(notOffered(service, name)));
    const { output } = method;
    const sink: Sink<Message> = {
      message: message => this.#tell('rpc.message', stream, toBinary(output, message)),
      end: error => {
        this.#streams.delete(stream);
        this.#tell('rpc.end', stream, error === undefined ? undefined : writeError(error));
      },
    };
    this.#streams.set(
      stream,
      this.#transport.push(method, fromBinary(method.input, input), readHeaders(headers), sink),
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

type WrittenHeaders = readonly [name: string, value: string][];

function writeHeaders(headers: HeaderReader): WrittenHeaders {
  return forwarded.flatMap((name): [string, string][] => {
    const value = headers.get(name);
    return value === null ? [] : [[name, value]];
  });
}

function readHeaders(written: WrittenHeaders): HeaderReader {
  return networkCall(new Headers(written as [string, string][]));
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
