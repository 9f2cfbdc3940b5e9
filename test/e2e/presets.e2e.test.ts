/** Providers that the environment alone switches on: their catalogue, a local server and another Tollgate that are asked for their models. */
import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endGateway, type Gateway, heldBy, startGateway } from '../gateway.ts';

/** An Ollama, as far as its Chat interface goes. */
const asked: { url: string; body: string }[] = [];
let models = ['qwen3:8b'];
const local: Server = createServer((request, response) => {
  void (async () => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    asked.push({ url: request.url ?? '', body: Buffer.concat(parts).toString() });
    response.setHeader('content-type', 'application/json');
    if (request.url === '/v1/models') {
      response.end(JSON.stringify({ object: 'list', data: models.map(id => ({ id, object: 'model' })) }));
      return;
    }
    const choices = [{ index: 0, message: { role: 'assistant', content: 'local' }, finish_reason: 'stop' }];
    response.end(JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices }));
  })();
});

let inner: Gateway;
let gateway: Gateway;
beforeAll(async () => {
  local.listen(0, '127.0.0.1');
  await once(local, 'listening');
  inner = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n' });
  gateway = await startGateway({
    environment: {
      OLLAMA_HOST: `127.0.0.1:${(local.address() as AddressInfo).port}`,
      TOLLGATE_UPSTREAM_URL: inner.url,
      TOLLGATE_UPSTREAM_API_KEY: inner.apiKey,
      ANTHROPIC_API_KEY: 'canary-of-anthropic',
    },
  });
});
afterAll(async () => {
  await endGateway(gateway);
  await endGateway(inner);
  local.close();
});

interface Listed {
  readonly id: string;
  readonly pricing: { readonly input: number; readonly output: number };
  readonly capabilities: { readonly reasoning: boolean };
}
async function listed(): Promise<Listed[]> {
  const response = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${gateway.apiKey}` } });
  return ((await response.json()) as { data: Listed[] }).data;
}
async function say(body: Record<string, unknown>): Promise<[number, string]> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hi\n!sim say=yes' }], ...body }),
  });
  const answer = (await response.json()) as { choices?: { message: { content: string } }[]; error?: { code: string } };
  return [response.status, answer.choices?.[0]?.message.content ?? answer.error?.code ?? ''];
}

test('a key switches the models of its provider on, with prices', async () => {
  const sonnet = (await listed()).find(({ id }) => id === 'anthropic/claude-sonnet-4-5');
  expect(sonnet).toMatchObject({ pricing: { input: 3, output: 15 }, capabilities: { reasoning: true } });
});

test('a local server is asked for its models, which cost nothing; its limit is called as it knows it', async () => {
  await expect.poll(async () => (await listed()).map(({ id }) => id), { timeout: 20_000 }).toContain('ollama/qwen3:8b');
  expect(await say({ model: 'ollama/qwen3:8b', max_completion_tokens: 7 })).toEqual([200, 'local']);
  const sent = JSON.parse(asked.at(-1)?.body ?? '{}') as Record<string, unknown>;
  expect([sent['model'], sent['max_tokens'], sent['max_completion_tokens']]).toEqual(['qwen3:8b', 7, undefined]);
  expect(await heldBy(gateway)).toBe(0n);
});

test('another Tollgate tells its models with their prices, and answers', async () => {
  await expect
    .poll(async () => (await listed()).map(({ id }) => id), { timeout: 20_000 })
    .toContain('tollgate/sim/large');
  const [own, other] = ['sim/large', 'tollgate/sim/large'].map(id =>
    listed().then(all => all.find(each => each.id === id)),
  );
  expect((await other)?.pricing).toEqual((await own)?.pricing);
  expect(await say({ model: 'tollgate/sim/large' })).toEqual([200, 'yes']);
});

test('a reload asks again, and keeps what servers told', async () => {
  models = ['qwen3:8b', 'llama4:scout'];
  await gateway.admin.reloadConfiguration({});
  await expect
    .poll(async () => (await listed()).map(({ id }) => id), { timeout: 20_000 })
    .toContain('ollama/llama4:scout');
  expect(await say({ model: 'tollgate/sim/large' })).toEqual([200, 'yes']);
});

test('no key is in what the gateway has printed', () => {
  expect(gateway.printed()).not.toContain('canary-of-anthropic');
  expect(gateway.printed()).not.toContain(inner.apiKey);
});
