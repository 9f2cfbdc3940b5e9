/** Ids like HD-03 name cases of `test/translation/cases.json`. */
import type { Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { Protocol } from '../../src/gen/tollgate/v1/content_pb.ts';
import { Hold } from '../../src/generation/hold.ts';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { chatProtocol } from '../../src/upstreams/protocols.ts';
import {
  collectAnswer,
  ask,
  makeCall,
  chatUpstream,
  golden,
  isWhole,
  makeKeys,
  sleep,
  readText,
} from './call-upstream.ts';
import { type Behaviour, chunk, lastChunk, RawUpstream, type SeenRequest, streamHead, whole } from './raw-upstream.ts';

const running: RawUpstream[] = [];
afterEach(async () => {
  for (const upstream of running.splice(0)) await upstream.stop();
});

async function upstreamThat(behaviour: Behaviour): Promise<RawUpstream> {
  const upstream = await RawUpstream.start(behaviour);
  running.push(upstream);
  return upstream;
}

const answers = (socket: Socket): void => {
  socket.write(Buffer.concat([Buffer.from(streamHead), chunk(golden), Buffer.from(lastChunk)]));
};
const refuses =
  (status: number, error: object = {}, headers: Record<string, string> = {}): Behaviour =>
  socket =>
    void socket.write(whole(status, JSON.stringify({ error: { message: `status ${status}`, ...error } }), headers));
/** The source of a request with fields that Chat upstreams do not have. */
const strange = { protocol: Protocol.MESSAGES, body: Buffer.from('{}'), unknownFields: ['foo', 'bar'] };
const parseBody = (request: SeenRequest | undefined): Record<string, unknown> => JSON.parse(request?.body ?? '{}');

describe('the request that is sent', () => {
  test('is a POST to a path below the base URL, requests a stream with usage, and has the upstream’s name of the model', async () => {
    const upstream = await upstreamThat(answers);
    const { events, failure } = await collectAnswer(
      chatUpstream(upstream.baseUrl),
      makeCall({}, { maxOutputTokens: 77 }),
    );
    expect([failure, isWhole(events)]).toEqual([undefined, true]);
    const [request] = upstream.requests;
    expect(request?.line).toBe('POST /v1/chat/completions HTTP/1.1');
    expect(parseBody(request)).toMatchObject({
      model: 'large-v1',
      stream: true,
      stream_options: { include_usage: true },
      messages: [{ role: 'user', content: 'hi' }],
    });
    expect(request?.headers).toMatchObject({
      'content-type': 'application/json',
      accept: 'text/event-stream, application/json',
      'user-agent': 'tollgate',
      'content-length': `${Buffer.byteLength(request?.body ?? '')}`,
    });
    expect(request?.headers).not.toHaveProperty('authorization');
  });

  test.each([
    ['', '/v1/chat/completions'],
    ['/', '/v1/chat/completions'],
    ['/deep//', '/v1/deep/chat/completions'],
    ['?api-version=1', '/v1/chat/completions?api-version=1'],
  ])('with a base URL that ends in %j, is sent to %s', async (ending, path) => {
    const upstream = await upstreamThat(answers);
    await collectAnswer(chatUpstream(upstream.baseUrl + ending));
    expect(upstream.requests[0]?.line).toBe(`POST ${path} HTTP/1.1`);
  });

  test('has the key, the configured headers, and the headers of a client of the same protocol', async () => {
    const upstream = await upstreamThat(answers);
    const [team] = makeKeys('blue');
    const client = chatUpstream(upstream.baseUrl, {
      keys: makeKeys('secret-key'),
      headers: { 'x-team': team ?? { reveal: () => '' }, 'user-agent': { reveal: () => 'mine' } },
    });
    const source = {
      protocol: Protocol.CHAT,
      body: Buffer.from('{"messages":[],"foo":1}'),
      headers: { traceparent: 'x=1' },
    };
    await collectAnswer(client, makeCall({ source }));
    expect(upstream.requests[0]?.headers).toMatchObject({
      authorization: 'Bearer secret-key',
      'x-team': 'blue',
      'user-agent': 'mine',
      traceparent: 'x=1',
    });
    expect(parseBody(upstream.requests[0])).toMatchObject({ foo: 1 });
    await collectAnswer(client, makeCall({ source: { ...source, protocol: Protocol.MESSAGES } }));
    expect(upstream.requests[1]?.headers).not.toHaveProperty('traceparent');
  });

  test('reports the fields that were dropped for this upstream; a strict request is refused instead', async () => {
    const upstream = await upstreamThat(answers);
    const { events } = await collectAnswer(chatUpstream(upstream.baseUrl), makeCall({ source: strange }));
    const [first] = events;
    expect(first?.event.case === 'started' && first.event.value.warnings).toEqual(['dropped=foo,bar']);
    const strict = collectAnswer(chatUpstream(upstream.baseUrl), makeCall({ source: strange, strict: true }));
    await expect(strict).rejects.toThrow(GatewayError);
    expect(upstream.requests.length).toBe(1);
  });
});

describe('an answer', () => {
  test('comes in one batch for each write of the upstream, as soon as it has arrived', async () => {
    let goOn: () => void = () => undefined;
    const upstream = await upstreamThat(socket => {
      const frames = golden.toString().split(/(?<=\n\n)/);
      socket.write(streamHead + chunk(frames.slice(0, 2).join('')).toString());
      goOn = () => void socket.write(Buffer.concat([chunk(frames.slice(2).join('')), Buffer.from(lastChunk)]));
    });
    const { batches, answered } = ask(chatUpstream(upstream.baseUrl));
    await expect.poll(() => batches.length).toBe(1);
    expect(readText(batches[0] ?? [])).toBe('Hel');
    goOn();
    await answered;
    const rest = batches[1] ?? [];
    expect([readText(rest).startsWith('lo 😀'), rest.at(-1)?.event.case, batches.length]).toEqual([
      true,
      'completed',
      2,
    ]);
  });

  test('lets later requests reuse its connection', async () => {
    const upstream = await upstreamThat(answers);
    const client = chatUpstream(upstream.baseUrl);
    // A connection is free only a moment after its answer was read, so two may be needed.
    for (let request = 0; request < 9; request += 1) await collectAnswer(client);
    expect(Math.max(...upstream.requests.map(({ connection }) => connection))).toBeLessThanOrEqual(2);
    const refused = await upstreamThat(refuses(500));
    const refusedClient = chatUpstream(refused.baseUrl);
    for (let request = 0; request < 9; request += 1) await collectAnswer(refusedClient);
    expect(Math.max(...refused.requests.map(({ connection }) => connection))).toBeLessThanOrEqual(2);
  });

  test('that goes on after its end is not read further, and its connection is closed', async () => {
    const upstream = await upstreamThat(socket => {
      socket.write(Buffer.concat([Buffer.from(streamHead), chunk(golden)]));
      const timer = setInterval(() => socket.write(chunk('x'.repeat(20_000))), 5);
      socket.once('close', () => clearInterval(timer));
    });
    const { events, failure } = await collectAnswer(chatUpstream(upstream.baseUrl));
    const ended = performance.now();
    expect([isWhole(events), failure]).toEqual([true, undefined]);
    expect(((await upstream.requests[0]?.closedAtMs) ?? Infinity) - ended).toBeLessThan(1_000);
  });

  test('that is silent after its finish reason soon counts as whole, without usage (US-12)', async () => {
    const frames = golden.toString().split(/(?<=\n\n)/);
    const finish = frames.findIndex(frame => frame.includes('"finish_reason":"tool_calls"'));
    const upstream = await upstreamThat(socket => {
      socket.write(Buffer.concat([Buffer.from(streamHead), chunk(frames.slice(0, finish + 1).join(''))]));
    });
    const began = performance.now();
    const { events, failure } = await collectAnswer(chatUpstream(upstream.baseUrl));
    expect([isWhole(events), failure]).toEqual([true, undefined]);
    const last = events.at(-1)?.event;
    expect(last?.case === 'completed' && last.value.usage).toBeUndefined();
    // The timeout for silence in an answer is twenty seconds.
    expect(performance.now() - began).toBeLessThan(10_000);
  });

  test('whose connection stays open without data after its end is complete, and the connection is closed', async () => {
    const upstream = await upstreamThat(socket => {
      socket.write(Buffer.concat([Buffer.from(streamHead), chunk(golden)]));
    });
    expect(isWhole((await collectAnswer(chatUpstream(upstream.baseUrl))).events)).toBe(true);
    const ended = performance.now();
    expect(((await upstream.requests[0]?.closedAtMs) ?? Infinity) - ended).toBeLessThan(3_000);
  });

  test('that nobody reads does not fill memory: the upstream has to wait', async () => {
    let written = 0;
    const upstream = await upstreamThat(socket => {
      socket.write(streamHead);
      const frame = chunk(golden.toString().split(/(?<=\n\n)/)[2] + ' '.repeat(16_000) + '\n\n');
      socket.write(chunk(golden.toString().split(/(?<=\n\n)/)[0] ?? ''));
      const fill = (): void => {
        while (written < 400_000_000 && socket.write(frame)) written += frame.length;
      };
      socket.on('drain', fill);
      fill();
    });
    let taken = 0;
    const requested = ask(chatUpstream(upstream.baseUrl), undefined, ({ attempt, batches }) => {
      taken += batches.pop()?.length ?? 0;
      attempt.pause();
    });
    await sleep(500);
    expect(written).toBeGreaterThan(16_000);
    expect(written).toBeLessThan(20_000_000);
    const [takenPaused, writtenPaused] = [taken, written];
    await sleep(200);
    expect([taken, written]).toEqual([takenPaused, writtenPaused]);
    const going = setInterval(() => requested.attempt.resume(), 1);
    await expect.poll(() => written, { timeout: 10_000 }).toBeGreaterThan(writtenPaused + 5_000_000);
    clearInterval(going);
    requested.attempt.cancel();
    await upstream.requests[0]?.closedAtMs;
    expect([taken > takenPaused, requested.hasEnded]).toEqual([true, false]);
  });
});

test('several answers over separate connections arrive whole at a receiver that pauses at every batch', async () => {
  const frames = golden.toString().split(/(?<=\n\n)/);
  const upstream = await upstreamThat(async socket => {
    socket.write(streamHead);
    for (const frame of frames) {
      socket.write(chunk(frame));
      await sleep(2);
    }
    socket.write(lastChunk);
  });
  const client = chatUpstream(upstream.baseUrl, { dialect: { choices: 'one' } });
  const { answered } = ask(client, makeCall({ candidates: 3 }), ({ attempt }) => {
    attempt.pause();
    // Resumes at once or in a later turn of the event loop, even while another connection is read.
    if (Math.random() < 0.5) attempt.resume();
    else setImmediate(() => attempt.resume());
  });
  const { events, failure } = await answered;
  const text = readText((await collectAnswer(client)).events);
  expect([failure, isWhole(events), readText(events).length]).toEqual([undefined, true, 3 * text.length]);
  expect(new Set(events.map(({ choice }) => choice))).toEqual(new Set([0, 1, 2]));
});

describe('cancelling an attempt', () => {
  const stages: Record<string, Behaviour> = {
    'before the head': () => undefined,
    'after the head': socket => void socket.write(streamHead),
    'in the answer': socket => void socket.write(streamHead + chunk(golden.subarray(0, 900)).toString()),
    'in an error’s body': socket => void socket.write('HTTP/1.1 500 No\r\ncontent-length: 500\r\n\r\n{"error":'),
  };
  test.each(Object.entries(stages))('closes the upstream’s connection within a second: %s', async (_, behaviour) => {
    const upstream = await upstreamThat(behaviour);
    const requested = ask(chatUpstream(upstream.baseUrl));
    await expect.poll(() => upstream.requests.length).toBe(1);
    await sleep(50);
    const before = requested.batches.length;
    const left = performance.now();
    requested.attempt.cancel();
    expect(((await upstream.requests[0]?.closedAtMs) ?? Infinity) - left).toBeLessThan(1_000);
    await sleep(20);
    expect([requested.batches.length, requested.hasEnded]).toEqual([before, false]);
  });

  test('before the connection is open sends nothing', async () => {
    const upstream = await upstreamThat(answers);
    const requested = ask(chatUpstream(upstream.baseUrl));
    requested.attempt.cancel();
    requested.attempt.cancel();
    await sleep(100);
    expect([upstream.requests.length, requested.batches, requested.hasEnded]).toEqual([0, [], false]);
  });

  test('stops all further calls to the receiver; if the answer has arrived whole, its connection is still reused', async () => {
    const upstream = await upstreamThat(answers);
    const client = chatUpstream(upstream.baseUrl);
    for (let request = 0; request < 5; request += 1) {
      const requested = ask(client, undefined, ({ attempt }) => attempt.cancel());
      await expect.poll(() => requested.batches.length).toBe(1);
      await sleep(20);
      expect([requested.batches.length, requested.hasEnded]).toEqual([1, false]);
    }
    expect(Math.max(...upstream.requests.map(({ connection }) => connection))).toBeLessThanOrEqual(2);
    const refused = ask(client, makeCall({ source: strange, strict: true }));
    refused.attempt.cancel();
    await sleep(20);
    expect(refused.hasEnded).toBe(false);
  });
});

describe('an error status', () => {
  test.each([400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 529])(
    '%i is reported with the upstream’s message',
    async status => {
      const upstream = await upstreamThat(refuses(status));
      const { failure } = await collectAnswer(chatUpstream(upstream.baseUrl));
      expect([failure?.kind, failure?.facts.status, failure?.facts.message]).toEqual([
        'status',
        status,
        `status ${status}`,
      ]);
    },
  );

  test('is reported with the field and the wait that the upstream names', async () => {
    const upstream = await upstreamThat(refuses(429, { param: 'messages' }, { 'retry-after': '3' }));
    const { failure } = await collectAnswer(chatUpstream(upstream.baseUrl));
    expect([failure?.facts.param, failure?.facts.retryAfterMs]).toEqual(['messages', 3_000]);
  });

  test('is reported as a too long input if the upstream says so', async () => {
    const upstream = await upstreamThat(refuses(400, { code: 'context_length_exceeded' }));
    expect((await collectAnswer(chatUpstream(upstream.baseUrl))).failure?.facts.meaning).toBe('too_long');
  });

  test('is reported even if its body breaks off, never ends, is huge or is not JSON', async () => {
    const bodies: Behaviour[] = [
      socket => void socket.end('HTTP/1.1 500 No\r\ncontent-length: 500\r\n\r\n{"error":'),
      socket =>
        void socket.write(
          `HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n${chunk('x'.repeat(2_000_000)).toString()}`,
        ),
      socket => void socket.write(whole(500, '<html>nginx at 10.1.2.3</html>', { 'content-type': 'text/html' })),
      socket => void socket.write(whole(500, '')),
    ];
    for (const behaviour of bodies) {
      const upstream = await upstreamThat(behaviour);
      const { failure } = await collectAnswer(chatUpstream(upstream.baseUrl));
      expect([failure?.kind, failure?.facts.status, failure?.facts.message?.includes('10.1.2.3') ?? false]).toEqual([
        'status',
        500,
        false,
      ]);
    }
  });

  test('is also reported for a redirect, which is not followed, so that no other server gets the key', async () => {
    const thief = await upstreamThat(answers);
    const location = `http://127.0.0.1:${thief.port}/v1/chat/completions`;
    for (const status of [301, 302, 303, 307, 308]) {
      const upstream = await upstreamThat(socket => void socket.write(whole(status, '', { location })));
      const { failure } = await collectAnswer(chatUpstream(upstream.baseUrl, { keys: makeKeys('secret-key') }));
      expect([failure?.kind, failure?.facts.status, thief.requests.length]).toEqual(['status', status, 0]);
    }
  });
});

test('no failure contains a credential, an address or a header of the upstream', async () => {
  const secrets = ['canary-key-1234567890', 'canary-header-0987654321'];
  const leak = (port: number): string =>
    `key ${secrets[0]} header ${secrets[1]} at http://127.0.0.1:${port}/v1, 127.0.0.1:${port}, localhost:${port}`;
  const behaviours: ((port: number) => Behaviour)[] = [
    port => refuses(400, { message: leak(port), param: leak(port) }),
    port => refuses(401, { message: leak(port) }),
    port => refuses(500, { message: leak(port) }),
    port => socket => void socket.write(whole(503, leak(port), { 'content-type': 'text/plain' })),
    port => socket =>
      void socket.write(
        streamHead + chunk(`data: ${JSON.stringify({ error: { message: leak(port) } })}\n\n`).toString(),
      ),
    port => socket => void socket.end(leak(port)),
    () => socket => void socket.destroy(),
  ];
  for (const behaviour of behaviours) {
    let port = 0;
    const upstream = await upstreamThat(async (socket, request) => {
      await behaviour(port)(socket, request);
    });
    ({ port } = upstream);
    const client = chatUpstream(upstream.baseUrl, {
      keys: makeKeys(secrets[0] ?? ''),
      headers: { 'x-tenant': { reveal: () => secrets[1] ?? '' } },
    });
    const { failure } = await collectAnswer(client);
    expect(failure).toBeInstanceOf(UpstreamFailure);
    const reported = JSON.stringify([failure?.message, failure?.facts.message, failure?.facts.param]);
    for (const secret of [...secrets, '127.0.0.1', 'localhost', `${port}`]) expect(reported).not.toContain(secret);
  }
});

describe('the keys of a provider', () => {
  const readKey = ({ headers }: SeenRequest): string => headers['authorization'] ?? 'none';

  test('are chosen by the account and the beginning of the conversation', async () => {
    const upstream = await upstreamThat(answers);
    const client = chatUpstream(upstream.baseUrl, { keys: makeKeys('k1', 'k2') });
    const ask = async (accountId: number): Promise<string> => {
      await collectAnswer(client, makeCall({}, { accountId }));
      return upstream.requests.map(readKey).at(-1) ?? '';
    };
    const keys = new Set<string>();
    for (let accountId = 1; accountId <= 12; accountId += 1) {
      const key = await ask(accountId);
      keys.add(key);
      expect(await ask(accountId)).toBe(key);
    }
    expect(keys).toEqual(new Set(['Bearer k1', 'Bearer k2']));
  });

  test.each([401, 403, 404])('are tried in turn within an attempt if one gets %i', async status => {
    const upstream = await upstreamThat(async (socket, request) => {
      await (readKey(request) === 'Bearer good' ? answers(socket) : refuses(status)(socket, request));
    });
    const orders = new Set<string>();
    for (let accountId = 1; accountId <= 40; accountId += 1) {
      const client = chatUpstream(upstream.baseUrl, { keys: makeKeys('bad1', 'bad2', 'good') });
      const { events, failure } = await collectAnswer(client, makeCall({}, { accountId }));
      expect([isWhole(events), failure]).toEqual([true, undefined]);
      orders.add(upstream.requests.splice(0).map(readKey).join());
    }
    const [bad1, bad2, good] = ['Bearer bad1', 'Bearer bad2', 'Bearer good'];
    const all = [[good], [bad1, good], [bad2, good], [bad1, bad2, good], [bad2, bad1, good]];
    expect(orders).toEqual(new Set(all.map(order => order.join())));
  });

  test('are not tried again by the same request if all were refused', async () => {
    const upstream = await upstreamThat(refuses(401));
    const client = chatUpstream(upstream.baseUrl, { keys: makeKeys('bad1', 'bad2') });
    const hold = Hold.of({ kind: 'admitted', id: 5 });
    const first = await collectAnswer(client, makeCall({}, { hold }));
    const again = await collectAnswer(client, makeCall({}, { hold, attempt: 2 }));
    expect([first.failure?.facts.status, again.failure?.facts.status, upstream.requests.length]).toEqual([401, 401, 2]);
  });

  test('are sent in the header that the protocol requires', async () => {
    const ways = { bearer: 'authorization', xApiKey: 'x-api-key', xGoogApiKey: 'x-goog-api-key' } as const;
    for (const [authentication, header] of Object.entries(ways)) {
      const upstream = await upstreamThat(answers);
      const protocol = { ...chatProtocol, authentication: authentication as keyof typeof ways };
      await collectAnswer(chatUpstream(upstream.baseUrl, { protocol, keys: makeKeys('k1') }));
      expect(upstream.requests[0]?.headers[header]).toBe(authentication === 'bearer' ? 'Bearer k1' : 'k1');
      expect(upstream.requests[0]?.line).not.toContain('k1');
    }
  });
});

test('TR-11: a tool whose name the upstream’s protocol does not allow is sent under an allowed name', async () => {
  const upstream = await upstreamThat((socket, request) => {
    const { tools } = parseBody(request) as { tools: { function: { name: string } }[] };
    const call = { id: 'c', type: 'function', function: { name: tools[0]?.function.name, arguments: '{}' } };
    const choice = { index: 0, message: { role: 'assistant', tool_calls: [call] }, finish_reason: 'tool_calls' };
    socket.write(whole(200, JSON.stringify({ object: 'chat.completion', choices: [choice] })));
  });
  const name = `mcp__server__${'x'.repeat(100)}`;
  const tools = [{ tool: { case: 'function' as const, value: { name, parametersJson: '{}' } } }];
  const { events, failure } = await collectAnswer(chatUpstream(upstream.baseUrl), makeCall({ tools }));
  expect(failure).toBeUndefined();
  const opened = events.flatMap(({ event }) => (event.case === 'itemOpened' ? [event.value.content?.content] : []));
  expect(opened).toMatchObject([{ case: 'toolCall', value: { name } }]);
  expect(upstream.requests[0]?.body).toMatch(/"name":"mcp__server__x{38}_[0-9a-f]{12}"/);
});

test('HD-03: a credential in another scheme can be configured as a header, and is then the only one that is sent', async () => {
  const upstream = await upstreamThat(answers);
  const [token] = makeKeys('Bearer sk-ant-oat01-x');
  const client = chatUpstream(upstream.baseUrl, {
    protocol: { ...chatProtocol, authentication: 'xApiKey' },
    headers: { authorization: token ?? { reveal: () => '' } },
  });
  await collectAnswer(client);
  expect(upstream.requests[0]?.headers['authorization']).toBe('Bearer sk-ant-oat01-x');
  expect(upstream.requests[0]?.headers).not.toHaveProperty('x-api-key');
});

test('a configured proxy is used, except for the hosts that are reached directly', async () => {
  const proxy = await upstreamThat(answers);
  const upstream = await upstreamThat(answers);
  const httpProxy = `http://127.0.0.1:${proxy.port}`;
  const { events } = await collectAnswer(
    chatUpstream('http://models.example/v1', { proxy: { httpProxy, noProxy: '127.0.0.1' } }),
  );
  expect([isWhole(events), proxy.requests[0]?.line]).toEqual([
    true,
    'POST http://models.example/v1/chat/completions HTTP/1.1',
  ]);
  await collectAnswer(chatUpstream(upstream.baseUrl, { proxy: { httpProxy, noProxy: '127.0.0.1' } }));
  expect([proxy.requests.length, upstream.requests.length]).toEqual([1, 1]);
});

test('a closed upstream client closes its connections once running calls have ended', async () => {
  const upstream = await upstreamThat(answers);
  const client = chatUpstream(upstream.baseUrl);
  await collectAnswer(client);
  await client.close();
  await upstream.requests[0]?.closedAtMs;
  // A request that was admitted before this route was removed may still use it for another attempt.
  expect((await collectAnswer(client)).failure).toBeUndefined();
  await upstream.requests[1]?.closedAtMs;
});
