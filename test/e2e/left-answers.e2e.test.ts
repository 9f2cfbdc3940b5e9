/**
 * The charge for an answer whose client disconnected is near the bill of a provider that counts the tokens itself (docs/accounting.md "Settlement"), once the provider has reported the usage of
 * some answers of the same kind. Each test states its margin.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { endGateway, type Gateway, heldBy, makeKey, type NewKey } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { BillingProvider, templateTokens, countTokens } from './billing-provider.ts';
import { post } from './chat-client.ts';
import { eventually } from './upstream-callers.ts';

type Json = Record<string, unknown>;

/** By which share the gateway's counts may differ from the provider's, once the gateway has seen some reports. */
const margin = 0.15;

let plain: BillingProvider;
let vllm: BillingProvider;
let llama: BillingProvider;
let gateway: Gateway;
beforeAll(async () => {
  [plain, vllm, llama] = [
    await BillingProvider.start(),
    await BillingProvider.start('usage'),
    await BillingProvider.start('timings'),
  ];
  const model = (id: string, provider: string): string =>
    `  - { id: ${id}, max_output_tokens: 20000, capabilities: { reasoning: true }, pricing: { input: 1, output: 10 }, routes: [{ provider: ${provider}, model: m }] }`;
  gateway = await startGateway({
    config: `
providers:
  plain: { protocol: chat, base_url: "${plain.url}", api_key: k }
  vllm: { protocol: chat, base_url: "${vllm.url}", api_key: k }
  llama-cpp: { protocol: chat, base_url: "${llama.url}", api_key: k }
models:
${['words', 'json', 'chinese', 'short', 'thinks', 'whole'].map(name => model(`plain/${name}`, 'plain')).join('\n')}
${model('local/vllm', 'vllm')}
${model('local/llama', 'llama-cpp')}
`,
  });
});
afterAll(async () => {
  await endGateway(gateway);
  for (const provider of [plain, vllm, llama]) provider.stop();
});

const texts: Readonly<Record<string, { input: string; say: string }>> = {
  words: { input: 'The quick brown fox jumps over the lazy dog and runs away. '.repeat(20), say: 'and so it went on ' },
  json: {
    input: JSON.stringify(Array.from({ length: 60 }, (_, id) => ({ id, x: 0.5 * id }))),
    say: '{"a":1,"b":[2,3]},',
  },
  chinese: { input: '今天天气很好，我们去公园散步吧。'.repeat(25), say: '我们明天再说，' },
  short: { input: 'Hi', say: 'Hello to you ' },
};

/** Returns a request whose prompt tells the provider what to do. */
function makeBody(
  model: string,
  { input, say }: { input: string; say: string },
  more: Json = {},
  instructions: Json = {},
): Json {
  const content = `${input}\n${JSON.stringify({ say, times: 20, thinkMs: 0, ...instructions })}`;
  return { model, messages: [{ role: 'user', content }], ...more };
}

async function whole(body: Json): Promise<void> {
  const response = await post(gateway, '/v1/chat/completions', body);
  expect(response.status).toBe(200);
  await response.text();
}

/**
 * Sends a request and disconnects when the provider has counted that many tokens: so many that what is on its way at that moment is within the margin, also
 * if the machine is so busy that the gateway is late. Returns the record and the bill of the request.
 */
async function leave(provider: BillingProvider, body: Json, afterTokens: number, payer?: NewKey) {
  const before = provider.bills.length;
  const aborting = new AbortController();
  const requested = post(gateway, '/v1/chat/completions', body, {
    signal: aborting.signal,
    ...(payer === undefined ? {} : { key: payer.key }),
  });
  requested.then(response => response.text()).catch(() => undefined);
  const bill = await eventually('the output', () => {
    const found = provider.bills[before];
    return (found?.output ?? 0) >= afterTokens ? found : undefined;
  });
  aborting.abort();
  return { bill, record: await readAborted(String(body['model']), payer) };
}

/** Waits for the record of the model's latest request, whose client disconnected. */
async function readAborted(model: string, payer?: NewKey) {
  return eventually('the record', async () => {
    const { records } = await gateway.account.listActivity({
      limit: 1,
      ...(payer === undefined ? {} : { apiKeyId: payer.id }),
    });
    const [latest] = records;
    return latest?.model === model && latest.state === RecordState.CLIENT_ABORTED ? latest : undefined;
  });
}

function expectNear(actual: number | undefined, wanted: number, share = margin): void {
  expect(actual).toBeGreaterThanOrEqual(Math.floor(wanted * (1 - share)) - 3);
  expect(actual).toBeLessThanOrEqual(Math.ceil(wanted * (1 + share)) + 3);
}

describe.each(['words', 'json', 'chinese', 'short'])('%s', kind => {
  test('after the provider has reported usage a few times, an answer whose client disconnects is charged as the provider counts it', async () => {
    const text = texts[kind] ?? expect.fail();
    for (const times of [5, 40, 80]) await whole(makeBody(`plain/${kind}`, text, { stream: true }, { times }));
    const body = makeBody(`plain/${kind}`, text, { stream: true }, { times: 10_000 });
    const { bill, record } = await leave(plain, body, 1_500);
    expect(bill.isWhole).toBe(false);
    expectNear(record.usage?.inputTokens, bill.input);
    // Only the provider counts a chunk that was still on its way.
    expectNear(record.usage?.outputTokens, bill.output);
  });
});

test('count_tokens returns the provider’s count, once the provider has reported one', async () => {
  const text = texts['json'] ?? expect.fail();
  const [{ content: messages } = { content: '' }] = makeBody('plain/json', text)['messages'] as { content: string }[];
  const response = await post(gateway, '/v1/messages/count_tokens', {
    model: 'plain/json',
    messages: [{ role: 'user', content: messages }],
  });
  const { input_tokens: counted } = (await response.json()) as { input_tokens: number };
  expectNear(counted, templateTokens + countTokens(String(messages)));
});

test('the metrics show what the gateway learned', async () => {
  const response = await fetch(`${gateway.rpcUrl}/metrics`);
  const lines = (await response.text()).split('\n').filter(line => line.startsWith('tollgate_learned_tokens_ratio{'));
  expect(lines.some(line => line.includes('provider="plain"') && line.includes('model="plain/chinese"'))).toBe(true);
});

test('reasoning that was not sent to the client is charged at the rate that was learned', async () => {
  const text = { input: 'Think about the weather in Paris for a while.', say: 'It is fine ' };
  for (const thinkMs of [150, 300, 300]) {
    await whole(makeBody('plain/thinks', text, { stream: true, reasoning_effort: 'high' }, { thinkMs }));
  }
  const body = makeBody('plain/thinks', text, { stream: true, reasoning_effort: 'high' }, { thinkMs: 20_000 });
  const { bill, record } = await leave(plain, body, 600);
  // The provider stops a moment after the client has left.
  expectNear(record.usage?.outputTokens, bill.output, 0.25);
  expect(record.usage?.reasoningTokens).toBe(record.usage?.outputTokens);
});

test('reasoning that was not sent is charged when a stop sequence ends the answer, and the provider is stopped within a second', async () => {
  const text = { input: 'Think about the weather in Paris for a while.', say: 'It is fine ' };
  const more = { stream: true, reasoning_effort: 'high' };
  for (const thinkMs of [150, 300, 300]) await whole(makeBody('plain/thinks', text, more, { thinkMs }));
  await whole(makeBody('plain/thinks', text, { ...more, stop: ['fine'] }, { times: 20_000, thinkMs: 1_500 }));
  const stoppedAtMs = performance.now();
  const bill = plain.bills.at(-1) ?? expect.fail();
  let latest = -1;
  await expect.poll(() => latest === (latest = bill.output), { interval: 200 }).toBe(true);
  expect(performance.now() - stoppedAtMs).toBeLessThan(1_000);
  expect(bill.isWhole).toBe(false);
  const [record] = (await gateway.account.listActivity({ limit: 1 })).records;
  expect(record?.state).toBe(RecordState.COMPLETED);
  expectNear(record?.usage?.outputTokens, bill.output, 0.25);
});

test('what is charged for reasoning that was not sent is never above the hold', async () => {
  const text = { input: 'Think about the weather in Paris for a while.', say: 'It is fine ' };
  for (const thinkMs of [150, 300, 300])
    await whole(makeBody('plain/thinks', text, { stream: true, reasoning_effort: 'high' }, { thinkMs }));
  const poor = await makeKey(gateway, { balanceNanoUsd: 1_500_000n });
  const body = makeBody('plain/thinks', text, { stream: true, reasoning_effort: 'high' }, { thinkMs: 20_000 });
  const { bill, record } = await leave(plain, body, 600, poor);
  expect(record.usage?.outputTokens).toBeGreaterThan(30);
  // The balance pays for fewer than 150 output tokens, and the provider has counted 600.
  expect(record.usage?.outputTokens).toBeLessThan(150);
  expect(bill.output).toBeGreaterThanOrEqual(600);
  expect([record.apiKeyId, record.writtenOffNanoUsd]).toEqual([poor.id, 0n]);
  // With enough money, the hold grows with the estimate.
  const rich = await leave(plain, body, 1_600, await makeKey(gateway));
  expect(rich.bill.output).toBeGreaterThanOrEqual(1_600);
  expectNear(rich.record.usage?.outputTokens, rich.bill.output, 0.2);
});

test.each([
  ['vllm', 'local/vllm'],
  ['llama', 'local/llama'],
])('a running count that %s reports is used from the first request on', async (name, model) => {
  const provider = name === 'vllm' ? vllm : llama;
  const text = texts['json'] ?? expect.fail();
  const body = makeBody(model, text, { stream: true, reasoning_effort: 'high' }, { times: 10_000, thinkMs: 100 });
  const { bill, record } = await leave(provider, body, 4_000);
  expect(provider.bodies.at(-1)).toMatchObject(
    name === 'vllm' ? { stream_options: { continuous_usage_stats: true } } : { timings_per_token: true },
  );
  expect(record.usage?.inputTokens).toBe(bill.input);
  expectNear(record.usage?.outputTokens, bill.output, 0.05);
});

test('reasoning that was not sent is charged by the running count, beyond the first slice of the hold', async () => {
  const text = { input: 'Think about the weather in Paris for a while.', say: 'It is fine ' };
  const left = async (provider: BillingProvider, model: string) => {
    const body = makeBody(model, text, { stream: true, reasoning_effort: 'high' }, { thinkMs: 20_000 });
    return leave(provider, body, 1_300, await makeKey(gateway));
  };
  for (const { bill, record } of await Promise.all([left(vllm, 'local/vllm'), left(llama, 'local/llama')])) {
    expect(bill.output).toBeGreaterThanOrEqual(1_300);
    expectNear(record.usage?.outputTokens, bill.output, 0.1);
  }
});

test('timings are not sent to a client that did not ask for them', async () => {
  const body = makeBody('local/llama', { input: 'Hi', say: 'Hello ' }, { stream: true }, { times: 5 });
  const raw = await (await post(gateway, '/v1/chat/completions', body)).text();
  expect(raw).toContain('Hello');
  expect(raw).not.toContain('timings');
  const requested = await (await post(gateway, '/v1/chat/completions', { ...body, timings_per_token: true })).text();
  expect(requested).toContain('timings');
});

test('if an answer is not streamed, its output until the client disconnected is estimated from the speed of its route', async () => {
  const text = texts['words'] ?? expect.fail();
  for (const times of [30, 60, 60]) await whole(makeBody('plain/whole', text, { max_tokens: 900 }, { times }));
  expect(plain.bodies.at(-1)).not.toHaveProperty('stream');
  const { bill, record } = await leave(
    plain,
    makeBody('plain/whole', text, { max_tokens: 5_000 }, { times: 2_000 }),
    1_000,
  );
  expect(record.usage?.outputTokens).toBeGreaterThan(0);
  expectNear(record.usage?.outputTokens, bill.output, 0.35);
});

test('no output of a built-in model is charged if the client disconnects before the first token', async () => {
  const aborting = new AbortController();
  const requested = post(
    gateway,
    '/v1/chat/completions',
    { model: 'sim/large', messages: [{ role: 'user', content: '!sim delay_ms=5000 tokens=10' }], max_tokens: 50 },
    { signal: aborting.signal },
  );
  requested.catch(() => undefined);
  // A request that is aborted before it is admitted has no record.
  await eventually('the hold', async () => ((await heldBy(gateway)) > 0n ? true : undefined));
  aborting.abort();
  const { usage } = await readAborted('sim/large');
  expect(usage?.outputTokens).toBe(0);
});
