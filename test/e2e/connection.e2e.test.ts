/** Quiet streams, slow readers and connections that break, on real sockets (docs/interfaces/README.md "Streams"). */
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { endGateway, makeKey, readRecord, startGateway } from '../gateway.ts';
import { ask, complete, stream } from './chat-client.ts';

const gateway = await startGateway({
  config: 'simulator: { tokens_per_second: 0 }\nkeep_alive: 200ms\nexpose_route: true\n',
  // The heap is small, so that memory grows only if it is kept, and not because garbage is collected late.
  environment: { NODE_OPTIONS: '--max-old-space-size=160' },
});
afterAll(() => endGateway(gateway));

const steer = (line: string, more?: object): Record<string, unknown> => ask(`Tolls\n!sim ${line}`, { ...more });

/** Sends a request over a new socket, without an HTTP client. */
function request(body: Record<string, unknown>, key = gateway.apiKey): Socket {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  const text = JSON.stringify(body);
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${key}\r\n` +
      `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
  return socket;
}

const listStates = async (apiKeyId: bigint): Promise<RecordState[]> =>
  (await gateway.account.listActivity({ apiKeyId })).records.map(({ state }) => state);

describe('a quiet stream', () => {
  test('is kept alive by comments, before the first event and between events', async () => {
    const late = await stream(gateway, steer('delay_ms=2000 tokens=5'));
    expect(late.status).toBe(200);
    expect(late.firstMs).toBeLessThan(1_900);
    expect(late.raw).toMatch(/^:/);
    expect({ done: late.done, tokens: late.usage?.completion_tokens }).toEqual({ done: true, tokens: 5 });
    const slow = await stream(gateway, steer('tokens=4 tps=2'));
    expect(slow.done).toBe(true);
    expect(slow.raw.match(/^:/gm)?.length).toBeGreaterThanOrEqual(2);
  });

  test('that fails after its first comment ends with an error event and is free', async () => {
    const failed = await stream(gateway, steer('delay_ms=600 status=400'));
    expect([failed.status, failed.error?.code, failed.done]).toEqual([200, 'upstream_rejected', false]);
    expect(failed.error?.id).toBe(failed.headers.get('x-request-id'));
  });

  test('that fails before its first comment is an HTTP error', async () => {
    expect((await stream(gateway, steer('status=400'))).status).toBe(400);
  });

  test('has comments only if the answer is streamed', async () => {
    const { status, body } = await complete(gateway, steer('delay_ms=700 tokens=3'));
    expect([status, body.usage.completion_tokens]).toEqual([200, 3]);
  });
});

describe('a client', () => {
  test('that never reads slows the upstream and costs little memory', async () => {
    const memory = (): number =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))?.[1]);
    await complete(gateway, steer('tokens=2000'));
    const before = memory();
    const { key, id } = await makeKey(gateway);
    // Each answer would be some megabytes of frames, more than the buffers of a socket hold.
    const body = steer('tokens=16000', { stream: true, logprobs: true, top_logprobs: 20 });
    const sockets = Array.from({ length: 8 }, () => request(body, key).pause());
    await sleep(3_000);
    expect(memory() - before).toBeLessThan(150_000);
    for (const socket of sockets) socket.destroy();
    await expect.poll(() => listStates(id)).toEqual(sockets.map(() => RecordState.CLIENT_ABORTED));
    const { records } = await gateway.account.listActivity({ apiKeyId: id });
    for (const { usage } of records) expect(usage?.outputTokens).toBeLessThan(16_000);
  });

  test('that reads slowly gets everything', async () => {
    const socket = request(steer('tokens=1500', { stream: true }));
    let raw = '';
    for await (const bytes of socket) {
      raw += (bytes as Buffer).toString();
      if (raw.includes('[DONE]')) break;
      await sleep(2);
    }
    expect(raw).toContain('"finish_reason":"stop"');
  });

  test('that resets its connection in the middle of an answer is charged for the delivered part', async () => {
    const { key, id } = await makeKey(gateway);
    const socket = request(steer('tokens=5000 tps=200', { stream: true }), key);
    await new Promise(resolve => {
      socket.once('data', resolve);
    });
    await sleep(300);
    socket.resetAndDestroy();
    await expect.poll(() => listStates(id)).toEqual([RecordState.CLIENT_ABORTED]);
  });

  test('that sends half a body and disconnects costs nothing', async () => {
    const { key, id } = await makeKey(gateway);
    const { hostname, port } = new URL(gateway.url);
    const socket = connect(Number(port), hostname);
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${key}\r\n` +
        'content-type: application/json\r\ncontent-length: 1000\r\n\r\n{"model":',
    );
    await sleep(100);
    socket.destroy();
    await sleep(200);
    expect(await listStates(id)).toEqual([]);
  });

  test('that pipelines requests gets the answers in order', async () => {
    const socket = request(steer('say=first'));
    const second = JSON.stringify(steer('say=second'));
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nx-api-key: ${gateway.apiKey}\r\nconnection: close\r\n` +
        `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(second)}\r\n\r\n${second}`,
    );
    let raw = '';
    for await (const bytes of socket) raw += (bytes as Buffer).toString();
    expect(raw.match(/HTTP\/1\.1 200/g)).toHaveLength(2);
    expect(raw.indexOf('"first"')).toBeLessThan(raw.indexOf('"second"'));
    expect(raw.indexOf('"first"')).toBeGreaterThan(-1);
  });
});

test('gets the name of the route in a header with `expose_route`', async () => {
  const { headers } = await complete(gateway, steer('tokens=3'));
  expect(headers.get('x-tollgate-route')).toBe('simulator/sim/large');
});

test('gets its own answer, however many clients send requests at once', async () => {
  const before = performance.now();
  const answers = await Promise.all(
    Array.from({ length: 300 }, (_, index) =>
      index % 2 === 0 ? complete(gateway, steer(`say=number ${index}`)) : stream(gateway, steer(`say=number ${index}`)),
    ),
  );
  expect(answers.map(({ text }) => text)).toEqual(answers.map((_, index) => `number ${index}`));
  expect(performance.now() - before).toBeLessThan(20_000);
  const last = answers.at(-1);
  expect((await readRecord(gateway, last?.headers.get('x-request-id') ?? '')).state).toBe(RecordState.COMPLETED);
});
