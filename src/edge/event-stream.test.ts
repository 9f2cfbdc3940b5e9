import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { Disconnect } from './client-gone.ts';
import { EventStream } from './event-stream.ts';

/** A response on a real connection, the client's socket beside it. */
async function open(keepAliveMs: number) {
  const { promise, resolve } = Promise.withResolvers<ServerResponse>();
  const server = createServer((_request, response) => resolve(response));
  await new Promise<void>(listening => {
    server.listen(0, '127.0.0.1', listening);
  });
  const client: Socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  onTestFinished(() => {
    client.destroy();
    server.close();
  });
  client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
  const response = await promise;
  const disconnect = new Disconnect(response.req.socket);
  const stream = new EventStream(response, {
    keepAlive: ': k\n',
    keepAliveMs,
    client: disconnect,
    earlyHeaders: () => Promise.resolve({ 'x-early': '1' }),
    lastAnswer: () => false,
  });
  return { stream, client, response, disconnect };
}

async function textOf(client: Socket): Promise<string> {
  let text = '';
  for await (const chunk of client) {
    text += String(chunk);
    if (text.endsWith('0\r\n\r\n')) break;
  }
  return text;
}

test('a write that the client takes at once needs no waiting; one that it does not take resolves when it does', async () => {
  const { stream, client } = await open(60_000);
  client.pause();
  stream.begin({});
  expect(stream.write('data: 1\n\n')).toBeUndefined();
  let taken: Promise<void> | undefined;
  while (taken === undefined) taken = stream.write('x'.repeat(30_000_000));
  const first = await Promise.race([taken.then(() => 'taken'), sleep(50, 'waiting')]);
  expect(first).toBe('waiting');
  client.resume();
  await taken;
  stream.end('');
});

test('while the client does not read, no keep-alive is added', async () => {
  const { stream, client, response } = await open(10);
  client.pause();
  stream.begin({});
  while (stream.write('x'.repeat(30_000_000)) === undefined);
  const kept = response.writableLength;
  await sleep(60);
  expect(response.writableLength).toBe(kept);
});

test('a wait for the client ends when it goes away, and nothing is written after', async () => {
  const { stream, client, disconnect } = await open(60_000);
  client.pause();
  stream.begin({});
  let taken: Promise<void> | undefined;
  while (taken === undefined) taken = stream.write('x'.repeat(30_000_000));
  client.destroy();
  await taken;
  expect(disconnect.gone).toBe(true);
  expect(stream.write('more')).toBeUndefined();
  stream.end('end');
});

test('nothing follows the end: no keep-alive, no second status line', async () => {
  const { stream, client } = await open(10);
  stream.begin({ 'x-a': '1' });
  stream.begin({ 'x-a': '2' });
  stream.end('data: last\n\n');
  expect(stream.write('data: after\n\n')).toBeUndefined();
  await sleep(40);
  const text = await textOf(client);
  expect(text).toContain('x-a: 1\r\n');
  expect(text).toContain('data: last');
  expect(text).not.toContain('after');
  expect(text).not.toContain(': k\n');
});

test('a stream that was released before it began never sends a status line', async () => {
  const { stream, client } = await open(10);
  stream.release();
  await sleep(40);
  stream.begin({});
  expect([stream.begun, client.bytesRead]).toEqual([false, 0]);
});
