/** Clients, providers and webhooks can't delay a stop for longer than documented (docs/architecture.md "Starting and stopping"). */
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { expect, test } from 'vitest';
import { Health } from '../../src/gen/grpc/health/v1/health_pb.ts';
import { expectVerified, type Gateway, heldBy, startGateway } from '../gateway.ts';
import { SocketClient } from './socket-client.ts';

/** A server that accepts requests and never answers, used as provider and as receiver of webhooks. */
const silent = createServer(request => request.resume());
silent.listen(0, '127.0.0.1');
await once(silent, 'listening');
const silentUrl = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;

const config = `
shutdown_grace: 1s
webhooks: { allow_private: true }
providers: { mute: { protocol: chat, base_url: "${silentUrl}/v1", api_key: x } }
models:
  - { id: mute/model, pricing: { input: 1, output: 1 }, routes: [{ provider: mute, model: m }] }
`;

async function post({ url, apiKey }: Gateway, path: string, body: object, key = apiKey): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  return fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
}

/** Opens a connection, writes the text and never reads. */
function openDeaf({ url }: Gateway, text: string): Socket {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).pause();
  socket.on('error', () => undefined);
  socket.write(text);
  return socket;
}

test('with every kind of work open, a stop ends at most 17 s after the grace period, and everything is settled', async () => {
  const gateway = await startGateway({ config });
  const { apiKey, managementKey } = gateway;
  const left: Promise<unknown>[] = [];
  expect((await post(gateway, '/v1/account/webhooks', { url: silentUrl }, managementKey)).status).toBe(200);
  const slow = '!sim tokens=4000 tps=5\nx';
  const chat = (model: string, more: object): object => ({
    model,
    messages: [{ role: 'user', content: slow }],
    ...more,
  });
  // A stream that is read, a stream that is not read, an upload that never ends, a request whose provider is silent.
  left.push((await post(gateway, '/v1/chat/completions', chat('sim/large', { stream: true }))).text());
  const head = (length: number): string =>
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${apiKey}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
  const long = JSON.stringify({
    model: 'sim/large',
    stream: true,
    n: 8,
    messages: [{ role: 'user', content: '!sim tokens=100000 tps=100000\nx' }],
  });
  const deaf = [openDeaf(gateway, head(long.length) + long), openDeaf(gateway, `${head(1e6)}{"model":`)];
  left.push(post(gateway, '/v1/chat/completions', chat('mute/model', { stream: true })).catch(() => undefined));
  // A background response and its follower, an image task, two WebSockets (one with a running turn), a watcher of the health service.
  const input = slow;
  const made = await post(gateway, '/v1/responses', { model: 'sim/large', input, background: true });
  const { id } = (await made.json()) as { id: string };
  const follower = await fetch(`${gateway.url}/v1/responses/${id}?stream=true`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  left.push(follower.text());
  await post(gateway, '/v1/images/generations', { model: 'sim/image', async: true, prompt: '!sim delay_ms=60000\nx' });
  const sockets = [await SocketClient.open(gateway.url, apiKey), await SocketClient.open(gateway.url, apiKey)];
  sockets[0]?.create({ model: 'sim/large', input });
  await sockets[0]?.next();
  const health = createClient(Health, createGrpcTransport({ baseUrl: gateway.rpcUrl }));
  left.push(Array.fromAsync(health.watch({})).catch(() => undefined));
  await expect.poll(() => heldBy(gateway)).toBeGreaterThan(0n);

  const began = performance.now();
  const { code } = await gateway.stop();
  expect([code, performance.now() - began < 18_000]).toEqual([0, true]);
  for (const socket of deaf) socket.destroy();
  await Promise.all(left);
  await expectVerified(gateway.home);
  rmSync(gateway.home.folder, { recursive: true, force: true });
  silent.closeAllConnections();
  silent.close();
}, 90_000);
