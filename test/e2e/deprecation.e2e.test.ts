/** Models that end: what clients of each interface see before and after. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { CloudServer } from '../clouds/cloud-server.ts';
import { chatWire } from './upstream-wires.ts';
import { post } from './chat-client.ts';

let upstream: CloudServer;
let gateway: Gateway;

beforeAll(async () => {
  upstream = await CloudServer.start(({ body }, response) => {
    const usage = { prompt_tokens: 5, completion_tokens: 2 };
    if (body['stream'] === true) {
      const { begun, texts, call, finish, end } = chatWire;
      const text = [begun, ...texts, ...call.map(({ frame }) => frame), finish, chatWire.usage(usage), end].join('');
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(text);
    } else response.writeHead(200, { 'content-type': 'application/json' }).end(chatWire.whole(usage));
  });
  const shared = `endpoints: [/v1/chat/completions, /v1/responses, /v1/messages, '/v1beta/models/{model}:generateContent'], capabilities: { function_call: true }, pricing: { input: 1, output: 1 }, routes: [{ provider: p, model: m }]`;
  gateway = await startGateway({
    config: `
providers: { p: { protocol: chat, base_url: "${upstream.origin}/v1" } }
models:
  - { id: a/ending, retires_at: 2099-01-31, replacement: a/new, ${shared} }
  - { id: a/gone, retires_at: 2026-01-31, replacement: a/new, ${shared} }
  - { id: a/new, ${shared} }
`,
  });
});
afterAll(async () => {
  await endGateway(gateway);
  upstream.stop();
});

const contents = [{ role: 'user', parts: [{ text: 'hi' }] }];
const messages = [{ role: 'user', content: 'hi' }];
const requests: readonly (readonly [path: (model: string) => string, body: object, status: number])[] = [
  [() => '/v1/chat/completions', { messages }, 400],
  [() => '/v1/responses', { input: 'hi' }, 400],
  [() => '/v1/messages', { messages, max_tokens: 50 }, 400],
  [model => `/v1beta/models/${model}:generateContent`, { contents }, 404],
];
const send = (path: string, model: string, body: object, more: object = {}) =>
  post(gateway, path, path.startsWith('/v1beta') ? body : { model, ...body, ...more });

test.each(requests)(
  'a deprecated model answers with a warning, a retired one not at all (%s)',
  async (path, body, status) => {
    const before = await send(path('a/ending'), 'a/ending', body);
    expect([before.status, before.headers.get('x-tollgate-warnings')]).toEqual([
      200,
      expect.stringContaining('deprecated=a/ending;retires_at=2099-01-31;replacement=a/new'),
    ]);
    await before.text();
    const sent = upstream.requests.length;
    const after = await send(path('a/gone'), 'a/gone', body);
    expect([after.status, await after.text()]).toEqual([
      status,
      expect.stringMatching(/retired on 2026-01-31\. Use a\/new/),
    ]);
    expect(upstream.requests).toHaveLength(sent);
  },
);

test('a stream has the warning in its head', async () => {
  const answer = await send('/v1/chat/completions', 'a/ending', { messages }, { stream: true });
  expect(answer.headers.get('x-tollgate-warnings')).toContain('deprecated=a/ending');
  await answer.text();
});

test('the list has the dates, without the retired model', async () => {
  const get = (path: string) =>
    fetch(`${gateway.url}${path}`, { headers: { authorization: `Bearer ${gateway.apiKey}` } });
  const { data } = (await (await get('/v1/models')).json()) as { data: { id: string }[] };
  expect(data.filter(({ id }) => id.startsWith('a/'))).toMatchObject([
    { id: 'a/ending', deprecated_at: null, retires_at: '2099-01-31T00:00:00.000Z', replacement: 'a/new' },
    { id: 'a/new', deprecated_at: null, retires_at: null, replacement: null },
  ]);
  expect((await get('/v1/models/a/gone')).status).toBe(404);
});
