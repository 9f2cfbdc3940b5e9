/** Streams in which the test takes the place of the core: it pushes messages and records the edge's control calls. */
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import type { GenerationEvent } from '../../src/gen/tollgate/v1/event_pb.ts';
import type { GenerateResponse } from '../../src/gen/tollgate/v1/generation_pb.ts';
import type { Sink } from '../../src/lib/push.ts';
import { Connection, deltas, ending, eventually, type Listener, opening, rawChat, startListener } from './listener.ts';

/** A call that the core received. */
interface Pushed {
  readonly listener: Listener;
  readonly connection: Connection;
  /** The server's side of the connection. */
  readonly socket: Socket;
  readonly response: ServerResponse;
  /** The edge's control calls, in order. */
  readonly controls: ('cancel' | 'pause' | 'resume')[];
  readonly push: (events: GenerationEvent[]) => void;
  readonly end: (error?: Error) => void;
}

/** Requests a stream and waits until the core is called. */
async function open(keepAliveMs: number): Promise<Pushed> {
  const controls: Pushed['controls'] = [];
  const { promise, resolve } = Promise.withResolvers<Sink<GenerateResponse>>();
  const listener = await startListener({
    keepAliveMs,
    push: sink => {
      resolve(sink);
      return {
        cancel: () => controls.push('cancel'),
        pause: () => controls.push('pause'),
        resume: () => controls.push('resume'),
      };
    },
  });
  const answered = once(listener.app.server, 'request') as Promise<[IncomingMessage, ServerResponse]>;
  const connection = new Connection(listener.port);
  connection.send(rawChat({ stream: true }));
  const sink = await promise;
  const [{ socket }, response] = await answered;
  const push = (events: GenerationEvent[]): void => sink.message({ $typeName: 'tollgate.v1.GenerateResponse', events });
  return { listener, connection, socket, response, controls, push, end: error => sink.end(error) };
}

const large = 'x'.repeat(3_000_000);

/** Pushes until the edge pauses the core because the client does not read. The kernel's buffers take some megabytes first. */
async function pushUntilPaused({ controls, push }: Pushed): Promise<void> {
  do {
    controls.length = 0;
    push(deltas([large]));
    await sleep(50);
  } while (controls.length !== 1);
}

test('events that the core pushes are written in the same call', async () => {
  const { connection, response, push, end } = await open(60_000);
  expect(response.writableLength).toBe(0);
  push([...opening(), ...deltas(['a'])]);
  const written = response.writableLength;
  expect(written).toBeGreaterThan(0);
  push(deltas(['b']));
  expect(response.writableLength).toBeGreaterThan(written);
  push(ending());
  end();
  await connection.until(/"content":"a"[^]*"content":"b"[^]*\[DONE\]/);
});

test('a write that the client reads at once causes no control call; if the client does not read, the core is paused until it does', async () => {
  const pushed = await open(60_000);
  const { connection, controls, push, end } = pushed;
  connection.socket.pause();
  push([...opening(), ...deltas(['a'])]);
  expect(controls).toEqual([]);
  await pushUntilPaused(pushed);
  // Messages that are already on their way may still arrive, and cause no further control call.
  push(deltas(['on its way']));
  await sleep(50);
  expect(controls).toEqual(['pause']);
  connection.socket.resume();
  await eventually(() => controls.length === 2);
  expect(controls).toEqual(['pause', 'resume']);
  push(ending());
  end();
  await connection.until(/"content":"on its way"[^]*\[DONE\]/);
});

test('while the client does not read, no keep-alive is added', async () => {
  const pushed = await open(10);
  const { connection, socket, push } = pushed;
  connection.socket.pause();
  push(opening());
  await pushUntilPaused(pushed);
  const kept = socket.bytesWritten + socket.writableLength;
  await sleep(60);
  expect(socket.bytesWritten + socket.writableLength).toBe(kept);
});

test('a paused client that disconnects cancels the call, nothing more is written, and the request ends when the core ends it', async () => {
  const pushed = await open(60_000);
  const { listener, connection, socket, controls, push, end } = pushed;
  connection.socket.pause();
  push(opening());
  await pushUntilPaused(pushed);
  connection.socket.destroy();
  await eventually(() => controls.includes('cancel'));
  const written = socket.bytesWritten + socket.writableLength;
  push(deltas(['more']));
  await sleep(20);
  expect(controls).toEqual(['pause', 'cancel']);
  expect(socket.bytesWritten + socket.writableLength).toBe(written);
  expect([listener.app.openAnswers(), listener.log.length]).toEqual([1, 0]);
  end(new Error('cancelled'));
  await eventually(() => listener.app.openAnswers() === 0);
  expect(listener.log).toEqual([expect.objectContaining({ status: 499, code: 'client_gone' })]);
});

test('nothing follows the end: no keep-alive, no second status line', async () => {
  const { connection, push, end } = await open(20);
  push([...opening(), ...ending()]);
  end();
  const text = await connection.until(/\[DONE\]\n\n\r\n0\r\n\r\n$/);
  await sleep(80);
  expect(connection.text).toBe(text);
  expect(text.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(1);
  expect(text).not.toContain(': keepalive');
});

test('a stream that fails before its first event has the error’s status and is not an event stream', async () => {
  const { connection, end } = await open(40);
  end(new GatewayError('rate_limit', 'Slow down.'));
  const text = await connection.until(/^HTTP\/1\.1 429 [^]*\}$/);
  await sleep(80);
  expect(connection.text).toBe(text);
});
