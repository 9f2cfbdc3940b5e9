/** Image models that count tokens (`pricing.image_tokens`): held from size, quality and number, charged as the provider reports. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { call, newAccount, newKey, readDollars, type RecordDetailJson } from './account-client.ts';
import { type Json, ScriptedUpstream } from './scripted-upstream.ts';

const pixel = Buffer.from('89504e470d0a1a0a', 'hex').toString('base64');
const answer = (usage?: Json): { frames: string[]; whole: Json } => ({
  frames: [],
  whole: { created: 1, data: [{ b64_json: pixel }], ...(usage && { usage }) },
});
const usage = (text: number, image: number, output: number, cached = 0): Json => ({
  input_tokens: text + image,
  output_tokens: output,
  total_tokens: text + image + output,
  input_tokens_details: { text_tokens: text, image_tokens: image, ...(cached > 0 && { cached_tokens: cached }) },
});

let upstream: ScriptedUpstream;
let gateway: Gateway;

beforeAll(async () => {
  upstream = await ScriptedUpstream.start({
    'draw seven thousand': answer(usage(326, 0, 7024)),
    'draw from images': answer(usage(100, 1000, 2000)),
    'draw from a cache': answer(usage(100, 1000, 2000, 300)),
    'draw in silence': answer(),
    'draw nonsense': answer(usage(1e9, 0, 1e9)),
  });
  const byToken = 'image_tokens: { text_input: 5, image_input: 10, cached_input: 1.25, output: 30 }';
  gateway = await startGateway({
    config: [
      'simulator: { enabled: false }',
      'providers:',
      `  images: { protocol: images, base_url: "${upstream.url}/v1", api_key: k }`,
      'models:',
      `  - { id: paint, endpoints: [/v1/images/generations], pricing: { ${byToken} }, routes: [{ provider: images, model: m, cost: { image_tokens: { text_input: 1, image_input: 1, output: 10 } } }] }`,
      '',
    ].join('\n'),
  });
});
afterAll(async () => {
  upstream.stop();
  await endGateway(gateway);
});

interface Drawn {
  readonly status: number;
  readonly body: Json;
  readonly record: RecordDetailJson;
  readonly left: number;
}

async function draw(prompt: string, dollars: number, members: Json = {}): Promise<Drawn> {
  const { managementKey } = await newAccount(gateway, dollars);
  const { key } = await newKey(gateway, {}, managementKey);
  const response = await fetch(`${gateway.url}/v1/images/generations`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'paint', prompt, ...members }),
  });
  const body = (await response.json()) as Json;
  const id = response.headers.get('x-request-id') ?? '';
  const record = (await call<RecordDetailJson>(gateway, 'GET', `/activity/${id}`, { key: managementKey })).body;
  return { status: response.status, body, record, left: await readDollars(gateway, managementKey) };
}

test.each([
  ['draw seven thousand', (326 * 5 + 7024 * 30) / 1e6, 'reported'],
  ['draw from images', (100 * 5 + 1000 * 10 + 2000 * 30) / 1e6, 'reported'],
  // The cached ones are the text and a part of the images.
  ['draw from a cache', (300 * 1.25 + 800 * 10 + 2000 * 30) / 1e6, 'reported'],
])('“%s” costs $%d', async (prompt, dollars, source) => {
  const { status, record, left } = await draw(prompt, 1);
  expect(status).toBe(200);
  expect(record.cost).toBeCloseTo(dollars, 9);
  expect(record.usage_source).toBe(source);
  expect(left).toBeCloseTo(1 - dollars, 9);
});

test.each([
  ['draw in silence', []],
  ['draw nonsense', []],
])('what is not reported, or can’t be true, is charged from size and quality: %s', async (prompt, unpriced) => {
  const { record } = await draw(prompt, 1, { size: '1024x1024', quality: 'medium' });
  expect(record.cost).toBeGreaterThan((1056 * 30) / 1e6);
  expect(record.cost).toBeLessThan((1056 * 30 + 100 * 5) / 1e6);
  expect(record).toMatchObject({ usage_source: 'estimated', unpriced });
});

test('the hold covers size, quality and number', async () => {
  const tries = [
    [{ size: '1024x1024', quality: 'low' }, 0.009, 429],
    [{ size: '1024x1024', quality: 'low' }, 0.012, 200],
    [{ size: '1024x1024', quality: 'low', n: 4 }, 0.02, 429],
    [{ size: '1024x1024', quality: 'high' }, 0.12, 429],
    [{}, 0.2, 429],
    [{}, 0.3, 200],
  ] as const;
  for (const [members, dollars, status] of tries) {
    expect([members, dollars, (await draw('draw in silence', dollars, members)).status]).toEqual([
      members,
      dollars,
      status,
    ]);
  }
});

test('a model without a price by image or by token is refused in the configuration', async () => {
  const model = 'models: [{ id: a, endpoints: [/v1/images/generations], available: false, pricing: {}, routes: [] }]';
  await expect(startGateway({ config: `${model}\n` })).rejects.toThrow(/image: is missing \(or image_tokens\)/);
});

test('the list of models has the prices', async () => {
  const response = await fetch(`${gateway.url}/v1/models/paint`, {
    headers: { authorization: `Bearer ${gateway.apiKey}` },
  });
  expect(await response.json()).toMatchObject({
    pricing: { image: null, image_tokens: { text_input: 5, image_input: 10, cached_input: 1.25, output: 30 } },
  });
});
