import { execFile } from 'node:child_process';
import { connect as connectHttp2 } from 'node:http2';
import { connect as connectTcp, type Socket } from 'node:net';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { credentials, loadPackageDefinition, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { GrpcReflection } from 'grpc-js-reflection-client';
import { expect, onTestFinished, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { Health, HealthCheckResponse_ServingStatus as Status } from '../../src/gen/grpc/health/v1/health_pb.ts';
import { ErrorDetailSchema } from '../../src/gen/tollgate/v1/error_pb.ts';
import { GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { type Probe, start, transports, until } from './probe-listener.ts';

const root = resolve(import.meta.dirname, '../..');
const run = promisify(execFile);

async function catchFailure(messages: AsyncIterable<unknown>): Promise<ConnectError> {
  try {
    for await (const _message of messages);
  } catch (thrown) {
    return ConnectError.from(thrown);
  }
  throw new Error('the call succeeded');
}

test('one port answers gRPC, gRPC-Web and Connect over HTTP/2 and HTTP/1.1', async () => {
  const { baseUrl } = await start();
  for (const [name, transport] of Object.entries(transports(baseUrl))) {
    const client = createClient(GenerationService, transport);
    const { inputTokens } = await client.countTokens({ request: { items: [{}, {}, {}] } });
    const replies = await Array.fromAsync(client.generate({ model: 'quick' }));
    expect([name, inputTokens, replies.length]).toEqual([name, 3, 1]);
  }
});

test('an error carries code, field, tip, status and request id as a detail, over every protocol', async () => {
  const { baseUrl } = await start();
  for (const [name, transport] of Object.entries(transports(baseUrl))) {
    const error = await catchFailure(createClient(GenerationService, transport).generate({ model: 'refused' }));
    const [detail] = error.findDetails(ErrorDetailSchema);
    expect([name, error.code, detail?.code, detail?.message, detail?.param, detail?.httpStatus]).toEqual([
      name,
      Code.InvalidArgument,
      'model_not_found',
      'no such model: “refused”',
      'model',
      400,
    ]);
    expect(detail?.tip).toBe('List the models with GET /v1/models and use one of their ids.');
    expect(detail?.requestId).toMatch(/^req_\d+$/);
    expect(error.metadata.get('x-request-id') ?? detail?.requestId).toBe(detail?.requestId);
  }
});

test('an unexpected exception of a service is reported to the observer and not to the caller', async () => {
  const { baseUrl, calls } = await start();
  const error = await catchFailure(
    createClient(GenerationService, createGrpcTransport({ baseUrl })).generate({ model: 'broken' }),
  );
  expect(error.code).toBe(Code.Internal);
  expect(JSON.stringify([error.rawMessage, error.findDetails(ErrorDetailSchema)[0]?.message])).not.toContain('secret');
  expect(calls.map(({ procedure, code }) => [procedure, code])).toEqual([
    ['tollgate.v1.GenerationService/Generate', 'internal'],
  ]);
  expect(calls[0]?.error?.cause).toBeInstanceOf(TypeError);
});

test('a caller can’t set its own request id', async () => {
  const { baseUrl, probe } = await start();
  for (const transport of Object.values(transports(baseUrl))) {
    const headers = { 'x-tollgate-request-id': 'req_forged' };
    await createClient(GenerationService, transport).countTokens({}, { headers });
  }
  expect(probe.seen.map(({ requestHeader }) => requestHeader.get('x-tollgate-request-id'))).toEqual([
    'req_1',
    'req_2',
    'req_3',
    'req_4',
    'req_5',
  ]);
});

test('a deadline reaches the service and the caller, over every protocol', async () => {
  const { baseUrl, probe, calls } = await start();
  for (const [name, transport] of Object.entries(transports(baseUrl))) {
    probe.stopped.length = 0;
    const error = await catchFailure(
      createClient(GenerationService, transport).generate({ model: 'slow' }, { timeoutMs: 150 }),
    );
    expect([name, error.code]).toEqual([name, Code.DeadlineExceeded]);
    await until(() => probe.stopped.length === 1);
  }
  await until(() => calls.length === 5);
  expect(new Set(calls.map(({ code }) => code)).isSubsetOf(new Set(['deadline_exceeded', 'cancelled']))).toBe(true);
});

test('if the caller cancels a call, the service is stopped within a second, over every protocol', async () => {
  const { baseUrl, probe } = await start();
  for (const [name, transport] of Object.entries(transports(baseUrl))) {
    probe.stopped.length = 0;
    const controller = new AbortController();
    const replies = createClient(GenerationService, transport).generate(
      { model: 'slow' },
      { signal: controller.signal },
    );
    const iterator = replies[Symbol.asyncIterator]();
    await iterator.next();
    controller.abort();
    await expect(iterator.next()).rejects.toThrow(/cancel|abort/);
    await until(() => probe.stopped.length === 1, 1_000);
    expect([name, probe.stopped]).toEqual([name, ['cancelled']]);
  }
});

test('a client that does not read pauses the stream, and disconnecting stops the service, over HTTP/1.1 and HTTP/2', async () => {
  const { port, probe } = await start();
  const body = Buffer.concat([Buffer.from([0, 0, 0, 0, 17]), Buffer.from('{"model":"flood"}')]);
  const path = '/tollgate.v1.GenerationService/Generate';
  const plain = connectTcp(port, '127.0.0.1');
  plain.on('error', () => undefined).pause();
  plain.write(
    `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/connect+json\r\ncontent-length: ${body.length}\r\n\r\n`,
  );
  plain.write(body);
  await quiet(probe);
  expect(probe.stopped).toEqual([]);
  plain.destroy();
  await until(() => probe.stopped.length === 1, 1_000);

  const session = connectHttp2(`http://127.0.0.1:${port}`);
  session.on('error', () => undefined);
  const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/connect+json' });
  stream.on('error', () => undefined).end(body);
  await quiet(probe);
  expect(probe.stopped).toEqual(['flood']);
  session.destroy();
  await until(() => probe.stopped.length === 2, 1_000);
});

/** Waits until the flood has begun and the listener has stopped reading from the service. */
async function quiet(probe: Probe): Promise<void> {
  probe.flooded = 0;
  await until(() => probe.flooded > 0);
  for (let before = -1; before !== probe.flooded; await sleep(150)) before = probe.flooded;
  expect(probe.flooded).toBeLessThan(2_000);
}

test('Connect JSON over HTTP/1.1, as curl sends it, is answered, and errors are JSON', async () => {
  const { baseUrl } = await start();
  const post = (body: string) =>
    fetch(`${baseUrl}/tollgate.v1.GenerationService/CountTokens`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
  const good = await post('{"request":{"model":"m","items":[{},{}]}}');
  expect([good.status, await good.json()]).toEqual([200, { inputTokens: 2 }]);
  const bad = await post('{"request":');
  expect([bad.status, ((await bad.json()) as { code: string }).code]).toEqual([400, 'invalid_argument']);
});

interface GrpcClient {
  Generate(
    request: object,
    metadata: Metadata,
    options: object,
  ): AsyncIterable<{ events: { started?: { model: string } }[] }>;
  CountTokens(
    request: object,
    metadata: Metadata,
    done: (error: ServiceError | null, reply: { input_tokens: number }) => void,
  ): void;
  close(): void;
}

test('a grpc-js client with dynamically loaded proto files can call the listener, and gets DEADLINE_EXCEEDED', async () => {
  const { port, probe } = await start();
  const definition = loadSync('tollgate/v1/generation.proto', {
    includeDirs: [resolve(root, 'proto')],
    keepCase: true,
    oneofs: true,
  });
  const loaded = loadPackageDefinition(definition) as never as {
    tollgate: { v1: { GenerationService: new (address: string, channel: unknown) => GrpcClient } };
  };
  const client = new loaded.tollgate.v1.GenerationService(`127.0.0.1:${port}`, credentials.createInsecure());
  try {
    const count = await new Promise((done, failed) => {
      client.CountTokens({ request: { items: [{}] } }, new Metadata(), (error, reply) =>
        error ? failed(error) : done(reply),
      );
    });
    expect(count).toMatchObject({ input_tokens: 1 });
    const failure = await Array.fromAsync(
      client.Generate({ model: 'slow' }, new Metadata(), { deadline: Date.now() + 150 }),
    ).catch((error: unknown) => error as ServiceError);
    expect(failure).toMatchObject({ code: status.DEADLINE_EXCEEDED });
    await until(() => probe.stopped.length === 1);
  } finally {
    client.close();
  }
});

test('buf curl reads the service definitions by reflection and calls a method', async () => {
  const { baseUrl } = await start();
  const call = (protocol: string) =>
    run(resolve(root, 'node_modules/.bin/buf'), [
      'curl',
      '--http2-prior-knowledge',
      `--protocol=${protocol}`,
      '--reflect-protocol=grpc-v1',
      '--data={"request":{"items":[{},{}]}}',
      `${baseUrl}/tollgate.v1.GenerationService/CountTokens`,
    ]);
  for (const protocol of ['grpc', 'grpcweb', 'connect']) {
    const { stdout } = await call(protocol);
    expect([protocol, JSON.parse(stdout)]).toEqual([protocol, { inputTokens: 2 }]);
  }
});

test.each(['v1', 'v1alpha'] as const)(
  'reflection %s lists all services, and returns a file with everything that it imports',
  async version => {
    const { port } = await start();
    const client = new GrpcReflection(`127.0.0.1:${port}`, credentials.createInsecure(), {}, version);
    expect([...(await client.listServices())].sort()).toEqual([
      'grpc.health.v1.Health',
      'grpc.reflection.v1.ServerReflection',
      'grpc.reflection.v1alpha.ServerReflection',
      'tollgate.v1.GenerationService',
    ]);
    const byFile = await client.getDescriptorByFileName('tollgate/v1/generation.proto');
    const root = byFile.getProtobufJsRoot();
    // Names from the file itself, from its imports, and from their imports.
    for (const name of ['CountTokensRequest', 'GenerateRequest', 'Item']) {
      expect(root.lookupType(`tollgate.v1.${name}`).fullName).toBe(`.tollgate.v1.${name}`);
    }
    const methods = await client.listMethods('tollgate.v1.GenerationService');
    expect(methods.map(({ name }) => name)).toEqual(['Generate', 'CountTokens']);
    await expect(client.getDescriptorBySymbol('tollgate.v1.Nothing')).rejects.toThrow(
      'tollgate.v1.Nothing is not known',
    );
  },
);

test('health answers for each service without a credential, and watchers are notified when the process stops', async () => {
  const { baseUrl, listener } = await start({
    gate: async () => {
      throw new GatewayError('invalid_api_key', 'nobody passes');
    },
  });
  const client = createClient(Health, createGrpcTransport({ baseUrl }));
  expect(await client.check({})).toMatchObject({ status: Status.SERVING });
  expect(await client.check({ service: 'tollgate.v1.GenerationService' })).toMatchObject({ status: Status.SERVING });
  await expect(client.check({ service: 'nobody' })).rejects.toMatchObject({ code: Code.NotFound });
  const watch = client.watch({})[Symbol.asyncIterator]();
  expect((await watch.next()).value).toMatchObject({ status: Status.SERVING });
  listener.drain();
  expect((await watch.next()).value).toMatchObject({ status: Status.NOT_SERVING });
  expect((await watch.next()).done).toBe(true);
  expect(await client.check({})).toMatchObject({ status: Status.NOT_SERVING });
});

test('the gate can refuse a call before its body is read', async () => {
  const { port, probe, calls } = await start({
    gate: async () => {
      throw new GatewayError('invalid_api_key', 'An API key is missing.');
    },
  });
  const socket = connectTcp(port, '127.0.0.1');
  socket.write(
    'POST /tollgate.v1.GenerationService/CountTokens HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 60000000\r\n\r\n{',
  );
  const reply = await textUntil(socket, /"details"/);
  expect(reply).toMatch(/^HTTP\/1\.1 401 /);
  expect(probe.seen).toEqual([]);
  expect(calls.map(({ code, requestId }) => [code, requestId])).toEqual([['invalid_api_key', 'req_1']]);
  socket.destroy();
});

test('a message over the limit is refused', async () => {
  const { baseUrl, probe } = await start({ messageBytesMax: 1_000 });
  const client = createClient(GenerationService, createGrpcTransport({ baseUrl }));
  await expect(client.countTokens({ request: { model: 'x'.repeat(2_000) } })).rejects.toMatchObject({
    code: Code.ResourceExhausted,
  });
  expect(probe.seen).toEqual([]);
});

test('liveness, readiness and metrics are plain HTTP without a key, other paths 404', async () => {
  const { baseUrl, listener } = await start({
    metrics: async () => ({ contentType: 'text/plain; version=0.0.4', body: 'up 1\n' }),
  });
  const get = async (path: string) => {
    const response = await fetch(baseUrl + path);
    return [response.status, response.headers.get('content-type'), await response.text()];
  };
  expect(await get('/healthz')).toEqual([200, 'application/json', '{"status":"ok"}']);
  expect(await get('/readyz')).toEqual([200, 'application/json', '{"status":"ready"}']);
  expect(await get('/metrics')).toEqual([200, 'text/plain; version=0.0.4', 'up 1\n']);
  expect((await get('/elsewhere?x=1'))[0]).toBe(404);
  listener.drain();
  expect(await get('/healthz')).toEqual([200, 'application/json', '{"status":"ok"}']);
  expect(await get('/readyz')).toEqual([503, 'application/json', '{"status":"draining"}']);
});

test('plain HTTP pages are served over HTTP/2 too', async () => {
  const { baseUrl } = await start();
  const session = connectHttp2(baseUrl);
  const stream = session.request({ ':path': '/healthz' });
  const chunks = await Array.fromAsync<Buffer>(stream);
  expect(Buffer.concat(chunks).toString()).toBe('{"status":"ok"}');
  session.close();
});

test('while draining, new calls are refused as `overloaded` with a time to retry, and calls in flight may end', async () => {
  const { baseUrl, listener, probe } = await start();
  const client = createClient(GenerationService, createGrpcTransport({ baseUrl }));
  const controller = new AbortController();
  const running = client.generate({ model: 'slow' }, { signal: controller.signal })[Symbol.asyncIterator]();
  await running.next();
  listener.drain();
  const error = await catchFailure(client.generate({ model: 'quick' }));
  const [detail] = error.findDetails(ErrorDetailSchema);
  expect([error.code, detail?.code, detail?.httpStatus, detail?.retryAfterMs]).toEqual([
    Code.Unavailable,
    'overloaded',
    503,
    1_000n,
  ]);
  expect(probe.stopped).toEqual([]);
  controller.abort();
  await expect(running.next()).rejects.toThrow();
});

test('closing ends idle connections at once, and cuts calls that run longer than the grace period', async () => {
  const { baseUrl, listener, probe } = await start();
  await fetch(`${baseUrl}/healthz`).then(response => response.text());
  const idle = connectHttp2(baseUrl);
  await new Promise<void>(done => {
    idle.once('remoteSettings', () => done());
  });
  const client = createClient(GenerationService, createGrpcTransport({ baseUrl }));
  const running = client.generate({ model: 'slow' })[Symbol.asyncIterator]();
  await running.next();
  const beganMs = performance.now();
  const cut = running.next().then(
    () => 'answered',
    () => 'cut',
  );
  await listener.close(300);
  expect(await cut).toBe('cut');
  expect(performance.now() - beganMs).toBeGreaterThan(250);
  expect(performance.now() - beganMs).toBeLessThan(1_500);
  await until(() => probe.stopped.length === 1);
  await expect(fetch(`${baseUrl}/healthz`)).rejects.toThrow();
});

test('closing without calls in flight does not wait for the grace period', async () => {
  const { baseUrl, listener } = await start();
  await fetch(`${baseUrl}/healthz`).then(response => response.text());
  const beganMs = performance.now();
  await listener.close(10_000);
  expect(performance.now() - beganMs).toBeLessThan(1_500);
});

test('the protocol of a connection is detected even if its first bytes arrive one at a time', async () => {
  const { port } = await start();
  const socket = connectTcp({ port, host: '127.0.0.1', noDelay: true });
  for (const byte of 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n') {
    socket.write(byte);
    await sleep(1);
  }
  const settings = await new Promise<Buffer>(done => {
    socket.once('data', done);
  });
  expect(settings[3]).toBe(4); // a SETTINGS frame
  socket.destroy();
  const other = connectTcp({ port, host: '127.0.0.1', noDelay: true });
  for (const byte of 'PROPFIND / HTTP/1.1\r\nhost: x\r\n\r\n') {
    other.write(byte);
    await sleep(1);
  }
  expect(await textUntil(other, /\r\n\r\n/)).toMatch(/^HTTP\/1\.1 404 /);
  other.destroy();
});

test('connections that send nothing, half a preface or nonsense are closed, and the listener continues', async () => {
  const { port, baseUrl } = await start({ connections: { headMs: 200 } });
  const gone = ['', 'PRI * HT', 'POST /x HTTP/1.1\r\nhost'].map(async head => {
    const socket = connectTcp(port, '127.0.0.1');
    if (head !== '') socket.write(head);
    socket.resume();
    await new Promise<void>(done => {
      socket.once('close', () => done());
    });
  });
  const nonsense = connectTcp(port, '127.0.0.1');
  nonsense.write('\0\x01\x02 nonsense\r\n\r\n');
  nonsense.resume();
  await Promise.all([
    ...gone,
    new Promise<void>(done => {
      nonsense.once('close', () => done());
    }),
  ]);
  expect((await fetch(`${baseUrl}/healthz`)).status).toBe(200);
});

test('a request with a missing or invalid Host is refused, and the listener continues', async () => {
  const { port, baseUrl } = await start();
  for (const head of ['HTTP/1.0\r\n', 'HTTP/1.1\r\nhost: [\r\n']) {
    const socket = connectTcp(port, '127.0.0.1');
    socket.write(
      `POST /tollgate.v1.GenerationService/CountTokens ${head}content-type: application/json\r\ncontent-length: 2\r\n\r\n{}`,
    );
    expect(await textUntil(socket, /\r\n\r\n/)).toMatch(/^HTTP\/1\.1 400 /);
    socket.destroy();
  }
  expect((await fetch(`${baseUrl}/healthz`)).status).toBe(200);
});

test('a client that vanishes without closing its connection is detected by missing pongs, and its call is stopped', async () => {
  const { port, baseUrl, probe } = await start({ connections: { pingMs: 100 } });
  // A relay that stops forwarding simulates a network that drops everything.
  const { createServer } = await import('node:net');
  let silent = false;
  const relay = createServer(near => {
    const far = connectTcp(port, '127.0.0.1');
    near.on('data', data => void (silent || far.write(data)));
    far.on('data', data => void (silent || near.write(data)));
    for (const socket of [near, far])
      socket.on('error', () => undefined).on('close', () => void (near.destroy(), far.destroy()));
  });
  await new Promise<void>(done => {
    relay.listen(0, '127.0.0.1', done);
  });
  onTestFinished(() => void relay.close());
  const address = relay.address();
  const relayed = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
  const running = createClient(GenerationService, createGrpcTransport({ baseUrl: relayed })).generate({
    model: 'slow',
  });
  const iterator = running[Symbol.asyncIterator]();
  await iterator.next();
  silent = true;
  await until(() => probe.stopped.length === 1);
  await expect(iterator.next()).rejects.toThrow();
  expect((await fetch(`${baseUrl}/healthz`)).status).toBe(200);
});

async function textUntil(socket: Socket, pattern: RegExp): Promise<string> {
  let text = '';
  socket.on('data', data => (text += data.toString('latin1')));
  await until(() => pattern.test(text));
  return text;
}
