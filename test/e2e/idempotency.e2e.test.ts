/** Requests with an Idempotency-Key, as clients see them (docs/accounting.md "Idempotency"): one upstream call, one charge, the same answer for a day. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, describe, expect, test } from 'vitest';
import { toBinary } from '@bufbuild/protobuf';
import { GenerateResponseSchema } from '../../src/gen/tollgate/v1/generation_pb.ts';
import { Delivery } from '../../src/gen/tollgate/v1/request_pb.ts';
import { endGateway, type Gateway, heldBy, startGateway } from '../gateway.ts';
import { startGateway as startShared } from '../hosted-gateway.ts';
import { call, newAccount, newKey, type RecordJson } from './account-client.ts';
import { post } from './chat-client.ts';
import { rpcClient, rpcRequest } from './upstream-callers.ts';

const config = 'simulator: { tokens_per_second: 0 }\nretries: 0\ntimeouts: { idle: 1s }\n';
const gateway = await startShared({ config, balance: '100' });
afterAll(() => endGateway(gateway));

/** An answer, unchanged. */
interface Came {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly code: string | undefined;
}

async function came(response: Response): Promise<Came> {
  const text = await response.text();
  const code = response.status === 200 ? undefined : (JSON.parse(text) as { error: { code: string } }).error.code;
  return { status: response.status, headers: response.headers, text, code };
}

interface Interface {
  readonly name: string;
  readonly path: string;
  /** Returns a body with that prompt, and the members that the interface requires. */
  readonly ask: (text: string) => object;
}
const makeMessages = (content: string) => ({ messages: [{ role: 'user', content }] });
const chat: Interface = { name: 'Chat', path: '/v1/chat/completions', ask: makeMessages };
const messages: Interface = {
  name: 'Messages',
  path: '/v1/messages',
  ask: text => ({ max_tokens: 500, ...makeMessages(text) }),
};
const responses: Interface = { name: 'Responses', path: '/v1/responses', ask: input => ({ input }) };

const makeBody = ({ ask }: Interface, line: string, stream: boolean): string =>
  JSON.stringify({ model: 'sim/large', stream, ...ask(`Tolls\n!sim ${line}`) });

/** Makes a client with a new account. */
async function makeClient(on: Gateway = gateway, settings: object = {}) {
  const { managementKey } = await newAccount(on, 1);
  const apiKey = await newKey(on, settings, managementKey);
  return {
    managementKey,
    apiKey,
    send: async (path: string, body: string, key: string | undefined, signal?: AbortSignal): Promise<Came> =>
      came(
        await post(on, path, body, {
          key: apiKey.key,
          headers: key === undefined ? {} : { 'idempotency-key': key },
          ...(signal === undefined ? {} : { signal }),
        }),
      ),
    records: async (): Promise<RecordJson[]> =>
      (await call<{ data: RecordJson[] }>(on, 'GET', '/activity', { key: managementKey })).body.data,
  };
}

/** Waits until a request runs; the tests run one after the other, so that it is their own. */
const expectAdmitted = async (): Promise<void> => {
  await expect.poll(() => heldBy(gateway), { interval: 10 }).toBeGreaterThan(0n);
};

/** Returns the parts of an answer that a repeat must have in common with the first one. */
const gist = ({ status, text, headers }: Came) => ({
  status,
  text,
  headers: ['content-type', 'x-request-id', 'request-id', 'x-tollgate-cost', 'x-tollgate-warnings'].map(name =>
    headers.get(name),
  ),
});

describe.each([chat, messages, responses])('$name', requested => {
  describe.each([
    ['whole', false],
    ['streamed', true],
  ] as const)('%s', (_, stream) => {
    const { path } = requested;

    test('a repeat gets the same answer, byte for byte, from one generation', async () => {
      const { send, records } = await makeClient();
      const key = randomUUID();
      const body = makeBody(requested, 'tokens=60', stream);
      const first = await send(path, body, key);
      expect(first.status).toBe(200);
      expect(first.headers.get('idempotent-replayed')).toBeNull();
      for (let count = 0; count < 3; count += 1) {
        const again = await send(path, body, key);
        expect(gist(again)).toEqual(gist(first));
        expect(again.headers.get('idempotent-replayed')).toBe('true');
      }
      const made = await records();
      expect(made.map(({ request_id, state }) => [request_id, state])).toEqual([
        [first.headers.get('x-request-id'), 'completed'],
      ]);
      // The same body with another Idempotency-Key, or with none, is a new request.
      const other = await send(path, body, randomUUID());
      const none = await send(path, body, undefined);
      expect(new Set([first, other, none].map(({ headers }) => headers.get('x-request-id'))).size).toBe(3);
      expect(await records()).toHaveLength(3);
    });

    test('the same key with another body, even one that differs by a space, is refused with 422', async () => {
      const { send, records } = await makeClient();
      const key = randomUUID();
      const body = makeBody(requested, 'tokens=5', stream);
      await send(path, body, key);
      for (const changed of [
        ` ${body}`,
        body.replace('tokens=5', 'tokens=6'),
        body.replace('"stream"', '"user":null,"stream"'),
      ]) {
        const reused = await send(path, changed, key);
        expect([reused.status, reused.code, reused.headers.get('x-should-retry')]).toEqual([
          422,
          'idempotency_key_reused',
          'false',
        ]);
      }
      expect((await send(path, body, key)).status).toBe(200);
      expect(await records()).toHaveLength(1);
    });

    test('while the first request runs, a repeat gets 409 with a Retry-After, and another body gets 422', async () => {
      const { send, records } = await makeClient();
      const key = randomUUID();
      const body = makeBody(requested, 'tokens=20 tps=15', stream);
      const first = send(path, body, key);
      await expectAdmitted();
      const early = await send(path, body, key);
      expect([early.status, early.code, early.headers.get('retry-after')]).toEqual([
        409,
        'idempotency_in_progress',
        '1',
      ]);
      expect((await send(path, `${body} `, key)).code).toBe('idempotency_key_reused');
      const answered = await first;
      expect(gist(await send(path, body, key))).toEqual(gist(answered));
      expect(await records()).toHaveLength(1);
    });

    test('a disconnect does not end the request: a repeat gets the whole answer', async () => {
      const { send, records } = await makeClient();
      const key = randomUUID();
      const body = makeBody(requested, 'tokens=40 tps=40', stream);
      const leave = new AbortController();
      const left = send(path, body, key, leave.signal).catch(() => 'left');
      await expectAdmitted();
      leave.abort();
      expect(await left).toBe('left');
      let again = await send(path, body, key);
      expect(again.code).toBe('idempotency_in_progress');
      for (const deadline = performance.now() + 20_000; again.status === 409 && performance.now() < deadline;) {
        await sleep(100);
        again = await send(path, body, key);
      }
      expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
      expect((await records()).map(({ state, output_tokens }) => [state, output_tokens])).toEqual([['completed', 40]]);
    });

    test('after an error the key can be used again', async () => {
      const { send, records } = await makeClient();
      const key = randomUUID();
      const refused = [
        [422, path, makeBody(requested, 'tokens=5', stream).replace('"model"', '"temperature":9,"model"')],
        [400, path, makeBody(requested, 'tokens=5', stream).replace('sim/large', 'sim/none')],
        [400, path, makeBody(requested, 'nonsense=1', stream)],
        [502, path, makeBody(requested, 'status=500', stream)],
        [400, path, '{'],
      ] as const;
      for (const [status, to, body] of refused) expect((await send(to, body, key)).status).toBe(status);
      const answered = await send(path, makeBody(requested, 'tokens=5', stream), key);
      expect(answered.status).toBe(200);
      expect((await records()).map(({ state }) => state)).toEqual(['completed', 'upstream_failed']);
    });

    test('of many requests at once one is run, and all others get its answer', async () => {
      const { send, records } = await makeClient();
      const key = randomUUID();
      const body = makeBody(requested, 'tokens=30', stream);
      const insist = async (): Promise<Came> => {
        for (;;) {
          const reply = await send(path, body, key);
          if (reply.status !== 409) return reply;
          await sleep(20);
        }
      };
      const all = await Promise.all(Array.from({ length: 30 }, insist));
      expect(new Set(all.map(({ text }) => text)).size).toBe(1);
      expect(all.filter(({ headers }) => headers.get('idempotent-replayed') === null)).toHaveLength(1);
      expect(await records()).toHaveLength(1);
    });
  });

  test('the same key on another path is refused like another body', async () => {
    const { send } = await makeClient();
    const key = randomUUID();
    // A body that is valid for both interfaces.
    const body = makeBody(messages, 'tokens=5', false);
    expect((await send(chat.path, body, key)).status).toBe(200);
    expect((await send(messages.path, body, key)).code).toBe('idempotency_key_reused');
  });

  test('a stream that breaks after its first event is stored as it was sent, and paid once', async () => {
    const { send, records } = await makeClient();
    const key = randomUUID();
    for (const [index, fault] of ['fail=4', 'cut=4', 'stall=4'].entries()) {
      const body = makeBody(requested, `tokens=50 ${fault}`, true);
      const first = await send(requested.path, body, key + fault);
      expect(first.text).toContain('"error"');
      expect(gist(await send(requested.path, body, key + fault))).toEqual(gist(first));
      const made = await records();
      expect(made).toHaveLength(index + 1);
      expect(made[0]?.state).toBe('upstream_failed');
    }
  });
});

describe('a path that stores something', () => {
  const lines = (text: string): string =>
    `${JSON.stringify({ custom_id: 'a', method: 'POST', url: chat.path, body: { model: 'sim/small', ...makeMessages(text) } })}\n`;
  const entry = { custom_id: 'a', params: { model: 'sim/small', max_tokens: 5, ...makeMessages('Tolls') } };

  /** Sends a form with a file, each time with another separator. */
  async function uploadAs(apiKey: string, text: string, key: string | undefined): Promise<Came> {
    const form = new FormData();
    form.append('purpose', 'batch');
    form.append('file', new Blob([text]), 'requests.jsonl');
    const headers = { authorization: `Bearer ${apiKey}`, ...(key === undefined ? {} : { 'idempotency-key': key }) };
    return came(await fetch(`${gateway.url}/v1/files`, { method: 'POST', headers, body: form }));
  }
  const idOf = ({ text }: Came): string => (JSON.parse(text) as { id: string }).id;
  const count = async (apiKey: string, path: string): Promise<number> => {
    const response = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${apiKey}` } });
    return ((await response.json()) as { data: object[] }).data.length;
  };

  test.each([
    {
      path: '/v1/batches',
      makeBody: (file: string, mark: string) => ({
        input_file_id: file,
        endpoint: chat.path,
        completion_window: '24h',
        metadata: { mark },
      }),
    },
    {
      path: '/v1/messages/batches',
      makeBody: (_: string, mark: string) => ({ requests: [{ ...entry, custom_id: mark }] }),
    },
    { path: '/v1/conversations', makeBody: (_: string, mark: string) => ({ metadata: { mark } }) },
  ])('$path stores it once', async ({ path, makeBody: make }) => {
    const { send, apiKey } = await makeClient();
    const file = idOf(await uploadAs(apiKey.key, lines('Tolls'), undefined));
    const key = randomUUID();
    const sendMarked = (mark: string, name: string | undefined) => send(path, JSON.stringify(make(file, mark)), name);
    const first = await sendMarked('one', key);
    expect([first.status, first.headers.get('idempotent-replayed')]).toEqual([200, null]);
    const again = await sendMarked('one', key);
    expect(gist(again)).toEqual(gist(first));
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect((await sendMarked('two', key)).code).toBe('idempotency_key_reused');
    if (path !== '/v1/conversations') expect(await count(apiKey.key, path)).toBe(1);
    expect(idOf(await sendMarked('one', randomUUID()))).not.toBe(idOf(first));
    expect(idOf(await sendMarked('one', undefined))).not.toBe(idOf(first));
  });

  test('a file is stored once, whatever separates the parts of its form', async () => {
    const { apiKey } = await makeClient();
    const key = randomUUID();
    const first = await uploadAs(apiKey.key, lines('Tolls'), key);
    const again = await uploadAs(apiKey.key, lines('Tolls'), key);
    expect(gist(again)).toEqual(gist(first));
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect((await uploadAs(apiKey.key, lines('Other'), key)).code).toBe('idempotency_key_reused');
    expect(await count(apiKey.key, '/v1/files')).toBe(1);
  });

  test('items are added to a conversation once; the same key for another conversation is refused', async () => {
    const { send, apiKey } = await makeClient();
    const [one, other] = [
      idOf(await send('/v1/conversations', '{}', undefined)),
      idOf(await send('/v1/conversations', '{}', undefined)),
    ];
    const key = randomUUID();
    const add = (id: string) =>
      send(`/v1/conversations/${id}/items`, JSON.stringify({ items: [{ role: 'user', content: 'Tolls' }] }), key);
    const first = await add(one);
    expect(gist(await add(one))).toEqual(gist(first));
    expect((await add(other)).code).toBe('idempotency_key_reused');
    expect(await count(apiKey.key, `/v1/conversations/${one}/items`)).toBe(1);
  });
});

describe('the owner of an Idempotency-Key', () => {
  const body = makeBody(chat, 'tokens=5', false);

  test('is the API key that sent it, not the account', async () => {
    const { managementKey, send, records } = await makeClient();
    const sibling = await newKey(gateway, {}, managementKey);
    const key = randomUUID();
    await send(chat.path, body, key);
    const other = await came(
      await post(gateway, chat.path, body, { key: sibling.key, headers: { 'idempotency-key': key } }),
    );
    expect([other.status, other.headers.get('idempotent-replayed')]).toEqual([200, null]);
    expect(await records()).toHaveLength(2);
  });

  test('gets no repeats if it is disabled or deleted', async () => {
    const { managementKey, apiKey, send } = await makeClient();
    const key = randomUUID();
    await send(chat.path, body, key);
    await gateway.cli(['keys', 'disable', String(apiKey.api_key_id)]);
    expect((await send(chat.path, body, key)).status).toBe(403);
    await call(gateway, 'DELETE', `/keys/${apiKey.api_key_id}`, { key: managementKey });
    expect((await send(chat.path, body, key)).status).toBe(401);
  });

  test('gets repeats that count in no window, with headers that have the current windows', async () => {
    const { send } = await makeClient(gateway, { minute_limit: 2 });
    const key = randomUUID();
    const remaining = ({ headers }: Came): string | null => headers.get('x-ratelimit-remaining-requests');
    expect(remaining(await send(chat.path, body, key))).toBe('1');
    expect(remaining(await send(chat.path, body, key))).toBe('1');
    expect(remaining(await send(chat.path, body, undefined))).toBe('0');
    expect(remaining(await send(chat.path, body, key))).toBe('0');
    expect((await send(chat.path, body, randomUUID())).status).toBe(429);
    expect((await send(chat.path, body, key)).status).toBe(200);
  });

  test('gets the windows of free models in the headers of a repeat, too', async () => {
    const { send } = await makeClient();
    const key = randomUUID();
    const free = body.replace('sim/large', 'sim/small:free');
    const first = await send(chat.path, free, key);
    const again = await send(chat.path, free, key);
    expect(gist(again)).toEqual(gist(first));
    expect(again.headers.get('x-ratelimit-remaining-requests')).toBe(
      first.headers.get('x-ratelimit-remaining-requests'),
    );
  });

  test('an empty Idempotency-Key counts as absent, one of 255 characters is valid, a longer one is refused', async () => {
    const { send, records } = await makeClient();
    expect((await send(chat.path, body, '')).status).toBe(200);
    expect((await send(chat.path, body, '')).status).toBe(200);
    expect(await records()).toHaveLength(2);
    const long = 'k'.repeat(255);
    const first = await send(chat.path, body, long);
    expect(gist(await send(chat.path, body, long))).toEqual(gist(first));
    const refused = await send(chat.path, body, `${long}k`);
    expect([refused.status, refused.code]).toEqual([400, 'invalid_request']);
  });

  test('counting tokens ignores an Idempotency-Key', async () => {
    const { send, records } = await makeClient();
    const count = JSON.stringify({ model: 'sim/large', messages: [{ role: 'user', content: 'Tolls' }] });
    const key = randomUUID();
    expect((await send('/v1/messages/count_tokens', count, key)).status).toBe(200);
    expect((await send('/v1/messages/count_tokens', count.replace('Tolls', 'Other'), key)).status).toBe(200);
    expect(await records()).toEqual([]);
  });
});

describe('Responses in the background, and compactions', () => {
  const background = (line: string, stream: boolean): string =>
    makeBody(responses, line, stream).replace('"model"', '"background":true,"model"');

  test('a repeat gets the same response id, and the response runs once', async () => {
    const { send, records, apiKey } = await makeClient();
    const key = randomUUID();
    const body = background('tokens=20 tps=40', false);
    const first = await send(responses.path, body, key);
    const again = await send(responses.path, body, key);
    expect(gist(again)).toEqual({ ...gist(first), headers: gist(again).headers });
    expect(again.headers.get('x-request-id')).toBe(first.headers.get('x-request-id'));
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    const { id, status } = JSON.parse(first.text) as { id: string; status: string };
    expect(status).toBe('queued');
    const read = async (): Promise<string> => {
      const response = await fetch(`${gateway.url}${responses.path}/${id}`, { headers: { 'x-api-key': apiKey.key } });
      return ((await response.json()) as { status: string }).status;
    };
    await expect.poll(read).toBe('completed');
    expect(gist(await send(responses.path, body, key)).text).toBe(first.text);
    expect(await records()).toHaveLength(1);
    expect((await send(responses.path, background('tokens=21', false), key)).code).toBe('idempotency_key_reused');
  });

  test('a repeated stream of a background response replays its events and follows it to its end', async () => {
    const { send, records } = await makeClient();
    const key = randomUUID();
    const body = background('tokens=30 tps=60', true);
    const pending = send(responses.path, body, key);
    await sleep(250);
    const early = await send(responses.path, body, key);
    const first = await pending;
    const late = await send(responses.path, body, key);
    const readFrames = ({ text }: Came): string => text.replaceAll(/^:.*\n/gm, '');
    expect(readFrames(first)).toContain('event: response.completed');
    expect(readFrames(early)).toBe(readFrames(first));
    expect(readFrames(late)).toBe(readFrames(first));
    expect(await records()).toHaveLength(1);
  });

  test('a compaction is made and charged once', async () => {
    const { send, records } = await makeClient();
    const key = randomUUID();
    const body = JSON.stringify({ model: 'sim/large', input: 'A long talk about tolls.' });
    const path = `${responses.path}/compact`;
    const first = await send(path, body, key);
    const again = await send(path, body, key);
    expect([first.status, gist(again)]).toEqual([200, gist(first)]);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(await records()).toHaveLength(1);
    expect((await send(responses.path, body, key)).code).toBe('idempotency_key_reused');
  });

  test('a response with `store: false` is repeated too, although it can’t be retrieved', async () => {
    const { send, apiKey } = await makeClient();
    const key = randomUUID();
    const body = makeBody(responses, 'tokens=5', false).replace('"model"', '"store":false,"model"');
    const first = await send(responses.path, body, key);
    expect(gist(await send(responses.path, body, key))).toEqual(gist(first));
    const { id } = JSON.parse(first.text) as { id: string };
    const read = await fetch(`${gateway.url}${responses.path}/${id}`, { headers: { 'x-api-key': apiKey.key } });
    expect(read.status).toBe(404);
  });

  test('a repeat has the same bytes of encrypted reasoning', async () => {
    const { send } = await makeClient();
    const key = randomUUID();
    const more = { reasoning: { effort: 'low' }, include: ['reasoning.encrypted_content'], store: false };
    for (const stream of [false, true]) {
      const body = JSON.stringify({ model: 'sim/large', stream, input: 'Tolls\n!sim tokens=20', ...more });
      const first = await send(responses.path, body, key + String(stream));
      expect(first.text).toContain('tg1.');
      expect(gist(await send(responses.path, body, key + String(stream)))).toEqual(gist(first));
    }
  });
});

describe('RPC callers', () => {
  const keyed = (key: string) => ({ headers: { 'idempotency-key': key } });
  test.each([Delivery.WHOLE, Delivery.STREAMED])('get the same messages again (delivery %i)', async delivery => {
    const { apiKey, records } = await makeClient();
    const client = rpcClient({ rpcUrl: gateway.rpcUrl, apiKey: apiKey.key });
    const key = randomUUID();
    const read = async (model = 'sim/large'): Promise<string[]> => {
      const messages = await Array.fromAsync(client.generate(rpcRequest(model, delivery), keyed(key)));
      return messages.map(message => Buffer.from(toBinary(GenerateResponseSchema, message)).toString('base64'));
    };
    const events = (messages: string[]): string =>
      Buffer.concat(messages.map(each => Buffer.from(each, 'base64'))).toString('base64');
    const first = await read();
    expect(first.length).toBeGreaterThan(0);
    expect(events(await read())).toBe(events(first));
    expect(await records()).toHaveLength(1);
    const reused = await read('sim/small').catch((error: unknown) => ConnectError.from(error).code);
    expect(reused).toBe(Code.FailedPrecondition);
  });

  test('that disconnect get the whole answer later, whether or not they have read some of it', async () => {
    const { apiKey, records } = await makeClient();
    const client = rpcClient({ rpcUrl: gateway.rpcUrl, apiKey: apiKey.key });
    const key = randomUUID();
    const request = rpcRequest('sim/large', Delivery.STREAMED);
    const leave = new AbortController();
    const iterator = client.generate(request, { ...keyed(key), signal: leave.signal })[Symbol.asyncIterator]();
    await iterator.next();
    leave.abort();
    await expect.poll(async () => (await records()).map(({ state }) => state)).toEqual(['completed']);
    const messages = await Array.fromAsync(client.generate(request, keyed(key)));
    expect(messages.at(-1)?.events.at(-1)?.event.case).toBe('completed');
    expect(await records()).toHaveLength(1);
  });
});

describe('the process ends', () => {
  test('a stored answer survives a kill; an answer that the kill cut costs nothing, and its key can be used again', async () => {
    let killed = await startGateway({ config, balance: '100' });
    const mine = await makeClient(killed);
    const [kept, cut] = [randomUUID(), randomUUID()];
    const keptBody = makeBody(chat, 'tokens=30', true);
    const cutBody = makeBody(chat, 'tokens=100 tps=20', false);
    const first = await mine.send(chat.path, keptBody, kept);
    const broken = mine.send(chat.path, cutBody, cut).catch(() => undefined);
    await sleep(700);
    await killed.kill();
    await broken;
    killed = await startShared({ config, home: killed.home });
    const send = async (body: string, key: string): Promise<Came> =>
      came(await post(killed, chat.path, body, { key: mine.apiKey.key, headers: { 'idempotency-key': key } }));
    expect(gist(await send(keptBody, kept))).toEqual(gist(first));
    const again = await send(cutBody.replace('tps=20', 'tps=0'), cut);
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, null]);
    const { data } = (await call<{ data: RecordJson[] }>(killed, 'GET', '/activity', { key: mine.managementKey })).body;
    expect(data.map(({ state, output_tokens }) => [state, output_tokens])).toEqual([
      ['completed', 100],
      ['completed', 30],
    ]);
    await endGateway(killed);
  });

  test('a request that is repeated until it is answered is charged once, at whatever moment the gateway is killed', async () => {
    let killed = await startGateway({ config, balance: '100' });
    const mine = await makeClient(killed);
    const rounds = 6;
    for (let round = 0; round < rounds; round += 1) {
      const key = randomUUID();
      const body = makeBody(chat, `tokens=${10 + round} tps=100`, round % 2 === 0);
      const options = { key: mine.apiKey.key, headers: { 'idempotency-key': key } };
      const first = post(killed, chat.path, body, options)
        .then(came)
        .catch(() => undefined);
      // The kills fall around the end of the request, after about 150 ms.
      await sleep(90 + round * 25);
      await killed.kill();
      const seen = await first;
      killed = await startGateway({ config, home: killed.home });
      const again = await came(await post(killed, chat.path, body, options));
      expect(again.status).toBe(200);
      // A client that received the whole answer gets the same one again.
      if (seen?.text.endsWith('data: [DONE]\n\n') === true || seen?.text.endsWith('}') === true) {
        expect(gist(again)).toEqual(gist(seen));
      }
      const { data } = (await call<{ data: RecordJson[] }>(killed, 'GET', '/activity', { key: mine.managementKey }))
        .body;
      expect([data.length, data[0]?.output_tokens, data[0]?.state]).toEqual([round + 1, 10 + round, 'completed']);
      expect((await came(await post(killed, chat.path, body, options))).headers.get('idempotent-replayed')).toBe(
        'true',
      );
    }
    await endGateway(killed);
  });
});
