import { afterAll, beforeAll, expect, test } from 'vitest';
import { AccountService } from '../../src/gen/tollgate/v1/account_pb.ts';
import { dataFrame, type Json, type Scripted, ScriptedUpstream } from '../e2e/scripted-upstream.ts';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { isStored } from '../stored-content.ts';
import { PageCaller } from './page-caller.ts';

let gateway: Gateway;
let upstream: ScriptedUpstream;

const chunk = (delta: Json, finish: string | null = null): string =>
  dataFrame({
    id: 'up-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'up',
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 };
const answer: Scripted = {
  frames: [
    chunk({ role: 'assistant', content: 'A harbour.' }),
    chunk({}, 'stop'),
    dataFrame({ id: 'up-1', object: 'chat.completion.chunk', created: 1, model: 'up', choices: [], usage }),
    'data: [DONE]\n\n',
  ],
  whole: {
    id: 'up-1',
    object: 'chat.completion',
    created: 1,
    model: 'up',
    choices: [{ index: 0, message: { role: 'assistant', content: 'A harbour.' }, finish_reason: 'stop' }],
    usage,
  },
};

beforeAll(async () => {
  upstream = await ScriptedUpstream.start({ lighthouse: answer });
  const route = (provider: string, priority: number): string =>
    `      - { provider: ${provider}, model: up, priority: ${priority} }`;
  gateway = await startGateway({
    config: [
      'retries: 0',
      'providers:',
      '  dead: { protocol: chat, base_url: "http://127.0.0.1:9/v1", api_key: "secret-of-dead" }',
      `  alive: { protocol: chat, base_url: "${upstream.url}/v1", api_key: "secret-of-alive" }`,
      'models:',
      '  - id: acme/large',
      '    pricing: { input: 1, output: 4 }',
      '    routes:',
      route('dead', 1),
      route('alive', 2),
      '  - id: acme/gone',
      '    pricing: { input: 1, output: 4 }',
      '    routes:',
      route('dead', 1),
      'content: { body_bytes: 2KiB }',
      '',
    ].join('\n'),
  });
});
afterAll(async () => {
  await endGateway(gateway);
  upstream.stop();
});

async function send(path: string, body: object, key = gateway.apiKey) {
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return { status: response.status, text: await response.text(), id: response.headers.get('x-request-id') ?? '' };
}

async function read(path: string) {
  const response = await fetch(`${gateway.url}/v1/account${path}`, {
    headers: { authorization: `Bearer ${gateway.managementKey}` },
  });
  return { status: response.status, body: (await response.json()) as Json };
}

const chat = (text: string, rest: Json = {}): Json => ({
  model: 'acme/large',
  messages: [{ role: 'user', content: text }],
  ...rest,
});

async function keyThatKeeps(keepBodies: string) {
  const { key } = await gateway.account.createKey({ settings: { label: keepBodies, keepBodies } });
  return { key: key?.key ?? '', id: key?.apiKeyId ?? 0n };
}

test('a record has the routes that were tried, why, and how each attempt ended', async () => {
  const { id, status } = await send('/v1/chat/completions', chat('The lighthouse of Alexandria'));
  expect(status).toBe(200);
  const { body } = await read(`/activity/${id}`);
  const timeline = body['timeline'] as { attempts: Json[]; extensions: Json[]; provider: string };
  expect(timeline.provider).toBe('alive');
  expect(timeline.attempts.map(({ provider, model, reason, result }) => ({ provider, model, reason, result }))).toEqual(
    [
      { provider: 'dead', model: 'up', reason: 'priority', result: 'connect' },
      { provider: 'alive', model: 'up', reason: 'fallback', result: 'completed' },
    ],
  );
  expect(timeline.extensions).toEqual([]);
});

test('a record has each growth of its hold, and the last amount covers the cost', async () => {
  const body = { model: 'sim/large', stream: true, max_tokens: 9_000 };
  const { id, status } = await send('/v1/chat/completions', {
    ...body,
    messages: [{ role: 'user', content: '!sim tokens=6000 tps=0\nCount.' }],
  });
  expect(status).toBe(200);
  const { record } = await gateway.account.getActivity({ requestId: id });
  const { admittedNanoUsd = 0n, extensions = [] } = record?.timeline ?? {};
  const held = [admittedNanoUsd, ...extensions.map(({ heldNanoUsd }) => heldNanoUsd)];
  expect(held.length).toBeGreaterThan(1);
  expect(held).toEqual([...held].sort((one, other) => Number(one - other)));
  expect(held.at(-1)).toBeGreaterThanOrEqual(record?.costNanoUsd ?? 0n);
  const times = extensions.map(({ atMs }) => Number(atMs));
  expect(times.every(ms => ms <= Number(record?.latencyMs))).toBe(true);
});

test('no body of a request is stored unless the configuration or the key says so', async () => {
  const { id } = await send('/v1/chat/completions', chat('The lighthouse is off'));
  expect((await read(`/activity/${id}/bodies`)).status).toBe(404);
});

test('for a key that stores all bodies, those of the client, the contract and the upstream are stored unchanged, without the provider’s secrets', async () => {
  const { key } = await keyThatKeeps('all');
  const requested = chat('The lighthouse of Messages');
  const streamed = { ...requested, max_tokens: 50, stream: true, top_k: 3, thinking: { type: 'disabled' } };
  const { id, text, status } = await send('/v1/messages', streamed, key);
  expect([status, text]).toEqual([200, expect.stringContaining('A harbour.')]);
  const { body } = await read(`/activity/${id}/bodies`);
  const kept = body as Record<string, { text: string; bytes: number; cut: boolean }>;
  expect(JSON.parse(kept['client_request']?.text ?? '')).toEqual(streamed);
  expect(kept['client_answer']?.text).toBe(text);
  expect(kept['contract_request']?.text).toContain('The lighthouse of Messages');
  expect(kept['contract_answer']?.text).toContain('A harbour.');
  // The dead route was never reached, so its request is stored with an empty answer.
  const exchanges = body['upstream'] as { provider: string; request: { text: string }; answer: { text: string } }[];
  expect(exchanges.map(({ provider }) => provider)).toEqual(['dead', 'alive']);
  expect(exchanges[0]?.answer.text).toBe('');
  expect(JSON.parse(exchanges[1]?.request.text ?? '')).toEqual(upstream.bodies.at(-1));
  expect(exchanges[1]?.answer.text).toBe(answer.frames.join(''));
  expect(body['dropped']).toContain('top_k');
  expect(JSON.stringify(body)).not.toContain('secret-of');
});

test('for a key that stores errors, nothing is stored of a success and all bodies of a failure', async () => {
  const { key } = await keyThatKeeps('errors');
  const good = await send('/v1/chat/completions', chat('The lighthouse is well'), key);
  expect((await read(`/activity/${good.id}/bodies`)).status).toBe(404);
  const bad = await send('/v1/chat/completions', { ...chat('A ruin'), model: 'acme/gone' }, key);
  expect(bad.status).toBe(502);
  const { body } = await read(`/activity/${bad.id}/bodies`);
  expect(body).toMatchObject({ failed: true, model: 'acme/gone', client_answer: { text: bad.text, cut: false } });
});

test('a body over the maximum is cut, and its full length is stored', async () => {
  const { key } = await keyThatKeeps('all');
  const { id } = await send('/v1/chat/completions', chat(`lighthouse ${'é'.repeat(5_000)}`), key);
  const { body } = await read(`/activity/${id}/bodies`);
  const sent = body['client_request'] as { text: string; bytes: number; cut: boolean };
  expect(sent.cut).toBe(true);
  expect(sent.bytes).toBeGreaterThan(10_000);
  expect(Buffer.byteLength(sent.text)).toBeLessThanOrEqual(2_050);
});

test('bodies can be read by the owner and the operator, but not by other accounts, viewers or the holder of a key; on disk they are encrypted', async () => {
  const { key } = await keyThatKeeps('all');
  const { id } = await send('/v1/chat/completions', chat('The lighthouse and a secret word: Ozymandias'), key);
  expect((await read(`/activity/${id}/bodies`)).status).toBe(200);
  const shown = await gateway.cli(['requests', 'bodies', id, '--account', '1', '--json']);
  expect(shown.json).toMatchObject({ request_id: id });
  const { account } = await gateway.admin.createAccount({ name: 'others', balanceNanoUsd: 0n });
  const others = await gateway.admin.createManagementKey({
    accountId: account?.accountId ?? 0n,
    scopes: ['account:bodies', 'account:activity'],
  });
  const seen = await fetch(`${gateway.url}/v1/account/activity/${id}/bodies`, {
    headers: { authorization: `Bearer ${others.key?.key}` },
  });
  expect(seen.status).toBe(404);
  const without = await gateway.admin.createManagementKey({ accountId: 1n, scopes: ['account:activity'] });
  const refused = await fetch(`${gateway.url}/v1/account/activity/${id}/bodies`, {
    headers: { authorization: `Bearer ${without.key?.key}` },
  });
  expect(refused.status).toBe(403);
  const holder = new PageCaller(gateway.url);
  await holder.signIn(key);
  await expect(holder.client(AccountService).getRequestBodies({ requestId: id })).rejects.toThrow(/management key/);
  expect(await isStored(gateway.home, 'Ozymandias')).toBe(false);
  expect(gateway.printed()).not.toContain('Ozymandias');
});

test('a paused key is refused with an error that says how to resume it, and works again once resumed', async () => {
  const { key, id } = await keyThatKeeps('off');
  await gateway.account.updateKey({ apiKeyId: id, settings: { paused: true } });
  const refused = await send('/v1/chat/completions', chat('The lighthouse waits'), key);
  expect([refused.status, refused.text]).toEqual([403, expect.stringContaining('{\\"paused\\": false}')]);
  await gateway.account.updateKey({ apiKeyId: id, settings: { paused: false } });
  expect((await send('/v1/chat/completions', chat('The lighthouse goes on'), key)).status).toBe(200);
});
