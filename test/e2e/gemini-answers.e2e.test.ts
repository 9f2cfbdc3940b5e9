/** What only Gemini upstreams report, as each client and the ledger see it: blocked prompts, cached input, reasoning, cut calls (docs/providers.md "The Gemini protocol"; docs/interfaces/README.md "Translation"; cases FI-11, FI-14, US-11, US-18 of `test/translation/cases.json`). */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { endGateway, type Gateway, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { post } from './chat-client.ts';

type Json = Record<string, unknown>;

const candidate = (parts: Json[], finishReason?: string): Json => ({
  candidates: [
    { index: 0, content: { role: 'model', parts }, ...(finishReason === undefined ? {} : { finishReason }) },
  ],
});
/** What the upstream answers, by the word in the request. */
const answers: Readonly<Record<string, readonly Json[]>> = {
  'blocked before': [
    {
      promptFeedback: { blockReason: 'PROHIBITED_CONTENT' },
      usageMetadata: { promptTokenCount: 100, totalTokenCount: 100 },
    },
  ],
  'blocked within': [
    candidate([{ text: 'Well, ' }]),
    { ...candidate([], 'SAFETY'), usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 2 } },
  ],
  'counted apart': [
    candidate([{ text: 'Hm.', thought: true }]),
    {
      ...candidate([{ text: 'Yes.' }], 'STOP'),
      usageMetadata: {
        promptTokenCount: 1_000,
        cachedContentTokenCount: 900,
        toolUsePromptTokenCount: 50,
        candidatesTokenCount: 10,
        thoughtsTokenCount: 30,
        totalTokenCount: 1_090,
      },
    },
  ],
  'broken call': [candidate([{ text: 'I call' }]), candidate([], 'MALFORMED_FUNCTION_CALL')],
};
const server: Server = createServer((request, response) => {
  void (async () => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const raw = Buffer.concat(parts).toString();
    if (raw.includes('tells the key')) {
      const key = String(request.headers['x-goog-api-key']);
      const message = `API key not valid: ${key} at ${request.headers.host}`;
      // For a wrong key Google answers 400, as for a client's mistake, but with a reason.
      const details = raw.includes('as a reason') ? [{ reason: 'API_KEY_INVALID' }] : [];
      response.writeHead(400, { 'content-type': 'application/json', 'x-leak': key });
      response.end(JSON.stringify({ error: { code: 400, message, status: 'INVALID_ARGUMENT', details } }));
      return;
    }
    const [, frames = []] = Object.entries(answers).find(([word]) => raw.includes(word)) ?? [];
    response.setHeader('content-type', 'text/event-stream');
    response.end(
      frames.map(frame => `data: ${JSON.stringify({ ...frame, modelVersion: 'm', responseId: 'r' })}\r\n\r\n`).join(''),
    );
  })();
});

const key = 'AIza-canary-0123456789';
let gateway: Gateway;
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  gateway = await startGateway({
    config: `
simulator: { enabled: false }
retries: 0
providers: { google: { protocol: gemini, base_url: "http://127.0.0.1:${(server.address() as AddressInfo).port}", api_key: ${key} } }
models:
  - id: google/flash
    max_output_tokens: 4096
    capabilities: { reasoning: true }
    pricing: { input: 1, output: 10, caching: { read: 0.1 } }
    routes: [{ provider: google, model: gemini-2.5-flash }]
`,
  });
});
afterAll(async () => {
  await endGateway(gateway);
  server.close();
});

/** For each interface: its path, a request, and how to read the finish reason and usage of a whole answer. */
const interfaces: Readonly<Record<string, { path: string; body(word: string): Json; end(answer: Json): unknown }>> = {
  Chat: {
    path: '/v1/chat/completions',
    body: word => ({ messages: [{ role: 'user', content: word }] }),
    end: ({ choices }) => (choices as Json[]).map(({ finish_reason: reason }) => reason),
  },
  Responses: {
    path: '/v1/responses',
    body: word => ({ input: word }),
    end: ({ status, incomplete_details: details }) => [status, details],
  },
  Messages: {
    path: '/v1/messages',
    body: word => ({ max_tokens: 500, messages: [{ role: 'user', content: word }] }),
    end: ({ stop_reason: reason, stop_details: details }) => [reason, (details as Json | undefined)?.['type']],
  },
  Gemini: {
    path: '/v1beta/models/google/flash:generateContent',
    body: word => ({
      contents: [{ role: 'user', parts: [{ text: word }] }],
      generationConfig: { maxOutputTokens: 500 },
    }),
    end: ({ candidates, promptFeedback }) => [
      (candidates as Json[] | undefined)?.map(({ finishReason }) => finishReason),
      (promptFeedback as Json | undefined)?.['blockReason'],
    ],
  },
};

/** Returns the gateway's code of an error: in Google's form it is the reason. */
function readCode(error: unknown): unknown {
  const { code, details } = error as { code: unknown; details?: { reason: unknown }[] };
  return details?.[0]?.reason ?? code;
}

async function ask(name: string, word: string): Promise<{ status: number; answer: Json; requestId: string }> {
  const { path, body } = interfaces[name] ?? expect.fail(name);
  const response = await post(gateway, path, { model: 'google/flash', ...body(word) });
  const answer = (await response.json()) as Json;
  return { status: response.status, answer, requestId: response.headers.get('x-request-id') ?? '' };
}

describe.each<[name: string, refused: unknown, refusedWithin?: unknown]>([
  ['Chat', ['content_filter']],
  ['Responses', ['incomplete', { reason: 'content_filter' }]],
  ['Messages', ['content_filter', 'refusal']],
  // Google's own answers come back as they were.
  ['Gemini', [undefined, 'PROHIBITED_CONTENT'], [['SAFETY'], undefined]],
])('%s', (name, refused, refusedWithin = refused) => {
  test('a blocked prompt is a refusal, and its input is charged', async () => {
    const { status, answer, requestId } = await ask(name, 'blocked before');
    expect([status, interfaces[name]?.end(answer)]).toEqual([200, refused]);
    const { state, costNanoUsd, usage } = await readRecord(gateway, requestId);
    expect([state, costNanoUsd, usage?.inputTokens, usage?.outputTokens]).toEqual([
      RecordState.INCOMPLETE,
      100_000n,
      100,
      0,
    ]);
  });

  test('a blocked answer is answered with 200, and its output is charged', async () => {
    const { status, answer, requestId } = await ask(name, 'blocked within');
    expect([status, interfaces[name]?.end(answer)]).toEqual([200, refusedWithin]);
    expect(JSON.stringify(answer)).toContain('Well, ');
    expect((await readRecord(gateway, requestId)).costNanoUsd).toBe(120_000n);
  });

  test('cached input is charged at the price of cache reads, reasoning as output, and the prompt of tools as input', async () => {
    const { answer, requestId } = await ask(name, 'counted apart');
    // 150 × $1, 900 × $0.10 and 40 × $10 per million.
    const { costNanoUsd, usage } = await readRecord(gateway, requestId);
    expect([costNanoUsd, usage]).toMatchObject([
      640_000n,
      { inputTokens: 150, cacheReadTokens: 900, outputTokens: 40, reasoningTokens: 30 },
    ]);
    expect(((answer['usage'] ?? answer['usageMetadata']) as Json)['cost']).toBe(0.00064);
  });

  test('a malformed call is an upstream failure: 502, and free', async () => {
    const { status, answer, requestId } = await ask(name, 'broken call');
    expect([status, readCode(answer['error'])]).toEqual([502, 'upstream_error']);
    expect((await readRecord(gateway, requestId)).costNanoUsd).toBe(0n);
  });
});

test.each([
  {
    what: 'a refusal that repeats the key',
    word: 'tells the key',
  },
  {
    what: 'a key that is refused',
    word: 'tells the key as a reason',
  },
])('$what is not passed on to the client', async ({ word }) => {
  // Its only key is wrong, whatever the status: the operator's fault.
  const expected = [502, 'upstream_error', 'The model’s provider refused the gateway’s request.'];
  for (const { path, body } of Object.values(interfaces)) {
    const response = await post(gateway, path, { model: 'google/flash', ...body(word) });
    const shown = JSON.stringify([...response.headers]) + (await response.clone().text());
    const { error } = (await response.json()) as { error: Json };
    expect([response.status, readCode(error), error['message']]).toEqual(expected);
    expect(shown).not.toContain('canary');
  }
  await expect.poll(() => gateway.printed(), { timeout: 10_000 }).toContain(`"code":"${expected[1]}"`);
  expect(gateway.printed()).not.toContain('canary');
  expect(await (await fetch(`${gateway.rpcUrl}/metrics`)).text()).not.toContain('canary');
});
