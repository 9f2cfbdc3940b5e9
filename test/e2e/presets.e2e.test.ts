/** Providers that environment variables enable without a configuration file: their models, and a local server and another Tollgate that are queried for theirs. */
import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endGateway, type Gateway, heldBy } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

/** The model lists of other local servers, as their documentation shows them, by the path of each server. */
const lists: Readonly<Record<string, object>> = {
  '/vllm/v1/models': {
    object: 'list',
    data: [
      {
        id: 'Qwen/Qwen3-8B',
        object: 'model',
        created: 1,
        owned_by: 'vllm',
        root: 'Qwen/Qwen3-8B',
        max_model_len: 40_960,
      },
    ],
  },
  '/llama/v1/models': {
    models: [{ name: 'qwen3.gguf', model: 'qwen3.gguf', type: 'model' }],
    object: 'list',
    data: [
      {
        id: 'qwen3.gguf',
        object: 'model',
        owned_by: 'llamacpp',
        meta: { n_ctx: 4_096, n_ctx_train: 32_768, n_vocab: 151_936 },
      },
    ],
  },
  '/studio/v1/models': {
    data: [{ id: 'qwen3-8b', object: 'model', owned_by: 'organization_owner' }, { object: 'model' }],
    object: 'list',
  },
};
/** The requests to the local servers: Ollama's Chat interface, and the model lists of the others. */
const requested: { url: string; body: string; authorization: string | undefined }[] = [];
let models = ['qwen3:8b'];
const local: Server = createServer((request, response) => {
  void (async () => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const { authorization } = request.headers;
    requested.push({ url: request.url ?? '', body: Buffer.concat(parts).toString(), authorization });
    response.setHeader('content-type', 'application/json');
    const list = lists[request.url ?? ''];
    if (list !== undefined) {
      response.end(JSON.stringify(list));
      return;
    }
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
  const at = `127.0.0.1:${(local.address() as AddressInfo).port}`;
  gateway = await startGateway({
    config: `
models:
  - { id: lm-studio/qwen3-8b, max_output_tokens: 100, pricing: { input: 1, output: 2 }, routes: [{ provider: lm-studio, model: qwen3-8b }] }
aliases: { ollama/hidden: lm-studio/qwen3-8b, haiku: anthropic/claude-haiku-4-5 }
`,
    environment: {
      OLLAMA_HOST: at,
      VLLM_BASE_URL: `${at}/vllm/v1`,
      VLLM_API_KEY: 'canary-of-vllm',
      LLAMA_CPP_BASE_URL: `http://${at}/llama/v1/`,
      LM_STUDIO_BASE_URL: `http://${at}/studio/v1`,
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
  readonly context_length: number | null;
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

test('an alias in the file may name a model of a preset', async () => {
  const headers = { authorization: `Bearer ${gateway.apiKey}` };
  const response = await fetch(`${gateway.url}/v1/models/haiku`, { headers });
  expect([response.status, ((await response.json()) as Listed).id]).toEqual([200, 'anthropic/claude-haiku-4-5']);
});

test('a key enables the models of its provider, with prices', async () => {
  const sonnet = (await listed()).find(({ id }) => id === 'anthropic/claude-sonnet-4-5');
  expect(sonnet).toMatchObject({ pricing: { input: 3, output: 15 }, capabilities: { reasoning: true } });
});

test('a local server is queried for its models, which cost nothing, and gets the output limit under the name that it knows', async () => {
  await expect.poll(async () => (await listed()).map(({ id }) => id), { timeout: 20_000 }).toContain('ollama/qwen3:8b');
  expect(await say({ model: 'ollama/qwen3:8b', max_completion_tokens: 7 })).toEqual([200, 'local']);
  const sent = JSON.parse(requested.at(-1)?.body ?? '{}') as Record<string, unknown>;
  expect([sent['model'], sent['max_tokens'], sent['max_completion_tokens']]).toEqual(['qwen3:8b', 7, undefined]);
  expect(await heldBy(gateway)).toBe(0n);
});

test('every kind of local server is queried at its address with its key; models in the file have the prices of the file', async () => {
  const local = async (): Promise<string[]> =>
    (await listed())
      .filter(({ id }) => /^(vllm|llama-cpp|lm-studio)\//.test(id))
      .map(({ id, pricing, context_length: context }) => `${id} ${pricing.input} ${pricing.output} ${context}`)
      .toSorted();
  await expect
    .poll(local, { timeout: 20_000 })
    .toEqual(['llama-cpp/qwen3.gguf 0 0 4096', 'lm-studio/qwen3-8b 1 2 null', 'vllm/Qwen/Qwen3-8B 0 0 40960']);
  const keys = requested
    .filter(({ url }) => url in lists)
    .map(({ url, authorization }) => `${url} ${authorization ?? '-'}`);
  expect([...new Set(keys)].toSorted()).toEqual([
    '/llama/v1/models -',
    '/studio/v1/models -',
    '/vllm/v1/models Bearer canary-of-vllm',
  ]);
  expect(await say({ model: 'vllm/Qwen/Qwen3-8B' })).toEqual([200, 'local']);
  expect(await say({ model: 'lm-studio/qwen3-8b' })).toEqual([200, 'local']);
  const ledger = await gateway.account.listActivity({ limit: 10 });
  const costs = ledger.records.map(({ model, costNanoUsd }) => `${model} ${costNanoUsd > 0n ? 'paid' : 'free'}`);
  expect([...new Set(costs)].toSorted()).toEqual([
    'lm-studio/qwen3-8b paid',
    'ollama/qwen3:8b free',
    'vllm/Qwen/Qwen3-8B free',
  ]);
});

test('the models of another Tollgate are listed with their prices, and answer', async () => {
  await expect
    .poll(async () => (await listed()).map(({ id }) => id), { timeout: 20_000 })
    .toContain('tollgate/sim/large');
  const [own, other] = ['sim/large', 'tollgate/sim/large'].map(id =>
    listed().then(all => all.find(each => each.id === id)),
  );
  expect((await other)?.pricing).toEqual((await own)?.pricing);
  expect(await say({ model: 'tollgate/sim/large' })).toEqual([200, 'yes']);
});

test('a reload queries servers again, and keeps the models that they returned before', async () => {
  models = ['qwen3:8b', 'llama4:scout'];
  await gateway.admin.reloadConfiguration({});
  await expect
    .poll(async () => (await listed()).map(({ id }) => id), { timeout: 20_000 })
    .toContain('ollama/llama4:scout');
  expect(await say({ model: 'tollgate/sim/large' })).toEqual([200, 'yes']);
});

test('once the file names a server, the models that the server returned are no longer listed', async () => {
  const file = join(gateway.home.folder, 'gateway.yaml');
  const { origin } = new URL(`http://127.0.0.1:${(local.address() as AddressInfo).port}`);
  writeFileSync(file, `providers: { ollama: { protocol: chat, base_url: "${origin}/v1" } }`);
  await gateway.admin.reloadConfiguration({});
  await expect
    .poll(async () => (await listed()).some(({ id }) => id.startsWith('ollama/')), { timeout: 20_000 })
    .toBe(false);
  expect((await listed()).some(({ id }) => id === 'vllm/Qwen/Qwen3-8B')).toBe(true);
});

test('the gateway’s output contains no key', () => {
  expect(gateway.printed()).not.toContain('canary');
  expect(gateway.printed()).not.toContain(inner.apiKey);
});
