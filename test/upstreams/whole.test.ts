/** Answers that are not streamed: what is sent and read, and which timeouts apply. */
import type { Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import {
  chatProtocol,
  geminiProtocol,
  messagesProtocol,
  responsesProtocol,
  type UpstreamProtocol,
} from '../../src/upstreams/protocols.ts';
import {
  collectAnswer,
  ask,
  makeCall,
  chatUpstream,
  golden,
  isWhole,
  patient,
  sleep,
  readText,
} from './call-upstream.ts';
import { type Behaviour, chunk, lastChunk, RawUpstream, streamHead, whole } from './raw-upstream.ts';
import type { TextProtocol } from './text-protocol.ts';

const running: RawUpstream[] = [];
afterEach(async () => {
  for (const upstream of running.splice(0)) await upstream.stop();
});

async function upstreamThat(behaviour: Behaviour): Promise<RawUpstream> {
  const upstream = await RawUpstream.start(behaviour);
  running.push(upstream);
  return upstream;
}

const completion = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1_790_000_000,
  model: 'large-v1',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
};
const message = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'large-v1',
  content: [{ type: 'text', text: 'Hello' }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 5, output_tokens: 1 },
};
const response = {
  id: 'resp_1',
  object: 'response',
  status: 'completed',
  model: 'large-v1',
  output: [
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Hello', annotations: [] }],
    },
  ],
  usage: { input_tokens: 5, output_tokens: 1, total_tokens: 6 },
};
const generated = {
  candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'Hello' }] }, finishReason: 'STOP' }],
  usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 1, totalTokenCount: 6 },
};

/** Returns a client's request for a stream. */
const own = (fields: object): Buffer => Buffer.from(JSON.stringify({ model: 'x', stream: true, ...fields }));
const messages = [{ role: 'user', content: 'hi' }];
interface Spoken {
  readonly protocol: UpstreamProtocol;
  readonly path: string;
  readonly answer: object;
  readonly source?: Buffer;
}
const spoken: Readonly<Record<TextProtocol, Spoken>> = {
  chat: {
    protocol: chatProtocol,
    path: '/v1/chat/completions',
    answer: completion,
    source: own({ messages, stream_options: { include_usage: true } }),
  },
  messages: {
    protocol: messagesProtocol,
    path: '/v1/v1/messages',
    answer: message,
    source: own({ messages, max_tokens: 9 }),
  },
  responses: {
    protocol: responsesProtocol,
    path: '/v1/responses',
    answer: response,
    source: own({ input: 'hi', stream_options: { include_obfuscation: false } }),
  },
  gemini: {
    protocol: geminiProtocol,
    path: '/v1/v1beta/models/large-v1:generateContent',
    answer: generated,
  },
};

describe.each(Object.entries(spoken))('%s', (_, { protocol, path, answer, source }) => {
  test('is requested as JSON, and its usage and text are read', async () => {
    const upstream = await upstreamThat(socket => void socket.write(whole(200, JSON.stringify(answer))));
    const client = chatUpstream(upstream.baseUrl, { protocol });
    const sources = source === undefined ? [{}] : [{}, { source: { protocol: protocol.codec.protocol, body: source } }];
    for (const request of sources) {
      const { batches, events, failure } = await collectAnswer(client, makeCall(request, { whole: true }));
      expect([failure, batches.length, isWhole(events), readText(events)]).toEqual([undefined, 1, true, 'Hello']);
      const last = events.at(-1)?.event;
      expect(last?.case === 'completed' && last.value.usage).toMatchObject({ inputTokens: 5, outputTokens: 1 });
    }
    expect(upstream.requests.length).toBe(sources.length);
    for (const { line, headers, body } of upstream.requests) {
      expect([line, headers['accept']]).toEqual([`POST ${path} HTTP/1.1`, 'application/json']);
      expect(JSON.parse(body)).not.toHaveProperty('stream');
      expect(JSON.parse(body)).not.toHaveProperty('stream_options');
    }
  });

  test('is truncated if the connection ends within it', async () => {
    const half = JSON.stringify(answer).slice(0, 60);
    const upstream = await upstreamThat(socket => void socket.end(whole(200, half, { 'content-length': '9000' })));
    const { events, failure } = await collectAnswer(
      chatUpstream(upstream.baseUrl, { protocol }),
      makeCall({}, { whole: true }),
    );
    expect([events, failure?.kind]).toEqual([[], 'truncated']);
  });
});

const wholeCall = makeCall({}, { whole: true });
const head = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n';

test('a stream that the upstream sends anyway is read as a stream', async () => {
  const upstream = await upstreamThat(
    socket => void socket.write(Buffer.concat([Buffer.from(streamHead), chunk(golden), Buffer.from(lastChunk)])),
  );
  const { events, failure } = await collectAnswer(chatUpstream(upstream.baseUrl), wholeCall);
  expect([isWhole(events), failure]).toEqual([true, undefined]);
});

describe('time limits', () => {
  const timeouts = { ...patient, firstEventMs: 400, idleMs: 400 };
  const body = JSON.stringify(completion);
  /** Writes the answer in pieces, one after each wait. */
  const piecewise =
    (waitsMs: readonly number[]): Behaviour =>
    async socket => {
      socket.write(head);
      const size = Math.ceil(body.length / waitsMs.length);
      for (const [index, ms] of waitsMs.entries()) {
        await sleep(ms);
        socket.write(chunk(body.slice(index * size, (index + 1) * size)));
      }
      socket.write(lastChunk);
    };

  test.each([
    ['of the first event counts to the head', () => undefined, 'first_event_timeout'],
    ['of silence counts after it', (socket: Socket) => void socket.write(head), 'idle_timeout'],
    ['of silence counts between bytes', piecewise([0, 5_000]), 'idle_timeout'],
    ['of the first event does not count after the head', piecewise([200, 200, 200, 200]), undefined],
  ] as const)('%s', async (_, behaviour, kind) => {
    const upstream = await upstreamThat(behaviour);
    const { failure } = await collectAnswer(chatUpstream(upstream.baseUrl, { timeouts }), wholeCall);
    expect(failure?.kind).toBe(kind);
  });

  test('the total one applies to an answer that its receiver does not read', async () => {
    const upstream = await upstreamThat(socket => void socket.write(head));
    const client = chatUpstream(upstream.baseUrl, { timeouts: { ...timeouts, totalMs: 900 } });
    const requested = ask(client, wholeCall);
    await expect.poll(() => upstream.requests.length).toBe(1);
    requested.attempt.pause();
    const began = performance.now();
    expect((await requested.answered).failure?.kind).toBe('total_timeout');
    expect(performance.now() - began).toBeGreaterThan(600);
    await upstream.requests[0]?.closedAtMs;
  });
});

test('several answers from an upstream that gives one at a time are each requested whole', async () => {
  const upstream = await upstreamThat(socket => void socket.write(whole(200, JSON.stringify(completion))));
  const client = chatUpstream(upstream.baseUrl, { dialect: { choices: 'one' } });
  const { events, failure } = await collectAnswer(client, makeCall({ candidates: 3 }, { whole: true }));
  expect([failure, isWhole(events), readText(events), upstream.requests.length]).toEqual([
    undefined,
    true,
    'HelloHelloHello',
    3,
  ]);
  const last = events.at(-1)?.event;
  expect(last?.case === 'completed' && last.value.usage).toMatchObject({ inputTokens: 15, outputTokens: 3 });
  expect(upstream.requests.every(({ body }) => !('n' in (JSON.parse(body) as object)))).toBe(true);
});
