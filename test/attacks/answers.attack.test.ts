/** Providers whose answers never end (docs/security.md "Responses"). */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, expect, test } from 'vitest';
import { readBalance, endGateway, readRecord, startGateway } from '../gateway.ts';
import { LoopHolds } from './loop-holds.ts';
import { testPeak } from './peak-memory.ts';
import { attackSize } from './scale.ts';

const mebibyte = 1024 ** 2;

/** What an endless provider repeats, by the requested model. */
const said: Readonly<Record<string, (choice: number) => string>> = {
  text: choice => makeChunk(choice, { delta: { content: 'word '.repeat(200) } }),
  nothing: () => ': still there\n\n',
  logprobs: choice =>
    makeChunk(choice, { delta: { content: '' }, logprobs: { content: Array.from({ length: 20 }, () => token) } }),
  reasoning: choice => makeChunk(choice, { delta: { reasoning_content: 'hm '.repeat(200) } }),
  calls: choice => {
    const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: 'x'.repeat(500) } };
    return makeChunk(choice, { delta: { tool_calls: [call] } });
  },
};
const alternative = { token: 'x', logprob: -1, bytes: [120] };
const token = { ...alternative, top_logprobs: Array.from({ length: 20 }, () => alternative) };

function makeChunk(index: number, choice: object): string {
  const chunk = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index, ...choice }] };
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

let sentBytes = 0;
let closed: Promise<unknown> = Promise.resolve();
const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    const { model, n = 1 } = JSON.parse(Buffer.concat(parts).toString()) as { model: string; n?: number };
    sentBytes = 0;
    closed = once(response, 'close');
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    void pour(response, model, n);
  });
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
afterAll(() => server.close());

/** Sends until the gateway disconnects, but at most a gibibyte. */
async function pour(response: ServerResponse, model: string, n: number): Promise<void> {
  for (let turn = 0; !response.destroyed && sentBytes < 1024 * mebibyte; turn += 1) {
    const text = (said[model]?.(turn % n) ?? '').repeat(20);
    sentBytes += text.length;
    if (!response.write(text)) await Promise.race([once(response, 'drain'), closed]);
  }
  response.end();
}

const models = Object.keys(said).map(
  name => `
  - id: acme/${name}
    max_output_tokens: 1000
    capabilities: { function_call: true, reasoning: true }
    pricing: { input: 1, output: 1000 }
    routes: [{ provider: endless, model: ${name} }]`,
);
const holds = new LoopHolds();
const gateway = await startGateway({
  environment: holds.environment('--max-old-space-size=800'),
  balance: '10000',
  config: `
retries: 0
limits: { answer_bytes: 2MiB, whole_answer_bytes: 4MiB, upstream_event_bytes: ${attackSize(64, 1)}MiB }
providers:
  endless: { protocol: chat, base_url: "http://127.0.0.1:${(server.address() as AddressInfo).port}/v1", api_key: x }
models:${models.join('')}
`,
});
afterAll(() => holds.remove());
afterAll(() => endGateway(gateway));

async function ask(model: string, more: object): Promise<{ text: string; id: string; tookMs: number }> {
  const began = performance.now();
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: `acme/${model}`, messages: [{ role: 'user', content: 'x' }], ...more }),
  });
  const text = await response.text();
  const id = response.headers.get('x-request-id') ?? '';
  return { text, id, tookMs: performance.now() - began };
}

// The first answer whose tokens are counted loads the tokenizer, which takes 120 ms once per process and is not measured.
await ask('text', { max_tokens: 50 });

const logprobs = { logprobs: true, top_logprobs: 20 };
const cases: readonly (readonly [model: string, more: object])[] = [
  ['text', {}],
  ['text', { n: 128 }],
  ['reasoning', {}],
  ['calls', {}],
  ['logprobs', logprobs],
  ['logprobs', { ...logprobs, n: 128 }],
  ['nothing', {}],
];

test.each(cases.flatMap(([model, more]) => [true, false].map(stream => [model, { ...more, stream }] as const)))(
  'endless %s (%o) is ended as a failure of the provider, and the delivered part is charged',
  async (model, more) => {
    const before = await readBalance(gateway);
    const sinceMs = Date.now();
    const { text, id } = await ask(model, more);
    await closed;

    expect(await holds.longest(gateway.url, sinceMs)).toBeLessThan(200);
    expect(text).toContain('upstream_error');
    // 128 choices of 2 MiB each in memory, plus the buffers of the sockets.
    const several = 'n' in more && more.stream ? 128 : 1;
    expect(sentBytes).toBeLessThan((several * 12 + attackSize(80, 16)) * mebibyte);
    const record = await readRecord(gateway, id);
    const cost = before - (await readBalance(gateway));
    expect(record.costNanoUsd).toBe(cost);
    // Of an answer that is not streamed nothing was delivered; of a stream at most the model's output limit.
    const delivered = more.stream && model !== 'nothing' && model !== 'logprobs';
    if (delivered) expect(cost).toBeGreaterThan(100_000_000n);
    else expect(cost).toBeLessThan(10_000_000n);
    expect(cost).toBeLessThan(129_000_000_000n);
  },
);

test('the client’s output limit ends an endless answer like any other answer, streamed or whole', async () => {
  for (const model of ['text', 'reasoning']) {
    const { text, id } = await ask(model, { max_tokens: 50 });
    expect(text).toContain('"finish_reason":"length"');
    const { buckets } = await readRecord(gateway, id);
    expect(buckets.find(({ kind }) => kind === 'output')?.tokens).toBe(50n);
  }
});

testPeak(gateway);
