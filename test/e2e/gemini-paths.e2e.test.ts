/** The paths, keys and lists of Gemini's interface (docs/interfaces/gemini.md "Paths", "Keys", "Models"). */
import { afterAll, describe, expect, test } from 'vitest';
import { endGateway, makeKey } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { askGemini, type GeminiOptions, geminiPath } from './gemini-caller.ts';

const back = await startGateway();
const model = (id: string, more = ''): string =>
  `  - { id: ${id}, pricing: { input: 1, output: 1 }, ${more} routes: [{ provider: back, model: sim/small }] }\n`;
const gateway = await startGateway({
  config: `aliases: { quick: acme/fast }
simulator: { enabled: true }
providers: { back: { protocol: chat, base_url: "${back.url}/v1", api_key: "${back.apiKey}" } }
models:
${model('acme/fast', 'context_length: 9000, max_output_tokens: 700,')}${model('google/gem')}${model('google/flash')}${model('vertex/flash')}${model('a/b/c')}${model('org/m:latest')}  - { id: acme/vectors, pricing: { input: 1 }, endpoints: [/v1/embeddings], routes: [{ provider: back, model: sim/embed }] }
${model('acme/chat-only', 'endpoints: [/v1/chat/completions],')}`,
});
afterAll(async () => {
  await endGateway(gateway);
  await endGateway(back);
});

const hello = { contents: [{ role: 'user', parts: [{ text: 'Hello\n!sim tokens=5' }] }] };

describe('the model in a path', () => {
  const vertex = '/v1/projects/p-1/locations/us-central1';
  test.each([
    ['/v1beta/models/acme/fast', 'acme/fast'],
    ['/v1/models/acme/fast', 'acme/fast'],
    ['/v1alpha/models/acme/fast', 'acme/fast'],
    ['/v1beta/models/models/acme/fast', 'acme/fast'],
    ['/v1beta/models/acme%2Ffast', 'acme/fast'],
    ['/v1beta/models/fast', 'acme/fast'],
    ['/v1beta/models/quick', 'acme/fast'],
    // The AI SDK leaves `models/` out before an id with a slash.
    ['/v1beta/acme/fast', 'acme/fast'],
    ['/v1beta/org/m:latest', 'org/m:latest'],
    ['/v1beta/models/a/b/c', 'a/b/c'],
    ['/v1beta/models/org/m:latest', 'org/m:latest'],
    ['/v1beta/models/sim/large:flex', 'sim/large'],
    [`${vertex}/publishers/acme/models/fast`, 'acme/fast'],
    [`/v1beta1/projects/p/locations/global/publishers/acme/models/fast`, 'acme/fast'],
    [`/v1beta/projects/p/locations/global/publishers/acme/models/fast`, 'acme/fast'],
    ['/v1beta1/publishers/acme/models/fast', 'acme/fast'],
    ['/v1/publishers/google/models/gem', 'google/gem'],
    // An id, an alias and the part after `provider/` come before the publisher's own.
    [`${vertex}/publishers/google/models/acme/fast`, 'acme/fast'],
    [`${vertex}/publishers/google/models/quick`, 'acme/fast'],
    [`${vertex}/publishers/google/models/fast`, 'acme/fast'],
    [`${vertex}/publishers/google/models/flash`, 'google/flash'],
  ])('%s is %s', async (path, listed) => {
    for (const method of ['generateContent', 'streamGenerateContent', 'streamGenerateContent?alt=sse']) {
      const reply = await askGemini(gateway, `${path}:${method}`, hello);
      expect([method, reply.status, reply.chunks.at(-1)?.['modelVersion']]).toEqual([method, 200, listed]);
      // All three have one name in the activity.
      const { records } = await gateway.account.listActivity({ endpoint: '/v1beta/models/{model}:generateContent' });
      expect(records[0]?.requestId).toBe(reply.headers.get('x-request-id'));
    }
    expect((await askGemini(gateway, `${path}:countTokens`, hello)).chunks[0]?.['totalTokens']).toBeGreaterThan(1);
  });

  test('one that is unknown is 404, and named in a body of another interface 400', async () => {
    for (const path of [geminiPath('acme/nothing'), `${vertex}/publishers/acme/models/nothing:generateContent`]) {
      const { status, error, reason } = await askGemini(gateway, path, hello);
      expect([status, error?.code, error?.status, reason]).toEqual([404, 404, 'NOT_FOUND', 'model_not_found']);
    }
    const chat = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'acme/nothing', messages: [{ role: 'user', content: 'Hi' }] }),
    });
    expect(chat.status).toBe(400);
  });

  test('one that the key may not use is 403 for generation and tokens, 404 among the models', async () => {
    const { key } = await makeKey(gateway, { allowedModels: { models: ['acme/fast'] } });
    const allowed = await askGemini(gateway, geminiPath('acme/fast'), hello, { key });
    expect(allowed.status).toBe(200);
    for (const method of ['generateContent', 'streamGenerateContent', 'streamGenerateContent?alt=sse', 'countTokens']) {
      const { status, error, reason } = await askGemini(gateway, geminiPath('google/gem', method), hello, { key });
      expect([method, status, error?.status, reason]).toEqual([method, 403, 'PERMISSION_DENIED', 'model_not_allowed']);
    }
    const read = await askGemini(gateway, '/v1beta/models/google/gem', undefined, { key });
    expect([read.status, read.error?.status, read.reason]).toEqual([404, 'NOT_FOUND', 'model_not_found']);
    const list = await askGemini(gateway, '/v1beta/models', undefined, { key });
    expect(namesIn(list.chunks[0])).toEqual(['models/acme/fast']);
  });

  test('one that does not list the path is refused', async () => {
    const { status, reason } = await askGemini(gateway, geminiPath('acme/chat-only'), hello);
    expect([status, reason]).toEqual([400, 'model_not_supported']);
  });
});

const namesIn = (list: unknown): string[] => (list as { models: { name: string }[] }).models.map(({ name }) => name);

describe('keys', () => {
  const { apiKey } = gateway;
  test.each<[string, GeminiOptions & { query?: string }, number]>([
    ['x-goog-api-key', {}, 200],
    ['Authorization', { key: null, headers: { authorization: `Bearer ${apiKey}` } }, 200],
    ['x-api-key', { key: null, headers: { 'x-api-key': apiKey } }, 200],
    ['the query', { key: null, query: `?key=${apiKey}` }, 200],
    ['the query and the header', { query: `?key=${apiKey}` }, 200],
    [
      'all places',
      { query: `?key=${apiKey}`, headers: { authorization: `Bearer ${apiKey}`, 'x-api-key': apiKey } },
      200,
    ],
    ['no place', { key: null }, 401],
    ['a query that differs from the header', { query: '?key=sk-tg-other' }, 401],
    ['a header that differs from another', { headers: { authorization: 'Bearer sk-tg-other' } }, 401],
    ['x-api-key that differs', { headers: { 'x-api-key': 'sk-tg-other' } }, 401],
    ['a scheme that is none', { headers: { authorization: 'Basic YQ==' } }, 401],
    ['an unknown query', { key: null, query: '?key=sk-tg-unknown' }, 401],
  ])('in %s', async (_name, { query = '', ...options }, status) => {
    for (const path of [`${geminiPath('acme/fast')}${query}`, `/v1beta/models${query}`]) {
      const reply = await askGemini(gateway, path, path.includes(':') ? hello : undefined, options);
      expect(reply.status).toBe(status);
      if (status === 401) expect([reply.error?.status, reply.reason]).toEqual(['UNAUTHENTICATED', 'invalid_api_key']);
      expect(reply.raw).not.toContain(apiKey);
    }
  });

  test('one in a query is in no log, error or metric', async () => {
    const wrong = 'sk-tg-canary0123456789canary0123456789canary012345';
    const paths = [
      `${geminiPath('acme/fast')}?key=${apiKey}`,
      `${geminiPath('acme/fast')}?key=${wrong}`,
      `${geminiPath('acme/fast', 'predict')}?key=${wrong}`,
      `/v1beta/models/%zz?key=${wrong}`,
      `/v1beta/caches?key=${wrong}`,
    ];
    for (const path of paths)
      expect((await askGemini(gateway, path, hello, { key: null })).raw).not.toContain('canary');
    const metrics = await (await fetch(`${gateway.rpcUrl}/metrics`)).text();
    expect(metrics).toContain('endpoint="/v1beta/models/{model}:generateContent"');
    for (const text of [gateway.printed(), metrics]) {
      expect(text).not.toContain('canary');
      expect(text).not.toContain(apiKey);
      // The model of a path is no label; what was asked for is in the log only as the listed id.
      expect(text).not.toContain('{model}:predict');
    }
  });
});

describe('the envelope', () => {
  test.each<[method: 'GET' | 'POST', path: string, headers: Record<string, string>, isGoogle: boolean]>([
    ['POST', '/v1beta/models/acme/fast:predict', {}, true],
    ['POST', '/v1/models/acme/fast:predict', {}, true],
    ['POST', '/v1/models/acme/fast:generateContent', {}, true],
    ['GET', '/v1beta/caches', {}, true],
    ['GET', '/v1beta/files', {}, true],
    ['POST', '/v1beta/interactions', {}, true],
    ['GET', '/v1beta/tunedModels', {}, true],
    ['GET', '/v1beta1/x', {}, true],
    ['GET', '/v1beta', {}, true],
    ['GET', '/v1/projects/p/locations/l/cachedContents', {}, true],
    ['GET', '/v1/publishers/google/models/none', {}, true],
    ['GET', '/v1/models', { 'x-goog-api-key': 'sk-tg-none' }, true],
    ['GET', '/v1/models', { 'x-goog-api-client': 'genai-js/1' }, true],
    ['GET', '/v1/models/none', { 'x-goog-api-client': 'genai-js/1' }, true],
    ['GET', '/v1/models', {}, false],
    ['GET', '/v1/models/none', {}, false],
    ['GET', '/v1/unknown', { 'x-goog-api-key': 'sk-tg-none' }, false],
    ['GET', '/v1betas', {}, false],
    ['POST', '/v1beta/acme/fast:predict', {}, true],
    ['GET', '/v1beta/acme/fast:generateContent', {}, true],
  ])('%s %s %j: Google’s is %s', async (method, path, headers, isGoogle) => {
    const options: GeminiOptions = { key: null, headers, method };
    const { status, raw } = await askGemini(gateway, path, method === 'POST' ? hello : undefined, options);
    expect([401, 404]).toContain(status);
    const { error } = JSON.parse(raw) as { error: Record<string, unknown> };
    expect([error['code'], error['details'] !== undefined]).toEqual(
      isGoogle ? [status, true] : [expect.any(String), false],
    );
  });
});

describe('the models', () => {
  const list = async (query = '') => askGemini(gateway, `/v1beta/models${query}`);
  interface Page {
    models: { name: string; supportedGenerationMethods: string[] }[];
    nextPageToken?: string;
  }
  const page = async (query = ''): Promise<Page> => (await list(query)).chunks[0] as unknown as Page;

  test('have Google’s shape, with prices and capabilities beside it', async () => {
    const read = await askGemini(gateway, '/v1beta/models/acme/fast');
    expect(read.chunks[0]).toEqual({
      name: 'models/acme/fast',
      displayName: 'acme/fast',
      inputTokenLimit: 9000,
      outputTokenLimit: 700,
      supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
      thinking: false,
      pricing: expect.objectContaining({ input: 1, output: 1 }),
      capabilities: expect.objectContaining({ vision: false }),
    });
    const { models } = await page('?pageSize=1000');
    expect(models.find(({ name }) => name === 'models/acme/fast')).toEqual(read.chunks[0]);
    const names = models.map(({ name }) => name);
    expect(names).not.toContain('models/acme/chat-only');
  });

  test('come in pages', async () => {
    const { models: all, nextPageToken } = await page('?pageSize=1000');
    expect(nextPageToken).toBeUndefined();
    expect((await page()).models).toHaveLength(Math.min(50, all.length));
    for (const name of ['pageSize', 'page_size']) {
      const names: string[] = [];
      let token: string | undefined = '';
      let pages = 0;
      while (token !== undefined) {
        const next: Page = await page(`?${name}=3&${name === 'pageSize' ? 'pageToken' : 'page_token'}=${token}`);
        names.push(...next.models.map(each => each.name));
        token = next.nextPageToken;
        pages += 1;
      }
      expect(names).toEqual(all.map(each => each.name));
      expect(pages).toBe(Math.ceil(all.length / 3));
    }
  });

  test.each(['pageSize=0', 'pageSize=1001', 'page_size=x', 'pageToken=bm8', 'page_token=%7F'])(
    '%s is refused',
    async query => {
      const { status, error, reason } = await list(`?${query}`);
      expect([status, error?.status]).toEqual([400, 'INVALID_ARGUMENT']);
      expect(['invalid_query', 'validation_error', 'invalid_request']).toContain(reason);
    },
  );

  test('of /v1/models are OpenAI’s, but Google’s for Google’s clients', async () => {
    const openai = await askGemini(gateway, '/v1/models', undefined, {
      key: null,
      headers: { authorization: `Bearer ${gateway.apiKey}` },
    });
    expect(openai.chunks[0]).toMatchObject({ object: 'list' });
    expect((await askGemini(gateway, '/v1/models')).chunks[0]).toHaveProperty('models');
    expect((await askGemini(gateway, '/v1/models/acme/fast')).chunks[0]).toMatchObject({ name: 'models/acme/fast' });
    // Vertex mode of the clients.
    expect((await askGemini(gateway, '/v1beta1/publishers/acme/models/fast')).chunks[0]).toMatchObject({
      name: 'models/acme/fast',
    });
  });
});

test('countTokens takes contents or a whole request, is free and leaves no record', async () => {
  const { records: before } = await gateway.account.listActivity({});
  const plain = await askGemini(gateway, geminiPath('acme/fast', 'countTokens'), hello);
  const whole = await askGemini(gateway, geminiPath('acme/fast', 'countTokens'), {
    generateContentRequest: {
      model: 'models/acme/fast',
      ...hello,
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
    },
  });
  const tokens = Number(plain.chunks[0]?.['totalTokens']);
  expect(tokens).toBeGreaterThan(3);
  expect(Number(whole.chunks[0]?.['totalTokens'])).toBeGreaterThan(tokens);
  const neither = await askGemini(gateway, geminiPath('acme/fast', 'countTokens'), {});
  expect([neither.status, neither.error?.status]).toEqual([400, 'INVALID_ARGUMENT']);
  const { records: after } = await gateway.account.listActivity({});
  expect(after).toHaveLength(before.length);
});

test.each(['predict', 'predictLongRunning', 'bidiGenerateContent', 'generateAnswer', 'asyncBatchEmbedContent'])(
  '%s is not offered, and says so',
  async method => {
    const { status, error, reason } = await askGemini(gateway, geminiPath('acme/fast', method), hello);
    expect([status, error?.status, reason]).toEqual([404, 'NOT_FOUND', 'not_found']);
    expect(error?.message).toContain('generateContent');
  },
);
