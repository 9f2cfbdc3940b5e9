/** OpenAI's models on Azure, with tokens of a managed identity by `@azure/identity`, which stands where an operator installs it: in the folder in which the gateway is started. */
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { CloudServer, type Json, sendJson } from '../clouds/cloud-server.ts';
import { post } from '../e2e/chat-client.ts';
import { endGateway, type Gateway, makeHome, root, startGateway } from '../gateway.ts';

const version = '2025-04-01-preview';
const lifeMs = 6_000;
const tokens = new Map<string, number>();
let identity: CloudServer;
let azure: CloudServer;
let gateway: Gateway;
let poor: Gateway;

const filters = { hate: { filtered: false, severity: 'safe' }, violence: { filtered: false, severity: 'safe' } };
const usage = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 };
const chunk = (choices: Json[], more: Json = {}): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'gpt-4o', choices, ...more })}\n\n`;
const choice = (delta: Json, more: Json = {}): Json => ({
  index: 0,
  delta,
  finish_reason: null,
  content_filter_results: {},
  ...more,
});

/** A stream as Azure sends it: the filters of the prompt come first, in a chunk without choices, and those of the answer with and after its text. */
const stream = (finish: string): string =>
  [
    chunk([], { id: '', model: '', prompt_filter_results: [{ prompt_index: 0, content_filter_results: filters }] }),
    chunk([choice({ role: 'assistant', content: '' })]),
    chunk([choice({ content: 'Hello ' }, { content_filter_results: filters })]),
    chunk([choice({ content: 'there' })]),
    chunk([choice({}, { finish_reason: finish })]),
    chunk([
      {
        index: 0,
        finish_reason: null,
        content_filter_offsets: { check_offset: 5, start_offset: 5, end_offset: 9 },
        content_filter_results: filters,
      },
    ]),
    chunk([], { usage }),
    'data: [DONE]\n\n',
  ].join('');

const filtered = {
  error: {
    message: "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    type: null,
    param: 'prompt',
    code: 'content_filter',
    status: 400,
    innererror: {
      code: 'ResponsibleAIPolicyViolation',
      content_filter_result: { violence: { filtered: true, severity: 'high' } },
    },
  },
};

const config = (): string => `
retries: 0
# Other test files may use the processor while the library is loaded.
timeouts: { connect: 60s }
providers:
  azure: { cloud: azure, base_url: "${azure.origin}", api_version: ${version}, protocol: chat }
  keyed: { cloud: azure, base_url: "${azure.origin}", api_key: azure-key, protocol: chat }
models:
  - { id: a/gpt, pricing: { input: 1, output: 10 }, routes: [{ provider: azure, model: my gpt }] }
  - { id: k/gpt, pricing: { input: 1, output: 10 }, routes: [{ provider: keyed, model: gpt-4o }] }
  - { id: a/embed, endpoints: [/v1/embeddings], pricing: { input: 1 }, routes: [{ provider: azure, model: embed }] }
`;

beforeAll(async () => {
  identity = await CloudServer.start(({ url, headers }, response) => {
    if (
      headers['x-identity-header'] !== 'secret' ||
      !url.includes('resource=https%3A%2F%2Fcognitiveservices.azure.com')
    ) {
      sendJson(response, 400, { error: 'no', secret: 'never shown' });
      return;
    }
    const token = `entra-${tokens.size}`;
    tokens.set(token, Date.now() + lifeMs);
    sendJson(response, 200, {
      access_token: token,
      expires_on: String(Math.ceil((Date.now() + lifeMs) / 1000)),
      resource: 'r',
      token_type: 'Bearer',
    });
  });
  azure = await CloudServer.start(({ url, headers, text, body }, response) => {
    const token = headers.authorization?.replace('Bearer ', '') ?? '';
    const isKey = headers['api-key'] === 'azure-key';
    if (!isKey && (tokens.get(token) ?? 0) < Date.now()) {
      sendJson(response, 401, {
        error: { code: '401', message: 'Unauthorized. Access token is missing, invalid or expired.' },
      });
    } else if (text.includes('weapon')) sendJson(response, 400, filtered);
    else if (url.includes('/embeddings'))
      sendJson(response, 200, {
        object: 'list',
        data: [{ object: 'embedding', index: 0, embedding: [0.5] }],
        model: 'e',
        usage: { prompt_tokens: 1, total_tokens: 1 },
      });
    else if (body['stream'] === true)
      response
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .end(stream(text.includes('cut') ? 'content_filter' : 'stop'));
    else
      sendJson(response, 200, {
        id: 'c',
        object: 'chat.completion',
        created: 1,
        model: 'gpt-4o',
        prompt_filter_results: [],
        choices: [
          {
            index: 0,
            finish_reason: 'stop',
            content_filter_results: filters,
            message: { role: 'assistant', content: 'Hello there' },
          },
        ],
        usage,
      });
  });
  const environment = { IDENTITY_ENDPOINT: `${identity.origin}/token`, IDENTITY_HEADER: 'secret' };
  const home = makeHome();
  symlinkSync(join(root, 'test/clients/node_modules'), join(home.folder, 'node_modules'));
  gateway = await startGateway({ home, environment, config: config() });
  poor = await startGateway({ environment, config: config() });
});
beforeEach(() => void azure.requests.splice(0));
afterAll(async () => {
  await endGateway(gateway);
  await endGateway(poor);
  azure.stop();
  identity.stop();
});

const ask = (model: string, content: string, more: Json = {}) =>
  post(gateway, '/v1/chat/completions', { model, messages: [{ role: 'user', content }], ...more });

test('a managed identity’s token is sent to the deployment’s address with the version', async () => {
  const answer = await ask('a/gpt', 'hi');
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('Hello there')]);
  const { url, headers } = azure.requests[0] ?? expect.fail();
  expect(url).toBe(`/openai/deployments/my%20gpt/chat/completions?api-version=${version}`);
  expect(headers.authorization).toMatch(/^Bearer entra-/);
  expect(headers).not.toHaveProperty('api-key');
  expect((await post(gateway, '/v1/embeddings', { model: 'a/embed', input: 'hi' })).status).toBe(200);
  expect(azure.requests[1]?.url).toBe(`/openai/deployments/embed/embeddings?api-version=${version}`);
});

test('a key goes into its own header, to the addresses without a version', async () => {
  expect((await ask('k/gpt', 'hi')).status).toBe(200);
  expect(azure.requests[0]?.url).toBe('/openai/v1/chat/completions');
  expect(azure.requests[0]?.headers['api-key']).toBe('azure-key');
  expect(azure.requests[0]?.headers).not.toHaveProperty('authorization');
});

test('tokens that end while requests run are renewed: no request fails', async () => {
  const before = tokens.size;
  const lanes = Array.from({ length: 3 }, async () => {
    while (tokens.size - before < 3) {
      const answer = await ask('a/gpt', 'hi', { stream: true });
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringMatching(/there[^]*\[DONE\]/)]);
      await sleep(100);
    }
  });
  await Promise.all(lanes);
}, 90_000);

describe('content filters', () => {
  test('a refused prompt is the request’s fault, with the provider’s words', async () => {
    const answer = await ask('a/gpt', 'weapon');
    expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining('content management policy')]);
  });

  test('a filtered answer ends with content_filter', async () => {
    const answer = await ask('a/gpt', 'cut', { stream: true });
    expect(await answer.text()).toMatch(/Hello [^]*"finish_reason":"content_filter"[^]*\[DONE\]/);
  });
});

test('without the package, `provider test` says what to install, and clients get 502', async () => {
  const { json } = await poor.cli(['provider', 'test', 'azure', '--json']);
  expect(JSON.stringify(json)).toContain(
    'no credential: the package @azure/identity is not installed; run `npm install @azure/identity`',
  );
  const answer = await post(poor, '/v1/chat/completions', {
    model: 'a/gpt',
    messages: [{ role: 'user', content: 'hi' }],
  });
  expect([answer.status, await answer.text()]).toEqual([502, expect.not.stringContaining('identity')]);
});
