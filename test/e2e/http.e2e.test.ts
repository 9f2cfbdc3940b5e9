/** What all answers of the public listener have in common, and the catalogue over REST (docs/errors.md "The envelope"; docs/interfaces/models.md "The list"). */
import { connect } from 'node:net';
import { afterAll, describe, expect, test } from 'vitest';
import { endGateway, makeKey } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { ask, type ChatError, complete, payg, post, stream } from './chat-client.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\naliases: { big: sim/large }\n' });
afterAll(() => endGateway(gateway));

const envelope = ['code', 'community', 'docs', 'id', 'message', 'param', 'status_code', 'support', 'tip', 'type'];
const hello = ask('Hello\n!sim tokens=3');
const get = (path: string, key = gateway.apiKey): Promise<Response> =>
  fetch(`${gateway.url}${path}`, { headers: { authorization: `Bearer ${key}` } });

interface ListedModel {
  readonly id: string;
  readonly [member: string]: unknown;
}
async function listed(query = '', key?: string): Promise<ListedModel[]> {
  const response = await get(`/v1/models${query}`, key);
  expect(response.status).toBe(200);
  return ((await response.json()) as { data: ListedModel[] }).data;
}

describe('errors', () => {
  const cases: [name: string, status: number, code: string, request: () => Promise<Response>][] = [
    ['an unknown path', 404, 'not_found', () => get('/v1/nothing')],
    ['a wrong method', 404, 'not_found', () => get('/v1/chat/completions')],
    ['an unknown model in a path', 404, 'not_found', () => get('/v1/models/acme/none')],
    ['no key', 401, 'invalid_api_key', () => post(gateway, '/v1/chat/completions', hello, { key: null })],
    [
      'a management key',
      403,
      'permission_denied',
      () => post(gateway, '/v1/chat/completions', hello, { key: gateway.managementKey }),
    ],
    ['broken JSON', 400, 'invalid_request', () => post(gateway, '/v1/chat/completions', '{"model":')],
    [
      'another content type',
      400,
      'invalid_request',
      () => post(gateway, '/v1/chat/completions', 'a=b', { headers: { 'content-type': 'text/plain' } }),
    ],
    [
      'a body that does not match the schema',
      422,
      'validation_error',
      () => post(gateway, '/v1/chat/completions', { ...hello, n: 0 }),
    ],
    [
      'an unknown model',
      400,
      'model_not_found',
      () => post(gateway, '/v1/chat/completions', { ...hello, model: 'acme/none' }),
    ],
    [
      'a model that is down',
      502,
      'model_unavailable',
      () => post(gateway, '/v1/chat/completions', { ...hello, model: 'sim/unavailable' }),
    ],
    [
      'tools for a model without tools',
      400,
      'unsupported_feature',
      () =>
        post(gateway, '/v1/chat/completions', {
          ...hello,
          model: 'sim/writer',
          tools: [{ type: 'function', function: { name: 'a' } }],
        }),
    ],
    [
      'an effort for a model without reasoning',
      400,
      'unsupported_feature',
      () => post(gateway, '/v1/chat/completions', { ...hello, model: 'sim/writer', reasoning_effort: 'low' }),
    ],
    [
      'a tier for a model without tiers',
      400,
      'unsupported_feature',
      () => post(gateway, '/v1/chat/completions', { ...hello, model: 'sim/small:flex' }),
    ],
    ['a bad query', 400, 'invalid_request', () => get('/v1/models?limit=0')],
  ];
  test.each(cases)('%s is %i %s with the whole envelope', async (_, status, code, request) => {
    const response = await request();
    const { error, ...rest } = (await response.json()) as { error: ChatError };
    expect({ status: response.status, code: error.code }).toEqual({ status, code });
    expect(Object.keys(rest)).toEqual([]);
    expect(Object.keys(error).toSorted()).toEqual(envelope);
    expect(error.status_code).toBe(status);
    expect(error.id).toBe(response.headers.get('x-request-id'));
    expect(error.id).toMatch(/^req_/);
    expect(error.tip).not.toBe('');
    expect(response.headers.get('content-type')).toMatch(/^application\/json/);
  });

  test('a body over the limit is refused with 413; without a key, a body is refused before it is read', async () => {
    const small = await startGateway({ config: 'limits: { body_bytes: 100000 }\n' });
    const large = { ...hello, messages: [{ role: 'user', content: 'x'.repeat(200_000) }] };
    const tooLarge = await complete(small, large);
    expect([tooLarge.status, tooLarge.body.error.code]).toEqual([413, 'body_too_large']);
    await endGateway(small);
    // The body is announced and never sent, but the answer comes anyway.
    const { hostname, port } = new URL(gateway.url);
    const socket = connect(Number(port), hostname);
    socket.write(
      'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 50000000\r\n\r\n',
    );
    const [bytes] = await new Promise<[Buffer]>((done, failed) => {
      socket.once('data', (chunk: Buffer) => done([chunk]));
      socket.once('error', failed);
    });
    expect(bytes.toString()).toMatch(/^HTTP\/1\.1 401 /);
    socket.destroy();
  });
});

describe('answers', () => {
  test('that are whole have JSON, a request id and the cost', async () => {
    const { headers, body } = await complete(gateway, hello);
    expect(headers.get('content-type')).toMatch(/^application\/json/);
    expect(headers.get('x-request-id')).toBe(`req_${body.id.slice('chatcmpl-'.length)}`);
    expect(Number(headers.get('x-tollgate-cost'))).toBe(body.usage.cost);
    expect(body).toMatchObject({ object: 'chat.completion', model: payg, service_tier: 'default' });
    expect(Math.abs(body.created - Date.now() / 1_000)).toBeLessThan(30);
    expect(body.choices[0]).toMatchObject({ index: 0, logprobs: null, message: { role: 'assistant', refusal: null } });
    expect(body.choices[0]?.message).not.toHaveProperty('tool_calls');
  });

  test('that are streamed have server-sent events and must not be cached', async () => {
    const { headers, raw, chunks } = await stream(gateway, hello);
    expect(headers.get('content-type')).toMatch(/^text\/event-stream/);
    expect(headers.get('cache-control')).toMatch(/no-(store|cache|transform)/);
    expect(headers.get('x-request-id')).toBe(`req_${chunks[0]?.id.slice('chatcmpl-'.length)}`);
    expect(raw).not.toContain('\r');
    expect(
      raw
        .split('\n\n')
        .slice(0, -1)
        .every(frame => /^(data: |: )/.test(frame)),
    ).toBe(true);
  });

  test('treat null in an optional field as absent', async () => {
    const nothing = {
      temperature: null,
      tools: null,
      stop: null,
      user: null,
      max_tokens: null,
      stream: null,
      n: null,
      response_format: null,
      stream_options: null,
      tool_choice: null,
      reasoning_effort: null,
    };
    expect((await complete(gateway, { ...hello, ...nothing })).status).toBe(200);
  });

  test('come for requests with unknown fields, too', async () => {
    expect((await complete(gateway, { ...hello, acme_setting: { deep: [1] } })).status).toBe(200);
  });

  test('are limited to the model’s output limit if the request’s is higher', async () => {
    expect((await complete(gateway, { ...hello, max_tokens: 10_000_000 })).status).toBe(200);
  });

  test('input that is longer than the context is refused with `context_length_exceeded`, free and without a record', async () => {
    const { key, id } = await makeKey(gateway);
    const answer = await complete(gateway, ask('word '.repeat(140_000), { model: 'sim/small' }), { key });
    expect([answer.status, answer.body.error.code]).toEqual([400, 'context_length_exceeded']);
    expect((await gateway.account.listActivity({ apiKeyId: id })).records).toEqual([]);
  });

  test.each(['large', 'sim/large-20260501', 'large-2026-05-01', 'big', 'big-20260501'])(
    '%s is sim/large',
    async model => {
      const { status, body } = await complete(gateway, { ...hello, model });
      expect([status, body.model]).toEqual([200, payg]);
    },
  );

  test('connections are reused after streams', async () => {
    for (let count = 0; count < 5; count += 1) {
      expect((await stream(gateway, hello)).done).toBe(true);
      expect((await complete(gateway, hello)).status).toBe(200);
    }
  });
});

describe('models', () => {
  test('each has every field, and prices in dollars per million tokens', async () => {
    const models = await listed();
    const members = [
      'available',
      'capabilities',
      'context_length',
      'created',
      'created_at',
      'description',
      'display_name',
      'endpoints',
      'id',
      'max_output_tokens',
      'name',
      'object',
      'owned_by',
      'pricing',
      'type',
    ];
    for (const model of models) expect(Object.keys(model)).toEqual(expect.arrayContaining(members));
    expect(models.find(({ id }) => id === payg)).toMatchObject({
      object: 'model',
      type: 'model',
      available: true,
      endpoints: ['/v1/chat/completions', '/v1/responses', '/v1/messages', '/v1beta/models/{model}:generateContent'],
      capabilities: { vision: true, function_call: true, reasoning: true, service_tiers: ['flex', 'priority'] },
      pricing: { input: 1, output: 4, caching: { read: 0.1, write_5m: 1.25, write_1h: 2 }, above: [] },
    });
    expect(models.find(({ id }) => id === 'sim/unavailable')).toMatchObject({ available: false });
    expect(models.find(({ id }) => id === 'sim/uncached')).toMatchObject({ pricing: { caching: null } });
    expect(models.find(({ id }) => id === 'sim/long')).toMatchObject({
      pricing: { above: [{ input_tokens: 32_000, input: 1, output: 3 }] },
    });
  });

  test('can be filtered and listed in pages', async () => {
    const all = (await listed()).map(({ id }) => id);
    const ids = async (query: string): Promise<string[]> => (await listed(query)).map(({ id }) => id);
    expect(await ids('?free=true')).toEqual(all.filter(id => id.endsWith(':free')));
    expect(await ids('?available=false')).toEqual(['sim/unavailable']);
    expect(await ids('?capability=reasoning')).not.toContain('sim/writer');
    expect(await ids('?q=writer')).toEqual(['sim/writer']);
    expect(await ids('?limit=2')).toEqual(all.slice(0, 2));
    expect(await ids(`?limit=2&after_id=${encodeURIComponent(all[1] ?? '')}`)).toEqual(all.slice(2, 4));
    const page = (await (await get('/v1/models?limit=2')).json()) as Record<string, unknown>;
    expect(page).toMatchObject({ object: 'list', first_id: all[0], last_id: all[1], has_more: true });
  });

  test('are only those in `allowed_models` for a key that has it', async () => {
    const { key } = await makeKey(gateway, { allowedModels: { models: ['sim/small', 'big'] } });
    const ids = (await listed('', key)).map(({ id }) => id);
    expect(ids.filter(id => id.startsWith('sim/')).toSorted()).toEqual(['sim/large', 'sim/small']);
    expect((await get('/v1/models/sim/writer', key)).status).toBe(404);
    expect((await get('/v1/models/sim/large', key)).status).toBe(200);
  });

  test('are followed by their aliases, so that clients with a list to choose from offer them', async () => {
    const models = (await listed()) as { id: string; alias_of?: string }[];
    const large = models.find(({ id }) => id === 'sim/large');
    expect(large).not.toHaveProperty('alias_of');
    expect(models.find(({ id }) => id === 'big')).toEqual({ ...large, id: 'big', alias_of: 'sim/large' });
    const { key } = await makeKey(gateway, { allowedModels: { models: ['sim/s*'] } });
    const own = (await listed('', key)).map(({ id }) => id);
    expect(own).toContain('sim/small');
    expect(own).not.toContain('big');
    const asked = { model: 'big', messages: [{ role: 'user', content: 'hi' }] };
    expect((await post(gateway, '/v1/chat/completions', asked, { key })).status).toBe(403);
    const allowed = { ...asked, model: 'sim/small' };
    expect((await post(gateway, '/v1/chat/completions', allowed, { key })).status).toBe(200);
  });

  test('can be listed with a management key', async () => {
    expect((await listed('', gateway.managementKey)).length).toBeGreaterThan(3);
  });
});
