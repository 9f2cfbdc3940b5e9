/** Clients that send many calls at once: ordinary ones, which get all of their answers, and hostile ones, which delay nobody else. */
import { once } from 'node:events';
import { connect as connectHttp2, type ClientHttp2Session } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import { credentials, Metadata, Client as GrpcClient } from '@grpc/grpc-js';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { expect, onTestFinished, test } from 'vitest';
import { GenerationService } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { InProcessTransport } from '../../src/rpc/in-process.ts';
import { RemoteTransport } from '../../src/rpc/remote.ts';
import { attackBytes } from './raw-http2.ts';
import { start, until } from './probe-listener.ts';

const count = '/tollgate.v1.GenerationService/CountTokens';

/** Returns a service whose calls end when `release` is called, and how many of them run. */
function heldService() {
  const seen = { running: 0, total: 0 };
  const { promise, resolve: release } = Promise.withResolvers<void>();
  const countTokens = async () => {
    seen.total += 1;
    seen.running += 1;
    await promise;
    seen.running -= 1;
    return { inputTokens: 7 };
  };
  return { seen, release, services: new InProcessTransport().service(GenerationService, { countTokens } as never) };
}

test('a client of Connect that sends 1,000 calls at once gets all answers', async () => {
  const { seen, release, services } = heldService();
  const { baseUrl } = await start({ services });
  const client = createClient(GenerationService, createGrpcTransport({ baseUrl }));
  const replies = Promise.all(Array.from({ length: 1_000 }, () => client.countTokens({})));
  await until(() => seen.running >= 100);
  release();
  expect((await replies).map(({ inputTokens }) => Number(inputTokens))).toEqual(Array(1_000).fill(7));
});

test('a client of grpc-js that sends 1,000 calls at once gets all answers', async () => {
  const { seen, release, services } = heldService();
  const { port } = await start({ services });
  const client = new GrpcClient(`127.0.0.1:${port}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  const call = () =>
    new Promise<Buffer>((done, failed) => {
      client.makeUnaryRequest(
        count,
        (bytes: Buffer) => bytes,
        (bytes: Buffer) => bytes,
        Buffer.alloc(0),
        new Metadata(),
        (error, reply) => (error === null ? done(reply ?? Buffer.alloc(0)) : failed(error)),
      );
    });
  const replies = Promise.all(Array.from({ length: 1_000 }, call));
  await until(() => seen.running >= 100);
  release();
  expect((await replies).map(bytes => bytes.at(-1))).toEqual(Array(1_000).fill(7));
});

test('an edge in another process has as many connections as its running calls need', async () => {
  const { seen, release, services } = heldService();
  const { baseUrl } = await start({ services });
  const transport = new RemoteTransport({ baseUrl, edgeToken: 'et-x' });
  onTestFinished(() => transport.close());
  const message = { $typeName: 'tollgate.v1.CountTokensRequest' } as const;
  const ask = async () => transport.ask(GenerationService.method.countTokens, message, new Headers());
  const replies = Promise.all(Array.from({ length: 350 }, ask));
  await until(() => seen.running === 350);
  release();
  expect(await replies).toHaveLength(350);
});

test('calls that are cancelled at once hardly ever begin, and those of another connection are answered', async () => {
  let begun = 0;
  const { port, baseUrl } = await start({ nextRequestId: () => `req_${(begun += 1)}` });
  const other = createClient(GenerationService, createGrpcTransport({ baseUrl }));
  await other.countTokens({});
  const sockets = Array.from({ length: 4 }, () => connectTcp(port, '127.0.0.1'));
  let closed = 0;
  for (const socket of sockets) {
    socket
      .on('error', () => undefined)
      .on('data', () => undefined)
      .on('close', () => (closed += 1));
    socket.write(attackBytes(20_000, count));
  }
  for (let round = 0; round < 5; round += 1) expect(await other.countTokens({})).toMatchObject({ inputTokens: 0 });
  await until(() => closed === 4);
  expect(begun).toBeLessThan(200);
});

test('calls that hold back their bodies are limited by credential, and others are answered', async () => {
  const { port, probe } = await start({ newCalls: { bodilessPerCredential: 20, bodilessPerAddress: 30 } });
  const session = (): ClientHttp2Session => {
    const opened = connectHttp2(`http://127.0.0.1:${port}`).on('error', () => undefined);
    onTestFinished(() => opened.destroy());
    return opened;
  };
  /** Returns the statuses of calls with a credential, of which the body is sent or held back. */
  const call = async (calls: number, authorization: string, sends: boolean): Promise<number[]> => {
    const statuses: number[] = [];
    const opened = session();
    const done: Promise<unknown>[] = [];
    for (let each = 0; each < calls; each += 1) {
      const stream = opened.request({
        ':method': 'POST',
        ':path': count,
        'content-type': 'application/proto',
        authorization,
      });
      stream.on('error', () => undefined).on('response', headers => statuses.push(Number(headers[':status'])));
      stream.resume();
      if (sends) done.push(once(stream, 'close'));
      if (sends) stream.end();
    }
    await Promise.all(done);
    return statuses;
  };
  const held = await call(25, 'Bearer a', false);
  await until(() => held.length === 5);
  expect(held).toEqual(Array(5).fill(503));
  expect(await call(5, 'Bearer b', true)).toEqual(Array(5).fill(200));
  const more = await call(15, 'Bearer b', false);
  await until(() => more.length === 5);
  expect(more).toEqual(Array(5).fill(503));
  expect(probe.requests).toHaveLength(5);
});

test('pipelined HTTP/1.1 requests are answered one at a time, in order', async () => {
  const { port } = await start();
  const socket = connectTcp(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  let text = '';
  socket.on('data', bytes => (text += bytes.toString('latin1')));
  socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /nothing HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(2));
  await until(() => text.includes('404'));
  expect(text.match(/HTTP\/1\.1 \d+/g)?.slice(0, 2)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 404']);
});
