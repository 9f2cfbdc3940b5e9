/** A public listener with a small core of real services in the same process. Each test provides the core's answers. */
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import type { FastifyInstance } from 'fastify';
import { onTestFinished } from 'vitest';
import { createEdge } from '../../src/edge/create-edge.ts';
import type { EdgeOptions } from '../../src/edge/options.ts';
import { GatewayError, type WindowState } from '../../src/errors/gateway-error.ts';
import { CatalogService, type Model, ModelSchema } from '../../src/gen/tollgate/v1/catalog_pb.ts';
import { ItemSchema, PartSchema } from '../../src/gen/tollgate/v1/content_pb.ts';
import { CredentialKind, CredentialService } from '../../src/gen/tollgate/v1/credential_pb.ts';
import {
  type Completed,
  DeltaKind,
  FinishReason,
  type GenerationEvent,
  type Started,
  UsageSchema,
} from '../../src/gen/tollgate/v1/event_pb.ts';
import { type GenerateResponse, GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { Endpoint, type GenerateRequest, ServiceTier } from '../../src/gen/tollgate/v1/request_pb.ts';
import {
  completed,
  delta,
  finished,
  itemClosed,
  itemOpened,
  partClosed,
  partOpened,
  started,
} from '../../src/generation/events.ts';
import { IdSource, publicRequestId, requestIdHeader } from '../../src/lib/ids.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { pump, type Sink, type StreamControl } from '../../src/lib/push.ts';
import { systemRuntime } from '../../src/lib/runtime.ts';
import { toLimitState } from '../../src/rpc/errors.ts';
import { InProcessTransport } from '../../src/rpc/in-process.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { largeMemory } from '../large-memory.ts';
import { ClientAddresses } from '../../src/lib/client-address.ts';

/** A key without request windows. */
export const apiKey = `sk-tg-${'a'.repeat(43)}`;
/** A key whose tightest window is `minuteWindow`. */
export const limitedKey = `sk-tg-${'l'.repeat(43)}`;
export const disabledKey = `sk-tg-${'d'.repeat(43)}`;
export const managementKey = `mk-tg-${'m'.repeat(43)}`;

export const dayWindow: WindowState = {
  limit: 'daily_limit',
  unit: 'requests',
  max: 1000,
  remaining: 900,
  resetAtMs: Date.now() + 21_600_000,
};
export const minuteWindow: WindowState = {
  limit: 'minute_limit',
  unit: 'requests',
  max: 60,
  remaining: 7,
  // A getter, because the test files of a worker share this module for minutes, and the time must be current.
  get resetAtMs() {
    return Date.now() + 3_600_000;
  },
};

/** Generates the core's answer. `signal` aborts when the call is cancelled. */
export type Generate = (
  request: GenerateRequest,
  context: { readonly signal: AbortSignal },
) => AsyncIterable<GenerationEvent[]>;

/** Changes to the default listener. */
export interface ListenerOptions extends Partial<Omit<EdgeOptions, 'transport'>> {
  readonly generate?: Generate;
  /** Pushes the core's answer; replaces `generate`. */
  readonly push?: (sink: Sink<GenerateResponse>) => StreamControl;
  readonly models?: readonly Model[];
  /** An error with which every authentication fails. */
  readonly authenticationFailure?: Error;
}

/** A running listener. */
export interface Listener {
  readonly app: FastifyInstance;
  readonly port: number;
  readonly url: string;
  readonly metrics: Metrics;
  /** The parsed lines of the log. */
  readonly log: Record<string, unknown>[];
  /** The requests that the core received. */
  readonly requests: GenerateRequest[];
  /** The request ids that the core received. */
  readonly requestIds: string[];
}

function makeEvents(text: string, from: Partial<Started>, to: Partial<Completed>): GenerationEvent[] {
  return [...opening(from), ...deltas([text]), ...ending(to)];
}

/** Returns `started` and the events that open a text part. */
export function opening(value: Partial<Omit<Started, '$typeName'>> = {}): GenerationEvent[] {
  const message = { case: 'message', value: { role: 4 } } as const;
  return [
    started({ requestId: 'req_0000000000x', model: 'acme/large', createdAtMs: 1_780_000_000_000n, ...value }),
    itemOpened(0, 0, create(ItemSchema, { content: message })),
    partOpened(0, [0, 0], create(PartSchema, { content: { case: 'text', value: { text: '' } } })),
  ];
}

/** Returns text deltas. */
export function deltas(texts: readonly string[]): GenerationEvent[] {
  return texts.map(text => delta(0, [0, 0], { kind: DeltaKind.TEXT, text }));
}

/** Returns the events that close the part and the answer. */
export function ending(value: Partial<Omit<Completed, '$typeName'>> = {}): GenerationEvent[] {
  return [
    partClosed(0, [0, 0]),
    itemClosed(0, 0),
    finished(0, FinishReason.STOP),
    completed({
      usage: create(UsageSchema, { inputTokens: 12, outputTokens: 3 }),
      costNanoUsd: 24_000n,
      serviceTier: ServiceTier.DEFAULT,
      ...value,
    }),
  ];
}

/** Returns a core that answers `text` in one batch. */
export function answering(text = 'Hello.', from: Partial<Started> = {}, to: Partial<Completed> = {}): Generate {
  return async function* generate() {
    yield makeEvents(text, from, to);
  };
}

/** Returns a core that refuses before the first event. */
export function refusing(error: Error): Generate {
  // oxlint-disable-next-line require-yield -- it fails before it could
  return async function* generate() {
    throw error;
  };
}

/** Starts a listener on a free port; it is closed when the test has ended. */
export async function startListener(options: ListenerOptions = {}): Promise<Listener> {
  const { generate = answering(), push, models = defaultModels, authenticationFailure, ...others } = options;
  const ids = new IdSource(systemClock);
  const log: Record<string, unknown>[] = [];
  const requests: GenerateRequest[] = [];
  const requestIds: string[] = [];
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      log.push(JSON.parse(chunk.toString()));
      done();
    },
  });
  const transport = new InProcessTransport()
    .service(CredentialService, {
      authenticate: ({ limits }, { requestHeader }) => {
        requestIds.push(requestHeader.get(requestIdHeader) ?? '');
        if (authenticationFailure !== undefined) throw authenticationFailure;
        return makeCredential(requestHeader.get('authorization') ?? '', limits);
      },
    })
    .service(CatalogService, {
      listModels: filter => ({
        models: models.filter(
          model => filter.endpoint === Endpoint.UNSPECIFIED || model.endpoints.includes(filter.endpoint),
        ),
      }),
      getModel: ({ id }) => {
        const model = models.find(each => each.id === id);
        if (model === undefined) throw new GatewayError('model_not_found', `No model ${id}.`, { param: 'model' });
        return { model };
      },
    })
    .service(GenerationService, {
      generate: (request, context, sink) => {
        requests.push(request);
        requestIds.push(context.requestHeader.get(requestIdHeader) ?? '');
        if (push !== undefined) return push(sink);
        return pump(signal => messages(generate(request, { signal })), sink);
      },
      countTokens: () => ({ inputTokens: 12 }),
    });
  const metrics = new Metrics('0.0.0');
  const app = createEdge({
    transport,
    nextRequestId: () => publicRequestId(ids.next()),
    runtime: systemRuntime,
    logger: createLogger({ level: 'debug', destination }),
    metrics,
    publicMetrics: false,
    bodyBytesMax: 1_048_576,
    otherBodyBytesMax: 1_048_576,
    fileBytesMax: 1024 ** 2,
    bounds: { depthMax: 512, valuesMax: 100_000, entriesMax: 10_000 },
    memory: largeMemory(),
    parser: { memoryBytesMax: 512 << 20, timeMs: 10_000 },
    unsent: { stallMs: 60_000, bytesMax: 256 << 20 },
    unauthenticatedMax: 256,
    load: { lagMs: 60_000, heapShare: 1 },
    fair: { sliceMs: 10, waitingMax: 1000 },
    keepAliveMs: 15_000,
    strict: false,
    texts: {
      docs: 'https://docs.example/errors#{code}',
      support: 'mailto:help@example.org',
      community: { forum: 'https://forum.example' },
      tips: {},
    },
    corsOrigins: [],
    addresses: new ClientAddresses(() => []),
    draining: () => false,
    ...others,
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => app.close());
  const { port } = app.server.address() as AddressInfo;
  return { app, port, url: `http://127.0.0.1:${port}`, metrics, log, requests, requestIds };
}

async function* messages(batches: AsyncIterable<GenerationEvent[]>): AsyncGenerator<GenerateResponse> {
  for await (const events of batches) yield { $typeName: 'tollgate.v1.GenerateResponse', events };
}

function makeCredential(authorization: string, limits: boolean) {
  const key = authorization.replace('Bearer ', '');
  switch (key) {
    case apiKey:
      return { kind: CredentialKind.API_KEY, accountId: 1n, keyId: 1n };
    case limitedKey:
      return {
        kind: CredentialKind.API_KEY,
        accountId: 1n,
        keyId: 2n,
        limits: limits ? [minuteWindow, dayWindow].map(toLimitState) : [],
      };
    case managementKey:
      return { kind: CredentialKind.MANAGEMENT_KEY, accountId: 1n, keyId: 3n };
    case disabledKey:
      throw new GatewayError('key_disabled', 'Key 4 is disabled.');
    default:
      throw new GatewayError('invalid_api_key', 'The API key is unknown.');
  }
}

/** Two models: the first has every optional field, the second has none. */
export const defaultModels: readonly Model[] = [
  create(ModelSchema, {
    id: 'acme/large',
    name: 'Acme Large',
    description: 'The large one.',
    ownedBy: 'acme',
    createdAt: 1_780_000_000n,
    contextLength: 128_000,
    maxOutputTokens: 8192,
    endpoints: [Endpoint.CHAT_COMPLETIONS, Endpoint.RESPONSES, Endpoint.MESSAGES],
    vision: true,
    functionCall: true,
    serviceTiers: [ServiceTier.DEFAULT, ServiceTier.FLEX, ServiceTier.PRIORITY],
    available: true,
    pricing: {
      inputPicoUsd: 100_000n,
      outputPicoUsd: 4_000_000n,
      caching: { readPicoUsd: 10_000n, write5mPicoUsd: 1_250_001n },
      above: [{ inputTokens: 200_000, inputPicoUsd: 2_000_000n, outputPicoUsd: 8_000_000n }],
    },
  }),
  create(ModelSchema, {
    id: 'acme/image:free',
    name: 'Acme Image',
    ownedBy: 'acme',
    createdAt: 1_780_000_001n,
    endpoints: [Endpoint.IMAGE_GENERATIONS, Endpoint.IMAGE_EDITS],
    pricing: { imageNanoUsd: 42_000_001n },
  }),
];

/** Returns the body of a chat request. */
export function chatBody(more: object = {}): string {
  return JSON.stringify({ model: 'acme/large', messages: [{ role: 'user', content: 'Say hello.' }], ...more });
}

/** An answer, read to its end. */
export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // oxlint-disable-next-line no-explicit-any -- any answer of the listener; tests assert what it must be
  readonly json: any;
}

/** Options of a request. */
export interface Ask {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly key?: string | null;
  readonly body?: string | Buffer;
}

/** Sends a request over a new connection: a POST of JSON if it has a body. `key` null: without a key. */
export function ask(listener: Listener, path: string, how: Ask = {}): Promise<Reply> {
  const { body, key = apiKey, headers = {} } = how;
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({
      port: listener.port,
      path,
      agent: false,
      method: how.method ?? (body === undefined ? 'GET' : 'POST'),
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
    });
    outgoing.on('error', reject).on('response', incoming => {
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject);
      incoming.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const isJson = incoming.headers['content-type']?.startsWith('application/json') === true && text !== '';
        const { statusCode = 0 } = incoming;
        resolve({ status: statusCode, headers: incoming.headers, text, json: isJson ? JSON.parse(text) : undefined });
      });
    });
    outgoing.end(body);
  });
}

/** Sends a chat request. */
export function chat(listener: Listener, more: object = {}, how: Ask = {}): Promise<Reply> {
  return ask(listener, '/v1/chat/completions', { body: chatBody(more), ...how });
}

/** A TCP connection that collects the text that it receives. */
export class Connection {
  readonly socket: Socket;
  text = '';
  closed = false;

  constructor(port: number) {
    this.socket = connect({ port, host: '127.0.0.1' });
    this.socket.on('data', chunk => (this.text += chunk.toString('latin1')));
    this.socket.on('close', () => (this.closed = true)).on('error', () => undefined);
    onTestFinished(() => {
      this.socket.destroy();
    });
  }

  send(text: string): void {
    this.socket.write(text);
  }

  /** Waits until the received text matches; returns all of it. */
  async until(pattern: RegExp): Promise<string> {
    await eventually(
      () => pattern.test(this.text),
      () => `${pattern} in ${JSON.stringify(this.text.slice(-500))}`,
    );
    return this.text;
  }
}

/** Returns a chat request as the text of an HTTP message. */
export function rawChat(more: object = {}, headers: readonly string[] = []): string {
  const body = chatBody(more);
  return [
    'POST /v1/chat/completions HTTP/1.1',
    'host: gateway',
    `authorization: Bearer ${apiKey}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    ...headers,
    '',
    body,
  ].join('\r\n');
}

/** Waits until a condition holds; fails after fifteen seconds, and says which condition (`what`). */
export async function eventually(condition: () => boolean, what: () => string = () => 'the condition'): Promise<void> {
  for (const end = performance.now() + 15_000; performance.now() < end; await sleep(5)) {
    if (condition()) return;
  }
  throw new Error(`not within fifteen seconds: ${what()}`);
}
