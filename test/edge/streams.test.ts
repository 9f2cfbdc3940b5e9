/** Ids like SS-16 name cases of `test/translation/cases.json`. */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import type { GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import { toLimitState } from '../../src/rpc/errors.ts';
import {
  answering,
  chat,
  Connection,
  deltas,
  ending,
  eventually,
  type Generate,
  limitedKey,
  minuteWindow,
  opening,
  rawChat,
  refusing,
  startListener,
} from './listener.ts';

/** Returns the data of each frame of a stream. */
function frames(text: string): string[] {
  return text.split('\n\n').flatMap(frame => (frame.startsWith('data: ') ? [frame.slice(6)] : []));
}

function readText(stream: string): string {
  return frames(stream)
    .filter(data => data !== '[DONE]')
    .map(data => JSON.parse(data).choices[0]?.delta?.content ?? '')
    .join('');
}

/** Returns a core that sends deltas until it is cancelled, and what it has seen. */
function endless(size = 10): { generate: Generate; seen: { pulls: number; aborted: boolean; settled: boolean } } {
  const seen = { pulls: 0, aborted: false, settled: false };
  const generate: Generate = async function* generate(_request, { signal }) {
    signal.addEventListener('abort', () => (seen.aborted = true));
    try {
      yield opening();
      while (!signal.aborted) {
        seen.pulls += 1;
        yield deltas(['x'.repeat(size)]);
        await sleep(size > 1000 ? 0 : 5);
      }
      throw new Error('cancelled');
    } finally {
      seen.settled = true;
    }
  };
  return { generate, seen };
}

test('a stream is answered as server-sent events that no proxy may buffer or compress (SS-16)', async () => {
  const listener = await startListener({ generate: answering('Hello.') });
  const reply = await chat(listener, { stream: true }, { headers: { 'accept-encoding': 'gzip, br, deflate' } });
  expect(reply.status).toBe(200);
  expect(reply.headers).not.toHaveProperty('content-encoding');
  expect(reply.headers).toMatchObject({
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, no-store, no-transform',
    'x-accel-buffering': 'no',
    'x-request-id': listener.requestIds[1],
  });
  expect(reply.headers['x-tollgate-cost']).toBeUndefined();
  expect(readText(reply.text)).toBe('Hello.');
  expect(frames(reply.text).at(-1)).toBe('[DONE]');
});

test('the status line waits for the first event, and a failure before it is an HTTP error', async () => {
  const { promise: failed, resolve: fail } = Promise.withResolvers<void>();
  const listener = await startListener({
    // oxlint-disable-next-line require-yield -- it fails before it could yield
    generate: async function* generate() {
      await failed;
      throw new GatewayError('upstream_error', 'The provider failed.');
    },
  });
  const connection = new Connection(listener.port);
  connection.send(rawChat({ stream: true }));
  await eventually(() => listener.requests.length === 1);
  await sleep(50);
  expect(connection.text).toBe('');
  fail();
  await connection.until(/^HTTP\/1\.1 502 Bad Gateway\r\n[^]*"code":"upstream_error"/);
});

test('a failure after the first event is an error frame with the request’s id, then the stream ends', async () => {
  const listener = await startListener({
    generate: async function* generate() {
      yield [...opening(), ...deltas(['Hel'])];
      throw new GatewayError('overloaded', 'The gateway is stopping.');
    },
  });
  const reply = await chat(listener, { stream: true });
  expect(reply.status).toBe(200);
  expect(
    readText(
      frames(reply.text)
        .slice(0, -1)
        .map(data => `data: ${data}\n\n`)
        .join(''),
    ),
  ).toBe('Hel');
  expect(JSON.parse(frames(reply.text).at(-1) ?? '')).toEqual({
    error: {
      message: 'The gateway is stopping.',
      type: 'server_error',
      param: null,
      code: 'overloaded',
      id: reply.headers['x-request-id'],
    },
  });
  expect(listener.log.at(-1)).toMatchObject({ status: 200, code: 'overloaded' });
});

test('a stream that ends without completed is an internal error, never a finish', async () => {
  const listener = await startListener({
    generate: async function* generate() {
      yield [...opening(), ...deltas(['Hel'])];
    },
  });
  const reply = await chat(listener, { stream: true });
  expect(JSON.parse(frames(reply.text).at(-1) ?? '')).toMatchObject({ error: { code: 'internal' } });
});

test('the frames of a batch are written together, and the last ones together with the end of the stream', async () => {
  const listener = await startListener({
    generate: async function* generate() {
      yield [...opening(), ...deltas(['a', 'b'])];
      await sleep(20);
      yield deltas(['c', 'd', 'e']);
      await sleep(20);
      yield ending();
    },
  });
  const connection = new Connection(listener.port);
  connection.send(rawChat({ stream: true }));
  await connection.until(/\r\n0\r\n\r\n/);
  const chunks = connection.text
    .split('\r\n\r\n')
    .slice(1)
    .join('\r\n\r\n')
    .split(/\r\n[0-9a-f]+\r\n|^[0-9a-f]+\r\n/);
  const contents = chunks.filter(chunk => chunk.includes('data: '));
  expect(contents.map(chunk => readText(chunk))).toEqual(['ab', 'cde', '']);
  expect(contents[2]).toMatch(/"finish_reason":"stop"[^]*data: \[DONE\]\n\n/);
});

test('a quiet stream gets its status line and a comment after the keep-alive time, and another comment after each further keep-alive time', async () => {
  const listener = await startListener({
    // Timers are not exact, so each interval gets some tolerance.
    keepAliveMs: 200,
    generate: async function* generate() {
      await sleep(550);
      yield [...opening(), ...deltas(['a'])];
      await sleep(300);
      yield [...deltas(['b']), ...ending()];
    },
  });
  const reply = await chat(listener, { stream: true });
  const comments = reply.text.split('\n').map(line => (line.startsWith(':') ? ':' : line.slice(0, 5)));
  expect(reply.text).toMatch(/^: keepalive\n/);
  expect(comments.filter(line => line === ':').length).toBeGreaterThanOrEqual(3);
  expect(reply.text).toMatch(/"content":"a"[^]*\n: keepalive\n[^]*"content":"b"/);
  expect(readText(reply.text.replaceAll(': keepalive\n', ''))).toBe('ab');
});

test('a stream that flows gets no keep-alive', async () => {
  const listener = await startListener({
    keepAliveMs: 1_000,
    generate: async function* generate() {
      yield opening();
      // All deltas together take longer than the keep-alive interval; a busy machine may take some time between two of them.
      for (let index = 0; index < 30; index += 1) {
        await sleep(50);
        yield deltas(['x']);
      }
      yield ending();
    },
  });
  expect((await chat(listener, { stream: true })).text).not.toContain(': keepalive');
});

test('the answer has the windows of a key even if the status line is sent before the first event', async () => {
  const listener = await startListener({
    keepAliveMs: 20,
    generate: async function* generate() {
      await sleep(60);
      yield [...opening(), ...ending()];
    },
  });
  const reply = await chat(listener, { stream: true }, { key: limitedKey });
  expect(reply.headers['x-ratelimit-remaining-requests']).toBe('7');
});

test('a failure after an early status line is an error frame', async () => {
  const listener = await startListener({
    keepAliveMs: 20,
    // oxlint-disable-next-line require-yield -- it fails before it could yield
    generate: async function* generate() {
      await sleep(60);
      throw new GatewayError('upstream_timeout', 'The provider took too long.');
    },
  });
  const reply = await chat(listener, { stream: true });
  expect(reply.status).toBe(200);
  expect(JSON.parse(reply.text.split('data: ')[1] ?? '')).toMatchObject({
    error: { code: 'upstream_timeout', type: 'upstream_error' },
  });
});

test('warnings, windows and route are headers of the stream', async () => {
  const listener = await startListener({
    generate: answering('x', {
      warnings: ['dropped=top_k,Größe\r\nx-evil: 1'],
      limits: [toLimitState(minuteWindow)],
      route: 'local/large-v1',
    }),
  });
  const reply = await chat(listener, { stream: true });
  expect(reply.headers).toMatchObject({
    'x-tollgate-warnings': 'dropped=top_k,Gr%C3%B6%C3%9Fe%0D%0Ax-evil: 1',
    'x-tollgate-route': 'local/large-v1',
    'x-ratelimit-limit-requests': '60',
    'x-ratelimit-remaining-requests': '7',
  });
  expect(reply.headers['x-evil']).toBeUndefined();
});

test.each([0, 1, 2, 5])(
  'a client that disconnects after %i deltas stops the core’s call within a second',
  async count => {
    const { generate, seen } = endless();
    const listener = await startListener({ generate });
    const connection = new Connection(listener.port);
    connection.send(rawChat({ stream: true }));
    await connection.until(new RegExp(`^HTTP/1.1 200(?:[^]*"content":"x+"){${count}}`));
    const left = performance.now();
    connection.socket.destroy();
    await eventually(() => seen.settled);
    expect(seen.aborted).toBe(true);
    expect(performance.now() - left).toBeLessThan(1000);
    await eventually(() => listener.log.length === 1);
    expect(listener.log[0]).toMatchObject({ status: 499, code: 'client_gone', model: 'acme/large' });
    expect(listener.app.openAnswers()).toBe(0);
  },
);

test.each([true, false])(
  'a client that disconnects before the first event stops the core’s call (stream: %s)',
  async stream => {
    let aborted = false;
    const listener = await startListener({
      // oxlint-disable-next-line require-yield -- the client disconnects before it could yield
      generate: async function* generate(_request, { signal }) {
        await once(signal, 'abort');
        aborted = true;
        throw new Error('cancelled');
      },
    });
    const connection = new Connection(listener.port);
    connection.send(rawChat({ stream }));
    await eventually(() => listener.requests.length === 1);
    connection.socket.destroy();
    await eventually(() => aborted && listener.app.openAnswers() === 0);
    expect(listener.log[0]).toMatchObject({ status: 499, code: 'client_gone' });
  },
);

test('a client that ends only its sending side (FIN) is still answered until it disconnects', async () => {
  const { generate, seen } = endless();
  const listener = await startListener({ generate });
  const connection = new Connection(listener.port);
  connection.send(rawChat({ stream: true }));
  await connection.until(/"content":"x+"/);
  connection.socket.end();
  const before = connection.text.length;
  await eventually(() => connection.text.length > before + 10_000);
  expect(seen.settled).toBe(false);
  connection.socket.destroy();
  await eventually(() => seen.settled);
});

test.each([false, true])(
  'a client that closes its connection after its request is noticed within a second (stream: %s)',
  async stream => {
    let abortedAtMs = Infinity;
    const listener = await startListener({
      generate: async function* generate(_request, { signal }) {
        await once(signal, 'abort');
        abortedAtMs = performance.now();
        yield* [];
        throw new Error('cancelled');
      },
    });
    const connection = new Connection(listener.port);
    connection.send(rawChat({ stream }));
    await eventually(() => listener.requests.length === 1);
    const leftAtMs = performance.now();
    // The client has read everything, so its system sends FIN instead of a reset.
    connection.socket.destroySoon();
    connection.socket.on('finish', () => connection.socket.destroy());
    await eventually(() => abortedAtMs < Infinity);
    expect(abortedAtMs - leftAtMs).toBeLessThan(1_000);
  },
);

test('if a client never reads, the edge stops requesting from the core and buffers hardly anything', async () => {
  const { generate, seen } = endless(65_536);
  const listener = await startListener({ generate, keepAliveMs: 20 });
  const sockets: Socket[] = [];
  listener.app.server.on('connection', (socket: Socket) => sockets.push(socket));
  const connection = new Connection(listener.port);
  connection.socket.pause();
  connection.send(rawChat({ stream: true }));
  // The kernel's buffers take some megabytes first.
  for (let before = -1; before !== seen.pulls || seen.pulls < 2; await sleep(100)) before = seen.pulls;
  await sleep(300);
  const pulls = seen.pulls;
  await sleep(300);
  expect(seen.pulls).toBe(pulls);
  expect(sockets.map(socket => socket.writableLength)).toEqual([expect.any(Number)]);
  expect(sockets[0]?.writableLength).toBeLessThan(262_144);
  connection.socket.destroy();
  await eventually(() => seen.settled);
});

test('a slow reader gets every delta, in order', async () => {
  const parts = Array.from({ length: 300 }, (_, index) => `${index},`.padEnd(8192, '.'));
  const listener = await startListener({
    generate: async function* generate() {
      yield opening();
      for (const part of parts) yield deltas([part]);
      yield ending();
    },
  });
  const connection = new Connection(listener.port);
  connection.send(rawChat({ stream: true }));
  for (let pauses = 0; pauses < 10; pauses += 1) {
    connection.socket.pause();
    await sleep(10);
    connection.socket.resume();
    await sleep(2);
  }
  const text = await connection.until(/data: \[DONE\]/);
  const contents = [...text.matchAll(/"content":"(\d+),/g)].map(match => Number(match[1]));
  expect(contents).toEqual(parts.map((_, index) => index));
});

test('pipelined requests are answered in order, also streams', async () => {
  const listener = await startListener({ generate: answering('one') });
  const connection = new Connection(listener.port);
  connection.send(rawChat({ stream: true }) + rawChat() + rawChat({ stream: true }));
  const text = await connection.until(/\[DONE\][^]*chat\.completion"[^]*\[DONE\]/);
  expect(text.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(3);
});

test('of pipelined requests one is answered at a time, and if the connection is closed, the others never begin', async () => {
  const { generate, seen } = endless();
  let streams = 0;
  const listener = await startListener({
    generate: (request, context) => {
      streams += 1;
      return generate(request, context);
    },
  });
  const connection = new Connection(listener.port);
  connection.send(rawChat({ stream: true }).repeat(3));
  await connection.until(/"content":"x+"[^]*"content":"x+"/);
  expect(streams).toBe(1);
  connection.socket.destroy();
  await eventually(() => listener.app.openAnswers() === 0);
  expect([streams, seen.aborted]).toEqual([1, true]);
});

test('however many requests are pipelined, those of another connection are answered between them', async () => {
  const listener = await startListener();
  const many = new Connection(listener.port);
  const few = new Connection(listener.port);
  const health = 'GET /healthz HTTP/1.1\r\nhost: gateway\r\n\r\n';
  const countAnswers = ({ text }: Connection): number => text.split('"ok"').length - 1;
  many.send(health.repeat(2_000));
  await eventually(() => countAnswers(many) > 0);
  for (let round = 1; round <= 5; round += 1) {
    few.send(health);
    await eventually(() => countAnswers(few) === round);
  }
  expect(countAnswers(many)).toBeLessThan(1_000);
  await eventually(() => countAnswers(many) === 2_000);
});

test('however many requests with bodies are pipelined, few are read before they are answered', async () => {
  const listener = await startListener();
  let read = (): number => 0;
  listener.app.server.on('connection', socket => (read = () => socket.bytesRead));
  const connection = new Connection(listener.port);
  const request = rawChat();
  connection.send(request.repeat(6_000));
  await eventually(() => connection.text.split('HTTP/1.1 200').length > 40);
  const answered = connection.text.split('HTTP/1.1 200').length - 1;
  expect(read() - answered * request.length).toBeLessThan(300_000);
});

test('a connection with pipelined requests is closed after a 401', async () => {
  const listener = await startListener();
  const connection = new Connection(listener.port);
  connection.send(rawChat().replace(/sk-tg-\w+/, `sk-tg-${'z'.repeat(43)}`) + rawChat().repeat(5));
  await eventually(
    () => connection.closed,
    () => connection.text,
  );
  expect(connection.text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 401']);
  expect(listener.requests).toEqual([]);
});

test('a connection can be reused after a stream, an error and a whole answer', async () => {
  let round = 0;
  const listener = await startListener({
    generate: async function* generate(request, context) {
      round += 1;
      yield* round === 2
        ? refusing(new GatewayError('rate_limit', 'Slow down.'))(request, context)
        : answering()(request, context);
    },
  });
  const connection = new Connection(listener.port);
  connection.send(rawChat({ stream: true }));
  await connection.until(/\r\n0\r\n\r\n$/);
  connection.send(rawChat({ stream: true }));
  await connection.until(/429 Too Many Requests[^]*\}$/);
  connection.send(rawChat());
  await connection.until(/429[^]*HTTP\/1\.1 200 OK[^]*\}$/);
  expect(connection.closed).toBe(false);
});

test('an event that can’t be rendered ends the core’s call and is an internal error', async () => {
  const seen = { ended: false };
  const listener = await startListener({
    generate: async function* generate(): AsyncGenerator<GenerationEvent[]> {
      try {
        yield [...opening(), ...ending()].toReversed();
        yield opening();
      } finally {
        seen.ended = true;
      }
    },
  });
  const reply = await chat(listener, { stream: true });
  expect([reply.status, reply.text]).toEqual([200, expect.stringContaining('"code":"internal"')]);
  expect(seen.ended).toBe(true);
});

test('open streams are counted while they are open', async () => {
  const { generate, seen } = endless();
  const listener = await startListener({ generate });
  const gauge = (): string => /tollgate_open_streams\{.*\} (\d+)/.exec(listener.metrics.text())?.[1] ?? 'none';
  const connection = new Connection(listener.port);
  connection.send(rawChat({ stream: true }));
  await connection.until(/"content":"x+"/);
  expect([gauge(), listener.app.openAnswers()]).toEqual(['1', 1]);
  connection.socket.destroy();
  await eventually(() => seen.settled && listener.app.openAnswers() === 0);
  expect(gauge()).toBe('0');
});
