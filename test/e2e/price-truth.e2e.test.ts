/**
 * The cost of requests, computed a second time from the usage that the upstream reported and the prices in the configuration, for every form of a price, every
 * upstream protocol and every interface. Nothing here uses the gateway's calculation. See docs/accounting.md "Prices and rounding".
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { type RecordDetailJson, call, newAccount, newKey } from './account-client.ts';
import { startGateway } from '../hosted-gateway.ts';
import { type TextProtocol, textProtocols } from '../upstreams/text-protocol.ts';
import { post } from './chat-client.ts';
import { type Counted, type Order, orderText, startCountingUpstream } from './counting-upstream.ts';

/** Dollars per 1 million tokens, as the configuration writes them. */
interface Cache {
  readonly read?: string;
  readonly write_5m?: string;
  readonly write_1h?: string;
}
interface Price {
  readonly input: string;
  readonly output: string;
  readonly caching?: Cache;
}
interface Shape extends Price {
  readonly above?: readonly (Price & { readonly from: number })[];
}

const shapes: Readonly<Record<string, Shape>> = {
  flat: { input: '0.3', output: '1.1' },
  // A token costs a fraction of a nano-dollar, so that rounding matters.
  crumbs: {
    input: '0.000123',
    output: '0.007654',
    caching: { read: '0.000001', write_5m: '0.000007', write_1h: '0.000011' },
  },
  cached: { input: '3', output: '15', caching: { read: '0.3', write_5m: '3.75', write_1h: '6' } },
  // Without a cache price, the price of uncached input applies.
  read: { input: '1.25', output: '10', caching: { read: '0.125' } },
  written: { input: '0.8', output: '4', caching: { write_5m: '1' } },
  steps: {
    input: '2',
    output: '12',
    caching: { read: '0.2' },
    above: [
      { from: 1000, input: '4', output: '18', caching: { read: '0.4', write_5m: '5', write_1h: '7' } },
      { from: 5000, input: '8', output: '36' },
    ],
  },
  nothing: { input: '0', output: '0' },
};

const orders = new Map<number, Order>();
const upstream = await startCountingUpstream(orders);

function yaml({ input, output, caching, above = [] }: Shape): string {
  const cache =
    caching === undefined ? '' : `, caching: ${JSON.stringify(caching).replaceAll('"', '').replaceAll(':', ': ')}`;
  const steps = above.map(({ from, ...price }) => `{ input_tokens: ${from}, ${yaml(price).slice(2, -2)} }`);
  return `{ input: ${input}, output: ${output}${cache}${steps.length === 0 ? '' : `, above: [${steps.join(', ')}]`} }`;
}

const config = `simulator: { enabled: false }
plans:
  core_pro: { monthly: { price: 1, tokens: 15000000 }, free_daily_requests: 0, discount: 0.05, models: all }
providers:
${textProtocols.map(protocol => `  ${protocol}: { protocol: ${protocol}, base_url: "${upstream.baseUrl(protocol)}", api_key: k }`).join('\n')}
models:
${Object.entries(shapes)
  .flatMap(([name, shape]) =>
    textProtocols.map(
      protocol => `  - id: ${protocol}/${name}
    context_length: 1000000
    max_output_tokens: 100000
    capabilities: { service_tiers: [flex, priority] }
    pricing: ${yaml(shape)}
    routes: [{ provider: ${protocol}, model: m }]`,
    ),
  )
  .join('\n')}
`;
const gateway = await startGateway({ config, balance: '1000000' });
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
});

/** Converts dollars per 1 million tokens (a decimal number) to pico-dollars (10^-12) per token. */
function pico(price: string): bigint {
  const [whole = '', fraction = ''] = price.split('.');
  return BigInt(whole + fraction.padEnd(6, '0'));
}

/** Returns the exact cost in units of 10^-21 dollars: price × tier (in halves) × what remains after the discount (in hundredths). */
function exactCost(shape: Shape, counted: Counted, { tier, discount }: { tier: number; discount: boolean }): bigint {
  const all = counted.input + counted.read + counted.write5m + counted.write1h;
  const step = [...(shape.above ?? [])].sort((a, b) => b.from - a.from).find(({ from }) => all > from);
  const { input, output, caching = {} }: Price = step ?? shape;
  const sum =
    BigInt(counted.input) * pico(input) +
    BigInt(counted.read) * pico(caching.read ?? input) +
    BigInt(counted.write5m) * pico(caching.write_5m ?? input) +
    BigInt(counted.write1h) * pico(caching.write_1h ?? input) +
    BigInt(counted.output) * pico(output);
  return sum * BigInt(tier * 2) * BigInt(discount ? 95 : 100) * 5_000_000n;
}

/** Rounds an exact cost half up to nano-dollars. */
function nano(exact: bigint): bigint {
  const unit = 10n ** 12n;
  const [whole, rest] = [exact / unit, exact % unit];
  return rest * 2n >= unit ? whole + 1n : whole;
}

/** Converts an amount in dollars, as it is in JSON, to nano-dollars by its digits. */
function toNano(shown: number | string | null): bigint {
  const text = typeof shown === 'number' ? shown.toFixed(9) : (shown ?? 'x');
  const [whole = '', fraction = ''] = text.split('.');
  return BigInt(whole + fraction.padEnd(9, '0'));
}

/** Returns a generator of pseudo-random numbers up to `max`; the same seed gives the same numbers. */
function counts(seed: number): (max: number) => number {
  let state = seed * 2_654_435_761 + 1;
  return max => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state % (max + 1);
  };
}

/** Returns usage that an upstream of the protocol can report: Google does not report cache writes, Anthropic does not report reasoning. */
function countedBy(protocol: TextProtocol, seed: number): Counted {
  const below = counts(seed);
  // Half of the values lie around the thresholds.
  const whole = [1000, 1001, 5000, 5001, 1, below(900), 1001 + below(3000), 5001 + below(90_000)][seed % 8] ?? 1;
  const write1h = protocol === 'gemini' || seed % 3 !== 0 ? 0 : below(whole);
  const write5m = protocol === 'gemini' || seed % 2 !== 0 ? 0 : below(whole - write1h);
  const read = below(whole - write1h - write5m);
  const output = 1 + below(seed % 5 === 0 ? 40_000 : 700);
  const reasoning = protocol === 'messages' ? 0 : below(output);
  return { input: whole - write1h - write5m - read, read, write5m, write1h, output, reasoning };
}

/** A way to name a tier, what the upstream says it used, and what is billed. */
const tiers = [
  { name: 'none', field: undefined, suffix: '', reported: undefined, billed: 1, shown: 'default' },
  { name: 'flex by field', field: 'flex', suffix: '', reported: undefined, billed: 0.5, shown: 'flex' },
  { name: 'flex by suffix', field: undefined, suffix: ':flex', reported: 'flex', billed: 0.5, shown: 'flex' },
  { name: 'priority by field', field: 'priority', suffix: '', reported: 'priority', billed: 2, shown: 'priority' },
  {
    name: 'priority by suffix',
    field: undefined,
    suffix: ':priority',
    reported: undefined,
    billed: 2,
    shown: 'priority',
  },
  { name: 'priority, used: default', field: 'priority', suffix: '', reported: 'default', billed: 1, shown: 'default' },
  { name: 'priority, used: flex', field: undefined, suffix: ':priority', reported: 'flex', billed: 0.5, shown: 'flex' },
  { name: 'flex, used: priority', field: 'flex', suffix: '', reported: 'priority', billed: 0.5, shown: 'flex' },
  { name: 'none, used: priority', field: undefined, suffix: '', reported: 'priority', billed: 1, shown: 'default' },
] as const;

interface Interface {
  readonly name: 'Chat' | 'Responses' | 'Messages';
  readonly path: string;
  /** Returns a body with that prompt, and the members that the interface requires. */
  readonly ask: (text: string, stream: boolean) => object;
}
const makeMessages = (content: string) => ({ messages: [{ role: 'user', content }] });
const interfaces: readonly Interface[] = [
  {
    name: 'Chat',
    path: '/v1/chat/completions',
    ask: (text, stream) => ({ ...makeMessages(text), ...(stream ? { stream_options: { include_usage: true } } : {}) }),
  },
  { name: 'Responses', path: '/v1/responses', ask: input => ({ input }) },
  { name: 'Messages', path: '/v1/messages', ask: text => ({ ...makeMessages(text), max_tokens: 100_000 }) },
];

interface Usage {
  readonly cost: number;
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly cache_read_input_tokens?: number;
  readonly cache_creation_input_tokens?: number;
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
}

/** Returns the last usage in the text of an answer. */
function usageIn(text: string): Usage {
  const values = text.startsWith('{')
    ? [text]
    : text.split('\n').flatMap(line => (line.startsWith('data: {') ? [line.slice(6)] : []));
  const usages = values.map(value => {
    const said = JSON.parse(value) as { usage?: Usage | null; response?: { usage?: Usage | null } };
    return said.usage ?? said.response?.usage;
  });
  return usages.findLast(usage => usage?.cost != null) ?? { cost: Number.NaN };
}

let orderCount = 0;
let key = '';
let discountKey = '';
let discountManagementKey = '';
beforeAll(async () => {
  ({ key } = await newKey(gateway));
  const { accountId, managementKey } = await newAccount(gateway, 1_000_000);
  await gateway.cli(['subscriptions', 'start', String(accountId), '--plan', 'core_pro', '--period', 'monthly']);
  // Money pays first: the plan's discount applies, and its tokens are not used.
  ({ key: discountKey } = await newKey(gateway, { use_subs_first: false }, managementKey));
  discountManagementKey = managementKey;
});

interface Case {
  readonly shape: string;
  readonly protocol: TextProtocol;
  readonly seed: number;
  readonly stream: boolean;
  readonly discount: boolean;
}

async function checkCase(requested: Case, { name, path, ask }: Interface, tier: (typeof tiers)[number]): Promise<void> {
  const { shape, protocol, seed, stream, discount } = requested;
  const usage = countedBy(protocol, seed);
  orderCount += 1;
  orders.set(orderCount, { usage, ...(tier.reported === undefined ? {} : { tier: tier.reported }) });
  const response = await post(
    gateway,
    path,
    {
      ...ask(orderText(orderCount), stream),
      model: `${protocol}/${shape}${tier.suffix}`,
      stream,
      ...(tier.field === undefined ? {} : { service_tier: tier.field }),
    },
    { key: discount ? discountKey : key },
  );
  const text = await response.text();
  expect([response.status, text.slice(0, response.status === 200 ? 0 : 500)]).toEqual([200, '']);
  const prices = shapes[shape] ?? { input: '', output: '' };
  const exact = exactCost(prices, usage, { tier: tier.billed, discount });
  const shown = usageIn(text);
  expect(toNano(shown.cost)).toBe(nano(exact));
  if (!stream) expect(toNano(response.headers.get('x-tollgate-cost'))).toBe(nano(exact));
  const cached = usage.read + usage.write5m + usage.write1h;
  const whole = usage.input + cached;
  expect(shown).toMatchObject(
    {
      Chat: { prompt_tokens: whole, completion_tokens: usage.output },
      Responses: { input_tokens: whole, output_tokens: usage.output },
      Messages: {
        input_tokens: usage.input,
        output_tokens: usage.output,
        cache_read_input_tokens: usage.read,
        cache_creation_input_tokens: usage.write5m + usage.write1h,
      },
    }[name],
  );
  const id = response.headers.get('x-request-id') ?? '';
  const options = discount ? { key: discountManagementKey } : {};
  const { body: record, text: recordText } = await call<RecordDetailJson>(gateway, 'GET', `/activity/${id}`, options);
  expect([toNano(record.cost), record.written_off, record.usage_source, record.service_tier]).toEqual([
    nano(exact),
    0,
    'reported',
    tier.shown,
  ]);
  expect(record.buckets.map(({ kind, tokens }) => [kind, tokens])).toEqual(
    [
      ['input', usage.input],
      ['cache_read', usage.read],
      ['cache_write_5m', usage.write5m],
      ['cache_write_1h', usage.write1h],
      ['output', usage.output],
    ].filter(([, tokens]) => tokens !== 0),
  );
  expect(record.reasoning_tokens).toBe(usage.reasoning);
  // The costs of the buckets, digit by digit as they were sent: their exact sum is rounded once.
  const costs = [...recordText.matchAll(/"cost":([\d.]+),"paid_by"/g)].map(([, digits = '']) => {
    const [whole = '', fraction = ''] = digits.split('.');
    return BigInt(whole + fraction.padEnd(21, '0'));
  });
  expect(costs.reduce((sum, cost) => sum + cost, 0n)).toBe(exact);
  for (const bucket of record.buckets) {
    // A tier without a price has no discount.
    expect([bucket.multiplier, bucket.discount]).toEqual([tier.billed, discount && shape !== 'nothing' ? 0.05 : 0]);
    expect(bucket.paid_by).toBe(shape === 'nothing' ? 'free' : 'account');
  }
}

let seed = 0;
describe.each(Object.keys(shapes))('prices of the shape “%s”', shape => {
  describe.each(textProtocols)('from an upstream that uses %s', protocol => {
    test.each(interfaces)('$name shows, records and debits the result of a second calculation', async requested => {
      for (const tier of tiers) {
        seed += 1;
        for (const stream of [false, true]) {
          await checkCase({ shape, protocol, seed, stream, discount: seed % 4 === 0 }, requested, tier);
        }
        // The step shares no divisor with the cycles of counts and discounts, so that every tier is combined with each of them.
        seed += 2;
      }
    });
  });
});

test.each(interfaces)(
  'if the reported usage costs more than the balance, the balance becomes zero and the rest is written off ($name)',
  async ({ path, ask }) => {
    const { managementKey } = await newAccount(gateway, 0.01);
    const { key: poor } = await newKey(gateway, {}, managementKey);
    const usage: Counted = { input: 40_000, read: 123, write5m: 0, write1h: 0, output: 77, reasoning: 0 };
    orderCount += 1;
    orders.set(orderCount, { usage });
    const response = await post(
      gateway,
      path,
      { ...ask(orderText(orderCount), false), model: 'messages/cached' },
      { key: poor },
    );
    expect(response.status).toBe(200);
    const exact = exactCost(shapes['cached'] ?? { input: '', output: '' }, usage, { tier: 1, discount: false });
    expect(toNano(usageIn(await response.text()).cost)).toBe(10_000_000n);
    const id = response.headers.get('x-request-id') ?? '';
    const record = (await call<RecordDetailJson>(gateway, 'GET', `/activity/${id}`, { key: managementKey })).body;
    expect(toNano(record.cost) + toNano(record.written_off)).toBe(nano(exact));
    expect(toNano(record.cost)).toBe(10_000_000n);
    expect((await call(gateway, 'GET', '/balance', { key: managementKey })).text).toBe('{"balance":0}');
  },
);

test('the balance is the initial balance minus the sum of all records', async () => {
  let sum = 0n;
  for (let offset = 0; ; offset += 1000) {
    const page = await call<{ data: { cost: number }[] }>(gateway, 'GET', `/activity?limit=1000&offset=${offset}`);
    for (const { cost } of page.body.data) sum += toNano(cost);
    if (page.body.data.length < 1000) break;
  }
  const { text } = await call(gateway, 'GET', '/balance');
  expect(1_000_000n * 1_000_000_000n - sum).toBe(toNano(/[\d.]+/.exec(text)?.[0] ?? ''));
  const { metrics } = (await call<{ metrics: { cost: number } }>(gateway, 'GET', '/analytics')).body;
  expect(toNano(metrics.cost)).toBe(sum);
});
