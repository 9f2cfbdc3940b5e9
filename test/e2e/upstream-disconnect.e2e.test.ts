/** A client that disconnects at any point of an answer: its upstream is stopped within a second, what was delivered is charged, nothing stays held (docs/interfaces/README.md "Clients that leave"; docs/accounting.md "Settlement"). */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { type ActivityRecord, RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { UsageSource } from '../../src/gen/tollgate/v1/event_pb.ts';
import { Delivery } from '../../src/gen/tollgate/v1/request_pb.ts';
import { endGateway, type Gateway, heldBy, turnLoop } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { chunk, RawUpstream, type SeenRequest, streamHead } from '../upstreams/raw-upstream.ts';
import { eventually, rpcClient, rpcRequest } from './upstream-callers.ts';

function frame(choice: object | undefined, more: object = {}): string {
  const choices = choice === undefined ? [] : [{ index: 0, finish_reason: null, ...choice }];
  return `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', choices, ...more })}\n\n`;
}
const words = 26;
const word = frame({ delta: { content: ' go' } });
const frames = [
  frame({ delta: { role: 'assistant', content: '' } }),
  ...Array.from({ length: words }, () => word),
  frame({ delta: {}, finish_reason: 'stop' }),
  frame(undefined, { usage: { prompt_tokens: 31, completion_tokens: 40, total_tokens: 71 } }),
  'data: [DONE]\n\n',
];
/** After how many frames the client disconnects. At 0 it has not received the head yet. The last frame ends the answer. */
const frameCounts = Array.from({ length: frames.length }, (_, index) => index);
const wordsBefore = (framesBefore: number): number => Math.min(words, Math.max(0, framesBefore - 1));

const leavings = ['stream closed', 'stream reset', 'whole closed', 'RPC cancelled', 'flowing stream closed'] as const;
type Leaving = (typeof leavings)[number];
const nameModel = (leaving: string, framesBefore: number): string =>
  `gone/${leaving.replaceAll(' ', '-')}-${framesBefore}`;
const models = [
  ...leavings.flatMap(leaving => frameCounts.map(framesBefore => nameModel(leaving, framesBefore))),
  'gone/flood',
  'gone/flood-in-time',
];

/** What the upstream has written for a model, and the request that it received. */
interface Sent {
  frames: number;
  bytes: number;
  request?: SeenRequest;
}
const sent = new Map<string, Sent>(models.map(model => [model, { frames: 0, bytes: 0 }]));
const findSent = (model: string): Sent => sent.get(model) ?? expect.fail(`no model ${model}`);

const upstream = await RawUpstream.start(async (socket, request) => {
  const { model } = JSON.parse(request.body) as { model: string };
  const record = findSent(model);
  record.request = request;
  if (model.includes('flood')) return flood(socket, record);
  const framesBefore = Number(model.split('-').at(-1));
  if (framesBefore === 0) return;
  socket.write(streamHead);
  for (const text of frames.slice(0, framesBefore)) {
    socket.write(chunk(text));
    record.frames += 1;
  }
  if (!model.includes('flowing')) return;
  while (!socket.destroyed) {
    socket.write(chunk(word));
    record.frames += 1;
    await sleep(10);
  }
});

/** Sends endlessly, as fast as the gateway reads. */
async function flood(socket: Socket, record: Sent): Promise<void> {
  const text = chunk(frame({ delta: { content: ' go'.repeat(2_000) } }));
  socket.write(streamHead);
  while (!socket.destroyed) {
    record.bytes += text.length;
    if (!socket.write(text)) await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => undefined);
  }
}

const gateway: Gateway = await startGateway({
  balance: '1000',
  config: `
simulator: { enabled: false }
providers:
  raw: { protocol: chat, base_url: "${upstream.baseUrl}" }
  short: { protocol: chat, base_url: "${upstream.baseUrl}", timeouts: { total: 1500ms } }
models:${models
    .map(
      model => `
  - id: ${model}
    endpoints: [/v1/chat/completions]
    capabilities: { function_call: true }
    pricing: { input: 1, output: 10 }
    routes: [{ provider: ${model.endsWith('in-time') ? 'short' : 'raw'}, model: ${model} }]`,
    )
    .join('')}
`,
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
});

/** Sends a request over a socket, without an HTTP client. */
function ask(model: string, stream: boolean): Socket {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  const body = JSON.stringify({ model, stream, messages: [{ role: 'user', content: 'Go on' }] });
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${gateway.apiKey}\r\n` +
      `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  return socket;
}

/** Resolves once the upstream has received the request for a model and written its first frames. */
function reached(model: string): Promise<SeenRequest> {
  return eventually(`the request for ${model}`, () => findSent(model).request);
}

/** Resolves once the stream has shown `count` words; rejects if it closes before. */
async function readWords(socket: Socket, count: number): Promise<void> {
  let raw = '';
  const seen = (): number => raw.split('" go"').length - 1;
  await new Promise<void>((resolve, reject) => {
    socket.once('close', () => reject(new Error(`closed after ${seen()} words: ${raw}`)));
    const read = (bytes: Buffer | string): void => {
      raw += bytes.toString();
      if (seen() < count || !raw.includes('"role"')) return;
      socket.off('data', read);
      resolve();
    };
    socket.on('data', read);
  });
}

/** Disconnects in the given way. Returns the time at which it did. */
async function leave(leaving: Leaving, framesBefore: number): Promise<number> {
  const model = nameModel(leaving, framesBefore);
  if (leaving === 'RPC cancelled') return cancel(model, framesBefore);
  const socket = ask(model, leaving !== 'whole closed');
  await reached(model);
  if (framesBefore > 1 && leaving !== 'whole closed') await readWords(socket, wordsBefore(framesBefore));
  // By then the gateway has read what it has not sent yet: a whole answer, an opening frame, or a finish reason that waits for the usage.
  if (leaving === 'whole closed' || framesBefore === 1 || framesBefore > words)
    await sleep(150).then(() => turnLoop(gateway));
  const leftAtMs = performance.now();
  if (leaving === 'stream reset') socket.resetAndDestroy();
  else socket.destroy();
  return leftAtMs;
}

async function cancel(model: string, framesBefore: number): Promise<number> {
  const controller = new AbortController();
  let left = Number.NaN;
  const stop = (): void => {
    left = performance.now();
    controller.abort();
  };
  let seen = 0;
  const replies = client.generate(rpcRequest(model, Delivery.STREAMED), { signal: controller.signal });
  const early = framesBefore <= 1 || framesBefore > words;
  if (early)
    void reached(model)
      .then(() => sleep(150))
      .then(() => turnLoop(gateway))
      .then(stop);
  try {
    for await (const { events } of replies) {
      seen += events.filter(({ event }) => event.case === 'delta').length;
      if (!early && seen >= wordsBefore(framesBefore) && Number.isNaN(left)) stop();
    }
  } catch {
    return left;
  }
  return expect.fail('the call ended by itself');
}
const client = rpcClient(gateway);

function recordFor(model: string): Promise<ActivityRecord> {
  return eventually(`the record of ${model}`, async () => (await gateway.account.listActivity({ model })).records[0]);
}

/** Expects that the connection to the upstream was closed within a second after the client left. */
async function expectStopped(model: string, leftAtMs: number): Promise<void> {
  const closedAtMs = await Promise.race([findSent(model).request?.closedAtMs, sleep(10_000)]);
  expect((closedAtMs ?? Infinity) - leftAtMs).toBeLessThan(1_000);
}

// LI-11 is a case of `test/translation/cases.json`.
describe.each(leavings)('LI-11: %s', leaving => {
  test.concurrent.each(frameCounts)('after %i frames', async framesBefore => {
    const model = nameModel(leaving, framesBefore);
    const leftAtMs = await leave(leaving, framesBefore);
    await expectStopped(model, leftAtMs);
    const record = await recordFor(model);
    expect(record.state).toBe(RecordState.CLIENT_ABORTED);
    const { inputTokens = 0, outputTokens = 0 } = record.usage ?? {};
    expect(record.costNanoUsd).toBe(BigInt(inputTokens * 1_000 + outputTokens * 10_000));
    // The usage of the whole answer is in the last frame but one.
    const reported = framesBefore === frames.length - 1;
    if (leaving === 'flowing stream closed') {
      expect(outputTokens).toBeGreaterThanOrEqual(wordsBefore(framesBefore));
      expect(outputTokens).toBeLessThanOrEqual(Math.max(findSent(model).frames, reported ? 40 : 0));
      return;
    }
    expect([outputTokens, record.usageSource]).toEqual(
      reported ? [40, UsageSource.REPORTED] : [wordsBefore(framesBefore), UsageSource.ESTIMATED],
    );
    expect(inputTokens).toBe(reported ? 31 : (await recordFor(nameModel(leaving, 0))).usage?.inputTokens);
    expect(inputTokens).toBeGreaterThan(0);
  });
});

describe('a client that never reads', () => {
  test('slows its upstream, and is handled like any other client when it disconnects', async () => {
    const socket = ask('gone/flood', true).pause();
    await reached('gone/flood');
    let taken = 0;
    const grown = async (): Promise<number> => {
      const before = taken;
      taken = findSent('gone/flood').bytes;
      await sleep(500);
      return taken - before;
    };
    await expect.poll(grown, { timeout: 30_000 }).toBe(0);
    // The kernel’s buffers of four sockets hold most of it, and the gateway little.
    expect(taken).toBeLessThan(24_000_000);
    const leftAtMs = performance.now();
    socket.destroy();
    await expectStopped('gone/flood', leftAtMs);
    const { state, usage } = await recordFor('gone/flood');
    expect(state).toBe(RecordState.CLIENT_ABORTED);
    expect(usage?.outputTokens).toBeGreaterThan(0);
    expect(usage?.outputTokens).toBeLessThanOrEqual(taken / 3);
  });

  test('is cut off when the timeout of the whole answer has passed', async () => {
    const began = performance.now();
    const socket = ask('gone/flood-in-time', true).pause();
    await reached('gone/flood-in-time');
    await expectStopped('gone/flood-in-time', began + 1_500);
    const record = await recordFor('gone/flood-in-time');
    expect(record.state).toBe(RecordState.UPSTREAM_FAILED);
    expect(performance.now() - began).toBeLessThan(4_000);
    socket.destroy();
  });
});

test('nothing is held', async () => {
  await expect.poll(() => heldBy(gateway), { timeout: 10_000 }).toBe(0n);
});
