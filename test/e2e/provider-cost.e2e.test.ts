/** Provider cost: every endpoint records it, the operator's sums show it with the margin, and accounts can't see it anywhere. */
import { create, toJsonString } from '@bufbuild/protobuf';
import { Code, createClient } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AccountService, GetAnalyticsRequestSchema } from '../../src/gen/tollgate/v1/account_pb.ts';
import { AdminService } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { runInside } from '../cli/run-inside.ts';
import { endGateway, openTransport } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { createBatch, endedBatch } from './batch-caller.ts';
import { readPage } from './exposition.ts';

const inner = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n', balance: '100' });
const tokenCost = 'cost: { input: 0.37, output: 1.13, caching: { read: 0.07 } }';
const gateway = await startGateway({
  config: `
metrics: public
providers:
  inner: { protocol: chat, base_url: "${inner.url}/v1", api_key: "\${INNER_KEY}" }
  by-messages: { protocol: messages, base_url: "${inner.url}", api_key: "\${INNER_KEY}" }
  by-images: { protocol: images, base_url: "${inner.url}/v1", api_key: "\${INNER_KEY}" }
models:
  - id: acme/text
    context_length: 128000
    max_output_tokens: 8192
    endpoints: [/v1/chat/completions, /v1/responses, /v1/messages, "/v1beta/models/{model}:generateContent"]
    capabilities: { service_tiers: [flex] }
    pricing: { input: 1, output: 2, batch: 0.75 }
    routes: [{ provider: inner, model: sim/large, ${tokenCost} }]
  - id: acme/base
    context_length: 128000
    max_output_tokens: 8192
    endpoints: [/v1/completions]
    pricing: { input: 1, output: 2 }
    routes: [{ provider: inner, model: sim/small, ${tokenCost} }]
  - id: acme/steep
    context_length: 128000
    max_output_tokens: 8192
    pricing: { input: 1, output: 2 }
    routes: [{ provider: inner, model: sim/small, cost: { input: 9, output: 9, above: [{ input_tokens: 10, input: 11, output: 13 }] } }]
  - id: acme/unknown
    context_length: 128000
    max_output_tokens: 8192
    pricing: { input: 1, output: 2 }
    routes: [{ provider: by-messages, model: sim/small }]
  - { id: acme/draw, endpoints: [/v1/images/generations], pricing: { image: 0.05 }, routes: [{ provider: by-images, model: sim/image, cost: { image: 0.031, images: [{ size: 64x64, image: 0.017 }] } }] }
  - { id: acme/embed, context_length: 8192, endpoints: [/v1/embeddings], pricing: { input: 0.5 }, routes: [{ provider: inner, model: sim/embed, cost: { input: 0.19 } }] }
  - { id: acme/rank, context_length: 8192, endpoints: [/v1/rerank], pricing: { search: 0.004 }, routes: [{ provider: inner, model: sim/rerank, cost: { search: 0.0017 } }] }
`,
  environment: { INNER_KEY: inner.apiKey },
});
afterAll(async () => {
  await endGateway(gateway);
  await endGateway(inner);
});

/** A record as `tollgate requests list` prints it; amounts in dollars. */
interface Shown {
  readonly request_id: string;
  readonly model: string;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost: number;
  readonly provider_cost: number | null;
  readonly margin: number | null;
}

const messages = [{ role: 'user', content: 'What do you charge?\n!sim tokens=40' }];
const requested: Readonly<Record<string, readonly [path: string, body: object]>> = {
  chat: ['/v1/chat/completions', { model: 'acme/text', messages }],
  flex: ['/v1/chat/completions', { model: 'acme/text', messages, service_tier: 'flex' }],
  responses: ['/v1/responses', { model: 'acme/text', input: 'How much?\n!sim tokens=30', store: false }],
  messages: ['/v1/messages', { model: 'acme/text', messages, max_tokens: 100 }],
  gemini: [
    '/v1beta/models/acme/text:generateContent',
    { contents: [{ parts: [{ text: 'How much?\n!sim tokens=30' }] }], generationConfig: { maxOutputTokens: 100 } },
  ],
  completions: ['/v1/completions', { model: 'acme/base', prompt: 'Once upon a time', max_tokens: 20 }],
  above: ['/v1/chat/completions', { model: 'acme/steep', messages }],
  unknown: ['/v1/chat/completions', { model: 'acme/unknown', messages }],
  image: ['/v1/images/generations', { model: 'acme/draw', prompt: 'a coin', size: '64x64', n: 2 }],
  imageOfOtherSize: ['/v1/images/generations', { model: 'acme/draw', prompt: 'a coin', size: '128x128' }],
  embeddings: ['/v1/embeddings', { model: 'acme/embed', input: ['one coin', 'two coins'] }],
  rerank: ['/v1/rerank', { model: 'acme/rank', query: 'coins', documents: ['a coin', 'a note'] }],
};
const shown: Record<string, Shown> = {};

async function listRecords(...filter: string[]): Promise<readonly Shown[]> {
  const { json } = await runInside(gateway, ['requests', 'list', '--account', '1', ...filter, '--json']);
  return (json as { data: Shown[] }).data;
}

beforeAll(async () => {
  const names = new Map<string | null, string>();
  for (const [name, [path, body]] of Object.entries(requested)) {
    const answer = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const answered = await answer.text();
    expect(answer.status, `${name}: ${answered}`).toBe(200);
    names.set(answer.headers.get('x-request-id'), name);
  }
  for (const record of await listRecords()) shown[names.get(record.request_id) ?? ''] = record;
});

/** Returns the cost of tokens in dollars. `price`: dollars per million. */
const perMillion = (tokens: number, price: number): number => (tokens * price) / 1e6;

const expected: Readonly<Record<string, (record: Shown) => number>> = {
  chat: ({ input_tokens, output_tokens }) => perMillion(input_tokens, 0.37) + perMillion(output_tokens, 1.13),
  flex: ({ input_tokens, output_tokens }) => (perMillion(input_tokens, 0.37) + perMillion(output_tokens, 1.13)) / 2,
  responses: ({ input_tokens, output_tokens }) => perMillion(input_tokens, 0.37) + perMillion(output_tokens, 1.13),
  messages: ({ input_tokens, output_tokens }) => perMillion(input_tokens, 0.37) + perMillion(output_tokens, 1.13),
  gemini: ({ input_tokens, output_tokens }) => perMillion(input_tokens, 0.37) + perMillion(output_tokens, 1.13),
  completions: ({ input_tokens, output_tokens }) => perMillion(input_tokens, 0.37) + perMillion(output_tokens, 1.13),
  above: ({ input_tokens, output_tokens }) => perMillion(input_tokens, 11) + perMillion(output_tokens, 13),
  image: () => 0.034,
  imageOfOtherSize: () => 0.031,
  embeddings: ({ input_tokens }) => perMillion(input_tokens, 0.19),
  rerank: () => 0.0017,
};

test.each(Object.keys(expected))(
  '%s: the record has the provider cost, computed from the `cost` of the route',
  name => {
    const record = shown[name];
    if (record === undefined) throw new Error(`${name} was not requested`);
    const { cost, provider_cost, margin } = record;
    expect(provider_cost).toBeCloseTo(expected[name]?.(record) ?? 0, 9);
    expect(provider_cost).toBeGreaterThan(0);
    expect(margin).toBeCloseTo(cost - (provider_cost ?? 0), 9);
  },
);

test('without `cost` on the route, provider cost and margin are null', () => {
  expect(shown['unknown']).toMatchObject({ provider_cost: null, margin: null });
});

test('a batch item has the provider cost of the tier that it was sent with, here flex', async () => {
  const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: requested['chat']?.[1] };
  const batch = await endedBatch(gateway, (await createBatch(gateway, [line])).id);
  const [record] = await listRecords('--batch', batch.id);
  if (record === undefined) throw new Error('the batch has no record');
  const { input_tokens, output_tokens, cost, provider_cost } = record;
  expect(cost).toBeCloseTo((perMillion(input_tokens, 1) + perMillion(output_tokens, 2)) * 0.75, 8);
  expect(provider_cost).toBeCloseTo((perMillion(input_tokens, 0.37) + perMillion(output_tokens, 1.13)) / 2, 8);
});

interface UsageDocument {
  readonly cost: number;
  readonly provider_cost: number;
  readonly margin: number;
  readonly [name: string]: unknown;
}

async function usage(...args: string[]): Promise<UsageDocument[]> {
  return ((await runInside(gateway, ['usage', ...args, '--json'])).json as { data: UsageDocument[] }).data;
}

test('the operator’s sums of cost, provider cost and margin equal those of the records', async () => {
  const records = await listRecords();
  const sum = (rows: readonly { provider_cost: number | null; margin: number | null; cost: number }[]) =>
    (['cost', 'provider_cost', 'margin'] as const).map(name => {
      return Number(rows.reduce((total, row) => total + (row[name] ?? 0), 0).toFixed(9));
    });
  expect(sum(await usage())).toEqual(sum(records));
  const groupings = ['key', 'model', 'provider', 'endpoint', 'group', 'end_user', 'tag:team', 'day'];
  const sums = await Promise.all(groupings.map(async by => [by, sum(await usage('--by', by))]));
  expect(sums).toEqual(groupings.map(by => [by, sum(records)]));
  const [steep] = (await usage('--by', 'model')).filter(row => row['model'] === 'acme/steep');
  // The provider cost of `acme/steep` exceeds its price.
  expect(steep?.margin).toBeLessThan(0);
  expect(steep?.margin).toBe(shown['above']?.margin);
  const { stdout } = await runInside(gateway, ['usage', '--by', 'provider', '--csv']);
  expect(stdout.split('\r\n')[0]).toBe(
    'provider,requests,failed_requests,cost,provider_cost,margin,input_tokens,output_tokens,cache_creation_input_tokens,cache_read_input_tokens',
  );
});

test('metrics of the internal listener show provider cost and margin, public metrics do not', async () => {
  const page = readPage(await (await fetch(`${gateway.rpcUrl}/metrics`)).text());
  const readValue = (name: string): number => {
    const samples = page.get(name)?.samples ?? [];
    return samples.find(({ labels }) => labels['model'] === 'acme/steep')?.value ?? Number.NaN;
  };
  expect(readValue('tollgate_provider_cost_dollars_total')).toBeCloseTo(shown['above']?.provider_cost ?? 0, 9);
  expect(readValue('tollgate_margin_dollars')).toBeCloseTo(shown['above']?.margin ?? 0, 9);
  const open = await (await fetch(`${gateway.url}/metrics`)).text();
  expect(open).toContain('tollgate_cost_dollars_total');
  expect(open).not.toMatch(/margin|provider_cost/);
});

/** Finds what an answer reveals of provider costs: names of fields, and amounts that only the operator may see. */
function findTraces(answer: string): string[] {
  const amounts = Object.values(shown).flatMap(({ provider_cost, margin }) => [provider_cost, margin]);
  const digits = amounts.filter(amount => amount !== null).map(amount => String(amount));
  const nano = amounts.filter(amount => amount !== null).map(amount => String(Math.round(amount * 1e9)));
  return [...digits.filter(each => each.length > 5), ...nano, 'provider_cost', 'providerCost', '"margin"'].filter(
    each => new RegExp(`(?<![0-9.])${each.replaceAll('.', '\\.')}(?![0-9])`).test(answer),
  );
}

test('no REST path and no RPC of the account shows provider cost to an account', async () => {
  const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as { paths: Record<string, object> };
  expect(findTraces(JSON.stringify(document))).toEqual([]);
  const id = shown['above']?.request_id ?? '';
  const paths = Object.entries(document.paths)
    .filter(([, operations]) => 'get' in operations)
    .map(([path]) => path.replace('{request_id}', id).replace(/\{\w+\}/g, '1'));
  const groups = ['none', 'model', 'api_key', 'provider', 'endpoint', 'group', 'end_user', 'tag:team'];
  paths.push(...groups.map(group => `/v1/account/analytics?group_by=${group}&granularity=hour`));
  paths.push('/v1/account/activity?limit=1000', '/v1/key/activity?limit=1000', '/v1/key/analytics');
  let answered = 0;
  for (const path of paths) {
    for (const key of [gateway.managementKey, gateway.apiKey]) {
      const answer = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${key}` } });
      // An event stream never ends, so it is not read.
      const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream') === true;
      if (isStream) await answer.body?.cancel();
      else expect([path, findTraces(await answer.text())]).toEqual([path, []]);
      if (answer.ok) answered += 1;
    }
  }
  expect(answered).toBeGreaterThan(20);
  const query = create(GetAnalyticsRequestSchema);
  const analytics = await gateway.account.getAnalytics(query);
  expect(findTraces(toJsonString(AccountService.method.getAnalytics.output, analytics))).toEqual([]);
  expect([analytics.metrics?.providerCostNanoUsd, analytics.metrics?.marginNanoUsd]).toEqual([undefined, undefined]);
  const { record } = await gateway.account.getActivity({ requestId: id });
  expect([record?.model, record?.providerCostNanoUsd]).toEqual(['acme/steep', undefined]);
  const activity = await gateway.account.listActivity({});
  expect(findTraces(toJsonString(AccountService.method.listActivity.output, activity))).toEqual([]);
  expect(activity.records.filter(each => each.providerCostNanoUsd !== undefined)).toEqual([]);
  // A management key can’t call the operator’s methods.
  const admin = createClient(AdminService, openTransport(gateway.rpcUrl, gateway.managementKey));
  await expect(admin.getAccountAnalytics({ accountId: 1n })).rejects.toMatchObject({ code: Code.PermissionDenied });
});
