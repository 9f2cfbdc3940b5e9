/** Gemini and Claude on Vertex AI, with tokens of the metadata server. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { post } from '../e2e/chat-client.ts';
import { endGateway, type Gateway, startGateway } from '../gateway.ts';
import { claudeStream, signature, wholeClaude } from './claude.ts';
import { CloudServer, type Json, sendJson } from './cloud-server.ts';
import { expectAnswer, interfaces, send } from './interfaces.ts';

const shortMs = 5_000;
let lifeMs = 3_600_000;
/** The tokens that the metadata server gave, and until when each is valid. */
const tokens = new Map<string, number>();
let metadata: CloudServer;
let vertex: CloudServer;
let gateway: Gateway;

const wholeGemini: Json = {
  candidates: [
    {
      index: 0,
      content: {
        role: 'model',
        parts: [
          { text: 'Let me look.', thoughtSignature: 'c2ln' },
          { functionCall: { id: 'call-1', name: 'get_weather', args: { city: 'Paris' } } },
        ],
      },
      finishReason: 'STOP',
    },
  ],
  usageMetadata: { promptTokenCount: 12, candidatesTokenCount: 8, totalTokenCount: 20, trafficType: 'ON_DEMAND' },
  modelVersion: 'gemini-2.5-flash',
  responseId: 'r-1',
};

const model = (id: string, name: string, provider = 'vertex'): string =>
  `  - { id: ${id}, max_output_tokens: 8000, endpoints: [/v1/messages, /v1/chat/completions, /v1/responses, '/v1beta/models/{model}:generateContent'], capabilities: { vision: true, function_call: true, reasoning: true }, pricing: { input: 1, output: 10 }, routes: [{ provider: ${provider}, model: '${name}' }] }`;

beforeAll(async () => {
  metadata = await CloudServer.start(({ url, headers }, response) => {
    response.setHeader('metadata-flavor', 'Google');
    if (headers['metadata-flavor'] !== 'Google') response.writeHead(403).end();
    else if (url.includes('/service-accounts/default/token')) {
      const token = `ya29.${tokens.size}`;
      tokens.set(token, Date.now() + lifeMs);
      sendJson(response, 200, { access_token: token, expires_in: lifeMs / 1000, token_type: 'Bearer' });
    } else if (url.endsWith('/project-id')) response.writeHead(200).end('own-project');
    else if (url.endsWith('/universe-domain')) response.writeHead(200).end('googleapis.com');
    else response.writeHead(url.endsWith('/instance') ? 200 : 404).end();
  });
  vertex = await CloudServer.start(({ url, headers }, response) => {
    const [, token = ''] = /^Bearer (.+)$/.exec(headers.authorization ?? '') ?? [];
    if ((tokens.get(token) ?? 0) < Date.now()) {
      sendJson(response, 401, {
        error: { code: 401, message: `Request had invalid credentials ${token}.`, status: 'UNAUTHENTICATED' },
      });
      return;
    }
    const [, publisher, name, method] =
      /^\/v1(?:beta1)?\/projects\/own-project\/locations\/europe-west1\/publishers\/(\w+)\/models\/([^/:]+):(\w+)/.exec(
        url,
      ) ?? [];
    if (publisher === 'google' && name === 'gemini-2.5-flash') {
      if (method === 'generateContent') sendJson(response, 200, wholeGemini);
      else
        response
          .writeHead(200, { 'content-type': 'text/event-stream' })
          .end(`data: ${JSON.stringify(wholeGemini)}\r\n\r\n`);
    } else if (publisher === 'anthropic' && name === 'claude-sonnet-4-5@20250929') {
      if (method === 'rawPredict') sendJson(response, 200, wholeClaude);
      else response.writeHead(200, { 'content-type': 'text/event-stream' }).end(claudeStream);
    } else sendJson(response, 404, { error: { code: 404, message: `no model at ${url}`, status: 'NOT_FOUND' } });
  });
  gateway = await startGateway({
    environment: { GCE_METADATA_HOST: metadata.host, GOOGLE_APPLICATION_CREDENTIALS: '' },
    config: `
retries: 0
# Other test files may use the processor while the library is loaded.
timeouts: { connect: 60s }
providers:
  brief: { cloud: vertex, location: europe-west1, base_url: "${vertex.origin}" }
  vertex: { location: europe-west1, base_url: "${vertex.origin}" }
models:
${model('v/gemini', 'gemini-2.5-flash')}
${model('v/claude', 'claude-sonnet-4-5@20250929')}
${model('v/none', 'gemini-0')}
${model('v/brief', 'gemini-2.5-flash', 'brief')}
`,
  });
});
beforeEach(() => void vertex.requests.splice(0));
afterAll(async () => {
  await endGateway(gateway);
  vertex.stop();
  metadata.stop();
});

const cases = interfaces.flatMap(each => [false, true].map(stream => [each.name, stream, each] as const));

test.each(cases)('%s (stream: %s) reaches Gemini at its path, with a token', async (_, stream, each) => {
  expectAnswer(await send(gateway, each, 'v/gemini', { stream }));
  const place = '/v1beta1/projects/own-project/locations/europe-west1/publishers/google/models/gemini-2.5-flash';
  const { url, body } = vertex.requests[0] ?? expect.fail();
  // A whole answer may be requested as a stream.
  expect([`${place}:generateContent`, `${place}:streamGenerateContent?alt=sse`].slice(stream ? 1 : 0)).toContain(url);
  expect(body).toMatchObject({ systemInstruction: { parts: [{ text: 'You are brief.' }] } });
  expect(body).not.toHaveProperty('model');
});

test.each(cases)(
  '%s (stream: %s) reaches Claude at its path, with the version in the body',
  async (name, stream, each) => {
    expectAnswer(await send(gateway, each, 'v/claude', { stream }));
    const place =
      '/v1/projects/own-project/locations/europe-west1/publishers/anthropic/models/claude-sonnet-4-5@20250929';
    const { url, body, headers } = vertex.requests[0] ?? expect.fail();
    expect([`${place}:rawPredict`, `${place}:streamRawPredict`].slice(stream ? 1 : 0)).toContain(url);
    expect(body).toMatchObject({ anthropic_version: 'vertex-2023-10-16' });
    expect(body).not.toHaveProperty('model');
    expect(body['stream'] === true).toBe(url.endsWith('streamRawPredict'));
    expect(headers).not.toHaveProperty('anthropic-version');
    expect(headers).not.toHaveProperty('x-api-key');
    if (name === 'messages') {
      expect(body).toMatchObject({
        system: [{ cache_control: { type: 'ephemeral' } }],
        thinking: { budget_tokens: 1_024 },
      });
    }
  },
);

test('thinking keeps its signature, and goes back with it', async () => {
  const [messages = expect.fail()] = interfaces;
  const { text } = await send(gateway, messages, 'v/claude');
  const { content } = JSON.parse(text) as { content: Json[] };
  expect(content[0]).toMatchObject({ type: 'thinking', signature });
  const result = { type: 'tool_result', tool_use_id: 'toolu_bdrk_1', content: '20 °C' };
  const more = {
    messages: [
      ...(messages.body['messages'] as Json[]),
      { role: 'assistant', content },
      { role: 'user', content: [result] },
    ],
  };
  expectAnswer(await send(gateway, messages, 'v/claude', { more }));
  const sent = vertex.requests.at(-1)?.body['messages'] as Json[];
  expect(sent[1]).toMatchObject({
    content: expect.arrayContaining([expect.objectContaining({ signature })]) as unknown,
  });
});

test('a beta of a Claude client stays a header', async () => {
  const body = { model: 'v/claude', max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] };
  const headers = { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'interleaved-thinking-2025-05-14' };
  expect((await post(gateway, '/v1/messages', body, { headers })).status).toBe(200);
  expect(vertex.requests[0]?.headers['anthropic-beta']).toBe('interleaved-thinking-2025-05-14');
  expect(vertex.requests[0]?.body).toMatchObject({ anthropic_version: 'vertex-2023-10-16' });
});

test('tokens that end while requests run are renewed before: no request fails', async () => {
  const before = tokens.size;
  lifeMs = shortMs;
  const [, chat = expect.fail()] = interfaces;
  const lanes = Array.from({ length: 3 }, async () => {
    while (tokens.size - before < 3) {
      expectAnswer(await send(gateway, chat, 'v/brief', { stream: true }));
      await sleep(50);
    }
  });
  await Promise.all(lanes);
  expect(tokens.size - before).toBeLessThanOrEqual(4);
}, 90_000);

test('an error of Vertex is told as that of any provider', async () => {
  const [, chat = expect.fail()] = interfaces;
  const answer = await send(gateway, chat, 'v/none');
  expect(answer.status).toBeGreaterThanOrEqual(400);
  expect(answer.text).not.toMatch(/ya29|no model at/);
});
