import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import type { UpstreamFailureKind } from '../../src/generation/upstream.ts';
import { collectAnswer, ask, chatUpstream, golden, isWhole, patient, sleep, readText } from './call-upstream.ts';
import { type Behaviour, chunk, lastChunk, RawUpstream, streamHead, whole } from './raw-upstream.ts';

const running: RawUpstream[] = [];
afterEach(async () => {
  for (const upstream of running.splice(0)) await upstream.stop();
});

async function upstreamThat(behaviour: Behaviour): Promise<RawUpstream> {
  const upstream = await RawUpstream.start(behaviour);
  running.push(upstream);
  return upstream;
}

const frames = golden.toString('utf8').split(/(?<=\n\n)/);
const until = (what: string): string => frames.slice(0, frames.findIndex(frame => frame.includes(what)) + 1).join('');
const half = (text: string): string => text.slice(0, Math.floor(text.length / 2));
/** A frame and half of the next. */
const within = (what: string, next: string): string =>
  until(what) + half(frames.find(frame => frame.includes(next)) ?? '');

/** What the upstream sends before the fault; undefined: not even the head. */
const moments = {
  'before the head': undefined,
  'after the head': '',
  'in the first event': half(frames[0] ?? ''),
  'in a text': within('"Hel"', 'lo 😀'),
  'in a tool call': within('{\\"ci', 'ty\\":'),
  'before the finish': until('"call_2"'),
  'after the finish': until('"finish_reason":"tool_calls"'),
  'before the end': until('"total_tokens":150'),
} as const;
type Moment = keyof typeof moments;

const oversized = `data: {"x":"${'y'.repeat(40_000)}`;

const faults = {
  reset: (socket: Socket) => void socket.resetAndDestroy(),
  close: (socket: Socket) => void socket.end(),
  stall: () => undefined,
  'broken framing': (socket: Socket) => void socket.write('this is not HTTP\r\n\r\n'),
  garbage: (socket: Socket) => void socket.write(chunk('\n\ndata: {"choices":[{"del\u0000}}\n\n')),
  'an event that is too large': (socket: Socket) => void socket.write(chunk(oversized)),
  'an error': (socket: Socket) =>
    void socket.write(chunk('\n\ndata: {"error":{"message":"out of memory","type":"server_error","code":null}}\n\n')),
  'a clean end': (socket: Socket) => void socket.write(lastChunk),
} as const;
type Fault = keyof typeof faults;

/** The failure for each fault at each moment; `whole`: the answer is complete without the missing part. */
const expected: Record<Fault, Record<'head' | 'empty' | 'begun' | 'finished', UpstreamFailureKind | 'whole'>> = {
  reset: { head: 'connect', empty: 'truncated', begun: 'truncated', finished: 'whole' },
  close: { head: 'connect', empty: 'truncated', begun: 'truncated', finished: 'whole' },
  stall: { head: 'first_event_timeout', empty: 'first_event_timeout', begun: 'idle_timeout', finished: 'whole' },
  'broken framing': { head: 'malformed', empty: 'malformed', begun: 'malformed', finished: 'whole' },
  garbage: { head: 'malformed', empty: 'malformed', begun: 'malformed', finished: 'whole' },
  'an event that is too large': { head: 'malformed', empty: 'malformed', begun: 'malformed', finished: 'whole' },
  'an error': { head: 'malformed', empty: 'reported', begun: 'reported', finished: 'reported' },
  'a clean end': { head: 'malformed', empty: 'truncated', begun: 'truncated', finished: 'whole' },
};

function findStage(moment: Moment): 'head' | 'empty' | 'begun' | 'finished' {
  if (moment === 'before the head') return 'head';
  if (moment === 'after the head' || moment === 'in the first event') return 'empty';
  return moment === 'after the finish' || moment === 'before the end' ? 'finished' : 'begun';
}

const matrix = Object.keys(faults).flatMap(fault =>
  Object.keys(moments).map(moment => [fault, moment] as [Fault, Moment]),
);

describe('a fault in a stream is reported as a failure, never as a success, and the attempt never hangs', () => {
  test.concurrent.each(matrix)('%s %s', async (fault, moment) => {
    const before = moments[moment];
    const upstream = await RawUpstream.start(async socket => {
      if (before !== undefined) socket.write(streamHead);
      if (before !== undefined && before !== '') socket.write(chunk(before));
      // The written bytes must be read before the reset, which discards unread ones.
      await sleep(50);
      faults[fault](socket);
    });
    // Only silence may be ended by a timeout; on a busy machine other faults and first events take their time.
    const { firstEventMs, idleMs } = fault === 'stall' ? { firstEventMs: 400, idleMs: 400 } : patient;
    const timeouts = {
      ...patient,
      firstEventMs: findStage(moment) === 'begun' ? patient.firstEventMs : firstEventMs,
      idleMs,
    };
    const client = chatUpstream(upstream.baseUrl, { timeouts, eventBytesMax: 20_000 });
    const started = performance.now();
    const { events, failure } = await collectAnswer(client);
    const stage = findStage(moment);
    // A damaged event is noticed before the fault, because half an event with a blank line after it can't be parsed.
    const inEvent = fault === 'an error' && moment.startsWith('in ');
    const kind = inEvent ? 'malformed' : expected[fault][stage];
    expect(failure?.kind ?? (isWhole(events) ? 'whole' : 'nothing')).toBe(kind);
    expect(performance.now() - started).toBeLessThan(patient.idleMs / 2);
    // Everything before the fault was delivered.
    if (stage === 'head' || stage === 'empty') expect(events).toEqual([]);
    else expect(readText(events).startsWith('Hel')).toBe(true);
    await upstream.stop();
  });
});

test('a stream that is cut at any byte counts as truncated before its finish reason, and as whole after it', async () => {
  const finish = Buffer.from(until('"finish_reason":"tool_calls"')).length;
  let cut = 0;
  const upstream = await upstreamThat(socket => {
    socket.write(streamHead);
    if (cut > 0) socket.write(chunk(golden.subarray(0, cut)));
    socket.end(lastChunk);
  });
  const client = chatUpstream(upstream.baseUrl);
  for (cut = 0; cut <= golden.length; cut += 37) {
    const { events, failure } = await collectAnswer(client);
    // Only the blank line that ends the frame may be missing.
    if (cut < finish - 2) expect([cut, failure?.kind, isWhole(events)]).toEqual([cut, 'truncated', false]);
    else expect([cut, failure, isWhole(events)]).toEqual([cut, undefined, true]);
  }
});

describe('an answer that is not streamed', () => {
  const completion = {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_790_000_000,
    model: 'large-v1',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop', logprobs: null }],
    usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
  };

  test.each(['application/json', 'text/event-stream', 'text/plain'])(
    'gives the same events as a stream, with content type %s',
    async type => {
      const body = JSON.stringify(completion);
      const upstream = await upstreamThat(socket => void socket.write(whole(200, body, { 'content-type': type })));
      const { batches, events, failure } = await collectAnswer(chatUpstream(upstream.baseUrl));
      expect([batches.length, readText(events), isWhole(events), failure]).toEqual([1, 'Hello', true, undefined]);
      expect(events[0]?.event.case).toBe('started');
    },
  );

  test.each([
    ['a web page', whole(200, '<html>login</html>', { 'content-type': 'text/html' }), 'malformed'],
    ['half of the JSON', whole(200, JSON.stringify(completion).slice(0, 100)), 'truncated'],
    ['JSON of something else', whole(200, '{"weather":"fine"}'), 'malformed'],
    ['nothing', whole(200, ''), 'truncated'],
    ['an empty answer', 'HTTP/1.1 204 No Content\r\n\r\n', 'truncated'],
    ['a too large body', whole(200, JSON.stringify({ ...completion, pad: 'x'.repeat(1_000_000) })), 'malformed'],
    ['a body that is shorter than announced', whole(200, '{}', { 'content-length': '500' }), 'truncated'],
  ])('%s is a failure', async (_, answer, kind) => {
    const upstream = await upstreamThat(socket => void socket.end(answer));
    const { events, failure } = await collectAnswer(chatUpstream(upstream.baseUrl));
    expect([events, failure?.kind]).toEqual([[], kind]);
  });
});

describe('the timeout', () => {
  test('of the whole answer ends a stream that never pauses', async () => {
    const upstream = await upstreamThat(socket => {
      socket.write(streamHead);
      socket.write(chunk(frames.slice(0, 2).join('')));
      const timer = setInterval(() => socket.write(chunk(frames[2] ?? '')), 20);
      socket.once('close', () => clearInterval(timer));
    });
    const timeouts = { ...patient, idleMs: 500, totalMs: 600 };
    const { failure } = await collectAnswer(chatUpstream(upstream.baseUrl, { timeouts }));
    expect(failure?.kind).toBe('total_timeout');
    expect(upstream.requests.length).toBe(1);
  });

  test('of the first event is not extended by comments; the idle timeout is', async () => {
    const comments = (socket: Socket): void => {
      const timer = setInterval(() => socket.write(chunk(': busy\n\n')), 50);
      socket.once('close', () => clearInterval(timer));
    };
    const early = await upstreamThat(socket => {
      socket.write(streamHead);
      comments(socket);
    });
    const first = { ...patient, firstEventMs: 300 };
    const { failure } = await collectAnswer(chatUpstream(early.baseUrl, { timeouts: first }));
    expect(failure?.kind).toBe('first_event_timeout');
    const late = await upstreamThat(socket => {
      socket.write(streamHead);
      socket.write(chunk(frames.slice(0, 3).join('')));
      comments(socket);
    });
    const timeouts = { ...patient, idleMs: 700, totalMs: 1_500 };
    expect((await collectAnswer(chatUpstream(late.baseUrl, { timeouts }))).failure?.kind).toBe('total_timeout');
  });

  test('for idle answers does not run while the reader has paused the answer', async () => {
    const upstream = await upstreamThat(socket => {
      socket.write(streamHead);
      socket.write(chunk(frames.slice(0, 3).join('')));
      setTimeout(() => socket.write(Buffer.concat([chunk(frames.slice(3).join('')), Buffer.from(lastChunk)])), 850);
    });
    const client = chatUpstream(upstream.baseUrl, { timeouts: { ...patient, idleMs: 400 } });
    const requested = ask(client, undefined, ({ attempt }) => {
      attempt.pause();
      setTimeout(() => attempt.resume(), 600);
    });
    expect(isWhole((await requested.answered).events)).toBe(true);
  });

  test('of the connection is reported as a connection error', async () => {
    // An address of a documentation network, where nothing answers or refuses.
    const timeouts = { ...patient, connectMs: 200 };
    const started = performance.now();
    const { failure } = await collectAnswer(chatUpstream('http://192.0.2.1:9/v1', { timeouts }));
    expect([failure?.kind, performance.now() - started < 2_000]).toEqual(['connect', true]);
  });
});

test('a refused connection is a connection error', async () => {
  const gone = await RawUpstream.start(() => undefined);
  const { baseUrl } = gone;
  await gone.stop();
  expect((await collectAnswer(chatUpstream(baseUrl))).failure?.kind).toBe('connect');
});

test('nothing is sent to a server whose certificate is not trusted', async () => {
  const pem = readFileSync(new URL('fixtures/self-signed.pem', import.meta.url));
  let requests = 0;
  const server = createServer({ key: pem, cert: pem }, (_, response) => {
    requests += 1;
    response.end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const { failure } = await collectAnswer(chatUpstream(`https://127.0.0.1:${port}/v1`));
  expect([failure?.kind, requests]).toEqual(['connect', 0]);
  server.close();
});
