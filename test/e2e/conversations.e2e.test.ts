/** Stored conversations: their items, responses that are made in them, and what other requests may do meanwhile. */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { afterAll, describe, expect, test } from 'vitest';
import { createAccount, endGateway, type Gateway, heldBy, turnLoop } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\nretries: 0\n' });
const outer = await startGateway({
  config: `
retries: 0
providers:
  inner: { protocol: responses, base_url: "${gateway.url}/v1", api_key: "\${INNER_KEY}" }
models:
  - { id: acme/small, context_length: 128000, max_output_tokens: 8192, endpoints: [/v1/responses], pricing: { input: 1, output: 2 }, routes: [{ provider: inner, model: sim/small }] }
`,
  environment: { INNER_KEY: gateway.apiKey },
});
afterAll(async () => {
  await endGateway(outer);
  await endGateway(gateway);
});

const model = 'sim/small';

interface Item {
  readonly id: string;
  readonly type: string;
  readonly role?: string;
  readonly content?: { type: string; text: string }[];
}
interface Body {
  readonly id: string;
  readonly object: string;
  readonly created_at: number;
  readonly metadata: Record<string, string>;
  readonly data: Item[];
  readonly first_id: string | null;
  readonly last_id: string | null;
  readonly has_more: boolean;
  readonly status: string;
  readonly output: Item[];
  readonly conversation: { id: string } | null;
  readonly input_tokens: number;
  readonly error: { code: string; param: string | null };
}

async function call(
  method: string,
  path: string,
  body?: object,
  { at = gateway, key = at.apiKey }: { at?: Gateway; key?: string } = {},
): Promise<{ status: number; body: Body }> {
  const response = await fetch(`${at.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as Body };
}

const user = (text: string) => ({ type: 'message', role: 'user', content: text });
const begin = async (...texts: string[]): Promise<string> =>
  (await call('POST', '/v1/conversations', { items: texts.map(user) })).body.id;
const readTexts = (items: readonly Item[]): string[] =>
  items.map(({ content }) => content?.map(({ text }) => text).join('') ?? '');
const list = async (id: string, query = '?order=asc&limit=100'): Promise<Body> =>
  (await call('GET', `/v1/conversations/${id}/items${query}`)).body;
const respond = (body: object, options?: Parameters<typeof call>[3]): ReturnType<typeof call> =>
  call('POST', '/v1/responses', { model, ...body }, options);

describe('a conversation', () => {
  test('is created, read, given metadata and deleted', async () => {
    const made = await call('POST', '/v1/conversations', { metadata: { topic: 'gates' } });
    expect(made.status).toBe(200);
    expect(made.body).toEqual({
      id: made.body.id,
      object: 'conversation',
      created_at: made.body.created_at,
      metadata: { topic: 'gates' },
    });
    const path = `/v1/conversations/${made.body.id}`;
    expect((await call('GET', path)).body).toEqual(made.body);
    expect((await call('POST', path, { metadata: { a: 'b' } })).body.metadata).toEqual({ a: 'b' });
    expect((await call('GET', path)).body.metadata).toEqual({ a: 'b' });
    expect((await call('DELETE', path)).body).toEqual({
      id: made.body.id,
      object: 'conversation.deleted',
      deleted: true,
    });
    expect((await call('GET', path)).status).toBe(404);
    expect((await call('POST', '/v1/conversations')).body.metadata).toEqual({});
  });

  test('has items that are added, listed in pages, read, and deleted one by one', async () => {
    const id = await begin('one', 'two');
    const added = await call('POST', `/v1/conversations/${id}/items`, { items: [user('three'), user('four')] });
    expect([added.body.object, readTexts(added.body.data)]).toEqual(['list', ['three', 'four']]);
    const all = await list(id);
    expect(readTexts(all.data)).toEqual(['one', 'two', 'three', 'four']);
    expect(new Set(all.data.map(item => item.id)).size).toBe(4);
    expect(readTexts((await list(id, '')).data)).toEqual(['four', 'three', 'two', 'one']);
    const page = await list(id, '?limit=2');
    expect([readTexts(page.data), page.has_more, page.last_id]).toEqual([['four', 'three'], true, page.data[1]?.id]);
    const rest = await list(id, `?limit=2&after=${page.last_id}`);
    expect([readTexts(rest.data), rest.has_more]).toEqual([['two', 'one'], false]);
    const second = all.data[1]?.id ?? '';
    expect(readTexts([(await call('GET', `/v1/conversations/${id}/items/${second}`)).body as unknown as Item])).toEqual(
      ['two'],
    );
    expect((await call('DELETE', `/v1/conversations/${id}/items/${second}`)).body).toMatchObject({ id });
    expect(readTexts((await list(id)).data)).toEqual(['one', 'three', 'four']);
  });

  test('of another account or with an unknown id is not found, and neither are unknown items', async () => {
    const id = await begin('mine');
    const key = await createAccount(gateway, '1');
    for (const [name, options] of [
      [id, { key }],
      ['conv_000000000000000000000', {}],
      ['x', {}],
    ] as const) {
      for (const [method, path, body] of [
        ['GET', `/v1/conversations/${name}`],
        ['POST', `/v1/conversations/${name}`, { metadata: {} }],
        ['DELETE', `/v1/conversations/${name}`],
        ['GET', `/v1/conversations/${name}/items`],
        ['POST', `/v1/conversations/${name}/items`, { items: [user('a')] }],
        ['POST', '/v1/responses', { model, input: 'a', conversation: name }],
        ['POST', '/v1/responses/input_tokens', { model, input: 'a', conversation: { id: name } }],
      ] as const) {
        const answer = await call(method, path, body, options);
        expect([method, path, answer.status, answer.body.error.param]).toEqual([method, path, 404, 'conversation']);
      }
    }
    expect((await call('GET', `/v1/conversations/${id}/items/msg_x`)).status).toBe(404);
    expect((await call('DELETE', `/v1/conversations/${id}/items/msg_x`)).status).toBe(404);
    expect((await call('GET', `/v1/conversations/${id}/items?after=msg_x`)).status).toBe(404);
  });

  test('with too many items or too much metadata, or with bad items, is refused with 422, and nothing is added', async () => {
    const id = await begin('kept');
    const many = Array.from({ length: 21 }, (_, at) => user(String(at)));
    const labels = Object.fromEntries(many.slice(0, 17).map((_, at) => [`label ${at}`, 'x']));
    const refused: [path: string, body: object, param: string][] = [
      ['/v1/conversations', { items: many }, 'items'],
      [`/v1/conversations/${id}/items`, { items: many }, 'items'],
      [`/v1/conversations/${id}/items`, { items: [] }, 'items'],
      [`/v1/conversations/${id}/items`, {}, 'items'],
      [`/v1/conversations/${id}/items`, { items: [user('a'), { type: 'message' }] }, 'items.1.role'],
      ['/v1/conversations', { metadata: labels }, 'metadata'],
      [`/v1/conversations/${id}`, { metadata: { a: 'x'.repeat(513) } }, 'metadata.a'],
      [`/v1/conversations/${id}`, {}, 'metadata'],
    ];
    for (const [path, body, param] of refused) {
      const answer = await call('POST', path, body);
      expect([path, answer.status, answer.body.error.param]).toEqual([path, 422, param]);
    }
    expect(readTexts((await list(id)).data)).toEqual(['kept']);
  });
});

describe('a response in a conversation', () => {
  test('reads its items, and adds its own input and output', async () => {
    const id = await begin('My name is Ada.');
    const first = await respond({ input: '!sim say=Hello Ada.', conversation: id });
    expect(first.body.conversation).toEqual({ id });
    const { data } = await list(id);
    expect(readTexts(data)).toEqual(['My name is Ada.', '!sim say=Hello Ada.', 'Hello Ada.']);
    expect(data[2]?.id).toBe(first.body.output[0]?.id);
    const stored = await call('GET', `/v1/responses/${first.body.id}`);
    expect(stored.body.conversation).toEqual({ id });
    // The model reads the whole conversation again, so all its tokens count.
    const alone = await call('POST', '/v1/responses/input_tokens', { model, input: 'and now?' });
    const within = await call('POST', '/v1/responses/input_tokens', { model, input: 'and now?', conversation: id });
    expect(within.body.input_tokens).toBeGreaterThan(alone.body.input_tokens + 10);
    expect((await list(id)).data).toHaveLength(3);
    expect((await respond({ input: 'a' })).body.conversation).toBeNull();
  });

  test('adds its items before its end is reported, also streamed, in the background and without `store`', async () => {
    const id = await begin();
    const response = await fetch(`${gateway.url}/v1/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, input: '!sim say=streamed', conversation: { id }, stream: true }),
    });
    const events = await response.text();
    expect(events).toContain(`"conversation":{"id":"${id}"}`);
    const unstored = await respond({ input: '!sim say=unstored', conversation: id, store: false });
    expect((await call('GET', `/v1/responses/${unstored.body.id}`)).status).toBe(404);
    const background = await respond({ input: '!sim say=background', conversation: id, background: true });
    for (let status = ''; status !== 'completed'; await sleep(20)) {
      ({ status } = (await call('GET', `/v1/responses/${background.body.id}`)).body);
    }
    const answers = (await list(id)).data.filter(({ role }) => role === 'assistant');
    expect(readTexts(answers)).toEqual(['streamed', 'unstored', 'background']);
    expect(answers.at(-1)?.id).toBe((await call('GET', `/v1/responses/${background.body.id}`)).body.output[0]?.id);
  });

  test('adds its items if it is incomplete, but not if it fails or is refused', async () => {
    const id = await begin();
    const cut = await respond({ input: '!sim tokens=100', conversation: id, max_output_tokens: 16 });
    expect(cut.body.status).toBe('incomplete');
    expect((await list(id)).data).toHaveLength(2);
    expect((await respond({ input: '!sim status=500', conversation: id })).status).toBe(502);
    expect((await respond({ input: '!sim fail=2', conversation: id })).status).toBe(502);
    expect((await respond({ input: 'a', conversation: id, model: 'no/such' })).status).toBe(400);
    expect((await list(id)).data).toHaveLength(2);
    // None of them has left the conversation locked.
    expect((await respond({ input: 'a', conversation: id })).status).toBe(200);
  });

  test('adds nothing if its client disconnects, and leaves the conversation unlocked', async () => {
    const id = await begin('before');
    const leaving = new AbortController();
    const left = fetch(`${gateway.url}/v1/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, input: '!sim tokens=400 tps=50', conversation: id, stream: true }),
      signal: leaving.signal,
    });
    await left;
    leaving.abort();
    let status = 409;
    for (let tries = 0; status === 409 && tries < 100; tries += 1) {
      await sleep(50);
      ({ status } = await respond({ input: '!sim say=next', conversation: id }));
    }
    expect(status).toBe(200);
    expect(readTexts((await list(id)).data)).toEqual(['before', '!sim say=next', 'next']);
  });

  test('is refused with 400 together with `previous_response_id`, and in a compaction', async () => {
    const id = await begin('a');
    const { body } = await respond({ input: 'a' });
    const both = await respond({ input: 'a', conversation: id, previous_response_id: body.id });
    expect([both.status, both.body.error.param]).toEqual([400, 'conversation']);
    const compact = await call('POST', '/v1/responses/compact', { model, input: 'a', conversation: id });
    expect([compact.status, compact.body.error.param]).toEqual([400, 'conversation']);
  });

  test('does not send the conversation’s id to upstreams: an upstream gateway does not know it, and the request succeeds', async () => {
    const made = await call('POST', '/v1/conversations', { items: [user('over there')] }, { at: outer });
    const requested = { model: 'acme/small', input: '!sim say=through', conversation: made.body.id };
    const first = await respond(requested, { at: outer });
    expect([first.status, first.body.conversation]).toEqual([200, { id: made.body.id }]);
    expect((await respond(requested, { at: outer })).status).toBe(200);
    const { body } = await call('GET', `/v1/conversations/${made.body.id}/items?order=asc`, undefined, { at: outer });
    expect(readTexts(body.data).filter(text => text === 'through')).toHaveLength(2);
  });

  test('can be made over the WebSocket; a locked conversation is an error event', async () => {
    const id = await begin();
    const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/v1/responses`, {
      headers: { authorization: `Bearer ${gateway.apiKey}` },
    });
    const turn = (body: object): Promise<Record<string, unknown>> =>
      new Promise((resolve, reject) => {
        socket.on('error', reject);
        socket.on('message', (data: Buffer) => {
          const event = JSON.parse(data.toString('utf8')) as Record<string, unknown>;
          if (['response.completed', 'response.failed', 'error'].includes(String(event['type']))) resolve(event);
        });
        socket.send(JSON.stringify({ type: 'response.create', model, conversation: id, ...body }));
      });
    await once(socket, 'open');
    expect(await turn({ input: '!sim say=spoken' })).toMatchObject({ response: { conversation: { id } } });
    expect(readTexts((await list(id)).data)).toEqual(['!sim say=spoken', 'spoken']);
    socket.removeAllListeners('message');
    const running = respond({ input: '!sim delay_ms=1500 say=slow', conversation: id });
    await expect.poll(() => heldBy(gateway), { interval: 10 }).toBeGreaterThan(0n);
    await turnLoop(gateway);
    const refused = await turn({ input: 'a' });
    expect(refused).toMatchObject({ type: 'error', status: 409, error: { code: 'conversation_locked' } });
    await running;
    socket.close();
  });

  test('locks the conversation: other responses and changes are refused meanwhile, reading works', async () => {
    const id = await begin('kept');
    const item = (await list(id)).data[0]?.id ?? '';
    const running = respond({ input: '!sim delay_ms=1500 say=slow', conversation: id });
    await expect.poll(() => heldBy(gateway), { interval: 10 }).toBeGreaterThan(0n);
    await turnLoop(gateway);
    for (const [method, path, body] of [
      ['POST', '/v1/responses', { model, input: 'a', conversation: id }],
      ['POST', `/v1/conversations/${id}/items`, { items: [user('a')] }],
      ['DELETE', `/v1/conversations/${id}/items/${item}`],
      ['POST', `/v1/conversations/${id}`, { metadata: { a: 'b' } }],
      ['DELETE', `/v1/conversations/${id}`],
    ] as const) {
      const answer = await call(method, path, body);
      expect([method, path, answer.status, answer.body.error.code]).toEqual([method, path, 409, 'conversation_locked']);
    }
    expect((await list(id)).data).toHaveLength(1);
    expect((await running).status).toBe(200);
    expect(readTexts((await list(id)).data)).toEqual(['kept', '!sim delay_ms=1500 say=slow', 'slow']);
    expect((await call('DELETE', `/v1/conversations/${id}/items/${item}`)).status).toBe(200);
  });
});
