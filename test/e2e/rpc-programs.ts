/** Programs that call the internal listener, each with another implementation of its protocol. */
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { fromBinary, fromJson, type JsonObject, toJson } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { Code, ConnectError, createClient, type Transport } from '@connectrpc/connect';
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import {
  type ClientReadableStream,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { type ErrorDetail, ErrorDetailSchema } from '../../src/gen/tollgate/v1/error_pb.ts';
import { GenerateResponseSchema, GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { GenerateRequestSchema } from '../../src/gen/tollgate/v1/request_pb.ts';
import type { Gateway } from '../gateway.ts';

const root = resolve(import.meta.dirname, '../..');
const path = 'tollgate.v1.GenerationService/Generate';

/** A call of Generate. */
export interface Call {
  /** The request, as protobuf's JSON. */
  readonly request: JsonObject;
  /** Headers or metadata: the credential, and others. */
  readonly headers: Readonly<Record<string, string>>;
  readonly deadlineMs?: number;
  /** Its abort kills the program. */
  readonly signal?: AbortSignal;
}

/** The outcome of a call. */
export interface Called {
  /** Text deltas, joined. */
  readonly text: string;
  /** Whether `completed` was the last event. */
  readonly completed: boolean;
  /** The request id in the answer's header; undefined if the program does not show headers. */
  readonly requestId: string | undefined;
  /** The RPC code in lower case; `ok` if there was no error, `left` if its signal ended the program. */
  readonly code: string;
  readonly detail: ErrorDetail | undefined;
}

/** A program that can call Generate. */
export interface Program {
  readonly name: string;
  /** Whether it can set a deadline. */
  readonly sendsDeadline: boolean;
  call(gateway: Gateway, call: Call): Promise<Called>;
}

interface Event {
  readonly delta?: { readonly text?: string };
  readonly completed?: object;
}

/** Reads the text and the end from replies in JSON. */
function read(replies: readonly { readonly events?: readonly Event[] }[]): Pick<Called, 'text' | 'completed'> {
  const events = replies.flatMap(reply => reply.events ?? []);
  return {
    text: events.map(({ delta }) => delta?.text ?? '').join(''),
    completed: events.at(-1)?.completed !== undefined,
  };
}

const snake = (name: string): string => name.replaceAll(/(?<=[a-z])(?=[A-Z])/g, '_').toLowerCase();

function connectProgram(name: string, makeTransport: (baseUrl: string) => Transport): Program {
  const transports = new Map<string, Transport>();
  return {
    name,
    sendsDeadline: true,
    call: async ({ rpcUrl }, { request, headers, deadlineMs, signal }) => {
      const transport = transports.get(rpcUrl) ?? makeTransport(rpcUrl);
      transports.set(rpcUrl, transport);
      let requestId: string | undefined;
      const replies: object[] = [];
      const answer = (code: string, detail?: ErrorDetail): Called => ({ ...read(replies), requestId, code, detail });
      try {
        const stream = createClient(GenerationService, transport).generate(fromJson(GenerateRequestSchema, request), {
          headers,
          onHeader: sent => (requestId = sent.get('x-request-id') ?? undefined),
          ...(deadlineMs === undefined ? {} : { timeoutMs: deadlineMs }),
          ...(signal === undefined ? {} : { signal }),
        });
        for await (const reply of stream) replies.push(toJson(GenerateResponseSchema, reply) as object);
        return answer('ok');
      } catch (thrown) {
        const error = ConnectError.from(thrown);
        requestId ??= error.metadata.get('x-request-id') ?? undefined;
        if (signal?.aborted === true) return answer('left');
        return answer(snake(Code[error.code]), error.findDetails(ErrorDetailSchema)[0]);
      }
    },
  };
}

interface GrpcClient {
  Generate(request: object, metadata: Metadata, options: object): ClientReadableStream<{ events: Event[] }>;
  close(): void;
}

/** Returns a client of grpc-js, made from only the proto files. */
function grpcClient({ rpcUrl }: Pick<Gateway, 'rpcUrl'>): GrpcClient {
  const definition = loadSync('tollgate/v1/generation.proto', {
    includeDirs: [resolve(root, 'proto')],
    keepCase: true,
    oneofs: true,
    enums: String,
  });
  const loaded = loadPackageDefinition(definition) as never as {
    tollgate: { v1: { GenerationService: new (address: string, channel: unknown) => GrpcClient } };
  };
  return new loaded.tollgate.v1.GenerationService(new URL(rpcUrl).host, credentials.createInsecure());
}

/** Returns the error detail in a `google.rpc.Status`, in which gRPC carries it: field 3 has `Any` messages with `type_url` and `value`. */
function detailInStatus(bytes: Uint8Array): ErrorDetail | undefined {
  for (const any of splitFields(bytes, 3)) {
    const [type] = splitFields(any, 1);
    const [value] = splitFields(any, 2);
    if (type === undefined || value === undefined) continue;
    if (Buffer.from(type).toString().endsWith('/tollgate.v1.ErrorDetail')) return fromBinary(ErrorDetailSchema, value);
  }
  return undefined;
}

function splitFields(bytes: Uint8Array, wanted: number): Uint8Array[] {
  const found: Uint8Array[] = [];
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (field === wanted && type === WireType.LengthDelimited) found.push(reader.bytes());
    else reader.skip(type);
  }
  return found;
}

const grpcJs: Program = {
  name: 'grpc-js',
  sendsDeadline: true,
  call: async (gateway, { request, headers, deadlineMs, signal }) => {
    const client = grpcClient(gateway);
    const metadata = new Metadata();
    for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
    const stream = client.Generate(
      request,
      metadata,
      deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs },
    );
    signal?.addEventListener('abort', () => stream.cancel());
    let requestId: string | undefined;
    stream.on('metadata', (sent: Metadata) => (requestId = sent.get('x-request-id')[0]?.toString()));
    const replies: { events: Event[] }[] = [];
    const answer = (code: string, detail?: ErrorDetail): Called => ({ ...read(replies), requestId, code, detail });
    try {
      for await (const reply of stream) replies.push(reply as { events: Event[] });
      return answer('ok');
    } catch (thrown) {
      const { code, metadata: trailers } = thrown as ServiceError;
      if (signal?.aborted === true) return answer('left');
      const [details] = trailers.get('grpc-status-details-bin');
      return answer(snake(status[code]), details === undefined ? undefined : detailInStatus(Buffer.from(details)));
    } finally {
      client.close();
    }
  },
};

/** Runs a program to its end, and returns its output; `signal` kills it. */
async function output(
  command: readonly [string, ...string[]],
  stdin: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<{ stdout: Buffer; stderr: string }> {
  const [program, ...args] = command;
  // The process gets its own group, because `buf` is a script that starts the program, and both must end.
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  signal?.addEventListener('abort', () => {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  });
  const parts: Buffer[] = [];
  let stderr = '';
  child.stdout.on('data', (bytes: Buffer) => parts.push(bytes));
  child.stderr.on('data', (bytes: Buffer) => (stderr += bytes.toString()));
  child.stdin.on('error', () => undefined);
  child.stdin.end(stdin);
  await new Promise((done, failed) => {
    child.once('close', done);
    child.once('error', failed);
  });
  return { stdout: Buffer.concat(parts), stderr };
}

/** Splits the output of `buf curl` into its JSON values: each is pretty-printed and ends with a brace at the start of a line. */
function jsonValues(text: string): object[] {
  return text
    .split(/(?<=^\})$/m)
    .filter(value => value.trim().endsWith('}'))
    .map(value => JSON.parse(value) as object);
}

/** Returns `buf curl`, which reads the service definitions by reflection. */
function bufCurl(protocol: 'grpc' | 'grpcweb' | 'connect'): Program {
  return {
    name: `buf curl, ${protocol}`,
    sendsDeadline: false,
    call: async ({ rpcUrl }, { request, headers, signal }) => {
      const named = Object.entries(headers).map(([name, value]) => `--header=${name}: ${value}`);
      const { stdout, stderr } = await output(
        [
          resolve(root, 'node_modules/.bin/buf'),
          'curl',
          '--http2-prior-knowledge',
          `--protocol=${protocol}`,
          ...named,
          `--data=${JSON.stringify(request)}`,
          `${rpcUrl}/${path}`,
        ],
        Buffer.alloc(0),
        signal,
      );
      const answer = { ...read(jsonValues(stdout.toString())), requestId: undefined };
      if (signal?.aborted === true) return { ...answer, code: 'left', detail: undefined };
      const error = jsonValues(stderr)[0] as JsonError | undefined;
      if (error === undefined) return { ...answer, code: 'ok', detail: undefined };
      return { ...answer, code: error.code, detail: detailIn(error) };
    },
  };
}

/** An error in Connect's JSON; `buf curl` prints this form for every protocol. */
interface JsonError {
  readonly code: string;
  readonly message?: string;
  readonly details?: readonly { readonly type: string; readonly value: string }[];
}

function detailIn({ details }: JsonError): ErrorDetail | undefined {
  const found = details?.find(({ type }) => type === 'tollgate.v1.ErrorDetail');
  return found === undefined ? undefined : fromBinary(ErrorDetailSchema, Buffer.from(found.value, 'base64'));
}

/** Encodes a message as Connect streams it: a byte of flags, the length, the JSON. */
function enveloped(message: JsonObject): Buffer {
  const json = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(json.length, 1);
  return Buffer.concat([head, json]);
}

interface Frames {
  readonly replies: { readonly events?: readonly Event[] }[];
  /** The frame that ends the stream; undefined if it did not come. */
  readonly end: { readonly error?: JsonError } | undefined;
}

function framesIn(body: Buffer): Frames {
  const frames: { replies: { readonly events?: readonly Event[] }[]; end: Frames['end'] } = {
    replies: [],
    end: undefined,
  };
  for (let at = 0; at + 5 <= body.length;) {
    const from = at + 5;
    const next = from + body.readUInt32BE(at + 1);
    if (next > body.length) break;
    const value = JSON.parse(body.subarray(from, next).toString()) as object;
    if (((body[at] ?? 0) & 2) === 2) frames.end = value;
    else frames.replies.push(value);
    at = next;
  }
  return frames;
}

/** `curl`, with Connect's JSON over HTTP/1.1. */
const curl: Program = {
  name: 'curl, Connect JSON',
  sendsDeadline: true,
  call: async ({ rpcUrl }, { request, headers, deadlineMs, signal }) => {
    const all = {
      ...headers,
      'content-type': 'application/connect+json',
      'connect-protocol-version': '1',
      ...(deadlineMs === undefined ? {} : { 'connect-timeout-ms': `${deadlineMs}` }),
    };
    const named = Object.entries(all).map(([name, value]) => `-H${name}: ${value}`);
    const { stdout } = await output(
      ['curl', '--http1.1', '-sSNi', ...named, '--data-binary', '@-', `${rpcUrl}/${path}`],
      enveloped(request),
      signal,
    );
    const split = stdout.indexOf('\r\n\r\n');
    const requestId = /^x-request-id: (.*)\r$/im.exec(stdout.subarray(0, split + 2).toString())?.[1];
    const { replies, end } = framesIn(stdout.subarray(split + 4));
    const answer = { ...read(replies), requestId };
    if (signal?.aborted === true) return { ...answer, code: 'left', detail: undefined };
    if (end?.error === undefined) return { ...answer, code: end === undefined ? 'cut' : 'ok', detail: undefined };
    return { ...answer, code: end.error.code, detail: detailIn(end.error) };
  },
};

/** All programs. */
export const programs: readonly Program[] = [
  grpcJs,
  connectProgram('Connect client, gRPC', baseUrl => createGrpcTransport({ baseUrl })),
  connectProgram('Connect client, gRPC-Web over HTTP/1.1', baseUrl =>
    createGrpcWebTransport({ baseUrl, httpVersion: '1.1' }),
  ),
  connectProgram('Connect client, gRPC-Web over HTTP/2', baseUrl =>
    createGrpcWebTransport({ baseUrl, httpVersion: '2' }),
  ),
  connectProgram('Connect client, Connect over HTTP/1.1', baseUrl =>
    createConnectTransport({ baseUrl, httpVersion: '1.1' }),
  ),
  connectProgram('Connect client, Connect over HTTP/2', baseUrl =>
    createConnectTransport({ baseUrl, httpVersion: '2', useBinaryFormat: false }),
  ),
  bufCurl('grpc'),
  bufCurl('grpcweb'),
  bufCurl('connect'),
  curl,
];
