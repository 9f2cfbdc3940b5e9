import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { ask, chat, Connection, deltas, ending, eventually, opening, rawChat, startListener } from './listener.ts';

test('while the gateway stops, streams in flight end as usual and new requests are refused', async () => {
  const state = { draining: false };
  const { promise: goOn, resolve: release } = Promise.withResolvers<void>();
  const listener = await startListener({
    draining: () => state.draining,
    generate: async function* generate() {
      yield [...opening(), ...deltas(['a'])];
      await goOn;
      yield [...deltas(['b']), ...ending()];
    },
  });
  const connection = new Connection(listener.port);
  connection.send(rawChat({ stream: true }));
  await connection.until(/"content":"a"/);
  state.draining = true;
  const refused = await chat(listener);
  expect([refused.status, refused.json.error.code, refused.headers['retry-after']]).toEqual([503, 'overloaded', '1']);
  expect(refused.headers.connection).toBe('close');
  expect((await ask(listener, '/readyz', { key: null })).status).toBe(503);
  expect((await ask(listener, '/healthz', { key: null })).status).toBe(200);
  expect(listener.app.openAnswers()).toBe(1);
  release();
  await connection.until(/"content":"b"[^]*\[DONE\]/);
  await listener.app.idle();
  // The connection was kept alive, but no more requests are answered on it.
  await eventually(() => connection.closed);
});

test('a refused request whose body is still arriving does not keep its connection open', async () => {
  const listener = await startListener({ draining: () => true });
  const connection = new Connection(listener.port);
  connection.send(rawChat());
  await connection.until(/^HTTP\/1\.1 503 [^]*connection: close/);
  await eventually(() => connection.closed);
});

test('closing does not wait for idle connections', async () => {
  const listener = await startListener();
  const connection = new Connection(listener.port);
  connection.send(rawChat());
  await connection.until(/HTTP\/1\.1 200 OK/);
  const from = performance.now();
  await listener.app.close();
  expect(performance.now() - from).toBeLessThan(500);
  await eventually(() => connection.closed);
});

test('closing cuts connections that are still open after two seconds, even that of a client that never reads', async () => {
  let aborted = false;
  const listener = await startListener({
    generate: async function* generate(_request, { signal }) {
      signal.addEventListener('abort', () => (aborted = true));
      yield opening();
      while (!signal.aborted) {
        yield deltas(['x'.repeat(65_536)]);
        await sleep(0);
      }
      throw new GatewayError('internal', 'cancelled');
    },
  });
  const connection = new Connection(listener.port);
  connection.socket.pause();
  connection.send(rawChat({ stream: true }));
  await eventually(() => listener.app.openAnswers() === 1);
  const from = performance.now();
  await listener.app.close();
  expect(performance.now() - from).toBeLessThan(3000);
  await eventually(() => aborted && listener.app.openAnswers() === 0);
});

test('`idle` resolves at once if no request is being answered', async () => {
  const listener = await startListener();
  await listener.app.idle();
  expect(listener.app.openAnswers()).toBe(0);
});
