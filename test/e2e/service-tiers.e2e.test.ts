/** Service tiers: the words of clients, what the provider gets, and what is charged at the tier that it reports. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { call, newAccount, newKey, type RecordDetailJson } from './account-client.ts';
import { dataFrame, type Json, ScriptedUpstream } from './scripted-upstream.ts';

/** An answer of 10 and 2 tokens, in the form of each protocol, whose word is the reported tier ("reports flex"). */
const tiers = ['flex', 'priority', 'ultrafast', 'turbo', 'on_demand', 'default', 'auto', 'nothing'];
const scripts = Object.fromEntries(
  tiers.flatMap(tier => {
    const reported = tier === 'nothing' ? {} : { service_tier: tier };
    const choice = { index: 0, finish_reason: 'stop' };
    const chat = {
      id: 'c',
      object: 'chat.completion',
      usage: usage('prompt_tokens', 'completion_tokens'),
      ...reported,
    };
    const parts = [{ text: 'Yes.' }];
    return [
      [
        `chat reports ${tier}`,
        {
          frames: [dataFrame({ ...chat, choices: [{ ...choice, delta: { content: 'Yes.' } }] }), 'data: [DONE]\n\n'],
          whole: { ...chat, choices: [{ ...choice, message: { role: 'assistant', content: 'Yes.' } }] },
        },
      ],
      [
        `responses reports ${tier}`,
        {
          frames: [],
          whole: {
            id: 'r',
            object: 'response',
            status: 'completed',
            output: [{ id: 'm', type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Yes.' }] }],
            usage: usage('input_tokens', 'output_tokens'),
            ...reported,
          },
        },
      ],
      [
        `messages reports ${tier}`,
        {
          frames: [],
          whole: {
            id: 'm',
            type: 'message',
            role: 'assistant',
            content: [{ type: 'text', text: 'Yes.' }],
            stop_reason: 'end_turn',
            usage: { ...usage('input_tokens', 'output_tokens'), ...reported },
          },
        },
      ],
      [
        `gemini reports ${tier}`,
        {
          frames: [],
          whole: {
            candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP' }],
            usageMetadata: {
              promptTokenCount: 10,
              candidatesTokenCount: 2,
              ...(tier === 'nothing' ? {} : { serviceTier: tier }),
            },
          },
        },
      ],
    ];
  }),
);

function usage(input: string, output: string): Json {
  return { [input]: 10, [output]: 2 };
}

const protocols = ['chat', 'responses', 'messages', 'gemini'] as const;
type Protocol = (typeof protocols)[number];

let upstream: ScriptedUpstream;
let gateway: Gateway;
let managementKey: string;
let key: string;

beforeAll(async () => {
  upstream = await ScriptedUpstream.start(scripts);
  const { url } = upstream;
  const model = (id: string, provider: string, more = '', pricing = ''): string =>
    `  - { id: ${id}, context_length: 1000, max_output_tokens: 100, ${more} pricing: { input: 1000, output: 1000 ${pricing} }, routes: [{ provider: ${provider}, model: m }] }`;
  const tiered = ', tiers: { flex: 0.4, ultrafast: 4 }';
  gateway = await startGateway({
    config: [
      'simulator: { enabled: false }',
      'providers:',
      `  chat: { protocol: chat, base_url: "${url}/v1", api_key: k }`,
      `  responses: { protocol: responses, base_url: "${url}/v1", api_key: k }`,
      `  messages: { protocol: messages, base_url: "${url}", api_key: k }`,
      `  gemini: { protocol: gemini, base_url: "${url}", api_key: k }`,
      'models:',
      ...protocols.map(name => model(name, name, 'capabilities: { service_tiers: [flex, priority] },', tiered)),
      model('plain', 'chat'),
      '',
    ].join('\n'),
  });
  ({ managementKey } = await newAccount(gateway, 100));
  ({ key } = await newKey(gateway, {}, managementKey));
});
afterAll(async () => {
  upstream.stop();
  await endGateway(gateway);
});

const paths: Readonly<Record<Protocol, string>> = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
  gemini: '/v1beta/models/gemini:generateContent',
};

interface Asked {
  readonly status: number;
  readonly body: Json;
  readonly record: RecordDetailJson;
  /** The tier that the provider was sent. */
  readonly sent: unknown;
}

/** Asks for an answer that reports a tier. `word`: the tier of the request; undefined: none. */
async function ask(
  protocol: Protocol,
  word: string | undefined,
  reported: string,
  model: string = protocol,
): Promise<Asked> {
  const text = `${protocol} reports ${reported}`;
  const bodies: Record<Protocol, Json> = {
    chat: { messages: [{ role: 'user', content: text }] },
    responses: { input: text },
    messages: { max_tokens: 20, messages: [{ role: 'user', content: text }] },
    gemini: { contents: [{ role: 'user', parts: [{ text }] }] },
  };
  const member = protocol === 'gemini' ? 'serviceTier' : 'service_tier';
  const count = upstream.bodies.length;
  const response = await fetch(gateway.url + paths[protocol], {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({
      ...(protocol === 'gemini' ? {} : { model }),
      ...bodies[protocol],
      ...(word === undefined ? {} : { [member]: word }),
    }),
  });
  const body = (await response.json()) as Json;
  const id = response.headers.get('x-request-id') ?? '';
  const record = (await call<RecordDetailJson>(gateway, 'GET', `/activity/${id}`, { key: managementKey })).body;
  return { status: response.status, body, record, sent: upstream.bodies[count]?.[member] };
}

/** The cost of the answer at the standard tier: 12 tokens at $1,000 per million. */
const standard = 0.012;

test.each<
  readonly [
    word: string | undefined,
    reported: string,
    sent: string | undefined,
    charged: string,
    factor: number,
    unpriced: string[],
  ]
>([
  [undefined, 'nothing', undefined, 'default', 1, []],
  ['fast', 'priority', 'priority', 'priority', 2, []],
  ['priority', 'default', 'priority', 'default', 1, []],
  ['flex', 'flex', 'flex', 'flex', 0.4, []],
  ['ultrafast', 'ultrafast', 'ultrafast', 'ultrafast', 4, []],
  ['ultrafast', 'nothing', 'ultrafast', 'ultrafast', 4, []],
  ['ultrafast', 'priority', 'ultrafast', 'priority', 2, []],
  ['flex', 'auto', 'flex', 'flex', 0.4, ['service_tier']],
  [undefined, 'on_demand', undefined, 'default', 1, []],
  [undefined, 'auto', undefined, 'default', 1, []],
  ['default', 'turbo', undefined, 'default', 1, ['service_tier']],
  [undefined, 'priority', undefined, 'default', 1, ['service_tier']],
  ['priority', 'ultrafast', 'priority', 'priority', 2, ['service_tier']],
])(
  'requested as %s and reported as %s: sent as %s, charged as %s',
  async (word, reported, sent, ...[charged, factor, unpriced]) => {
    for (const protocol of protocols) {
      const { status, record, ...seen } = await ask(protocol, word, reported);
      expect([protocol, status]).toEqual([protocol, 200]);
      // The words for the standard tier stay where the protocol has them.
      if (sent !== undefined || word === undefined) expect([protocol, seen.sent]).toEqual([protocol, sent]);
      expect([protocol, record.service_tier, record.unpriced]).toEqual([protocol, charged, unpriced]);
      expect(record.cost).toBeCloseTo(standard * factor, 9);
      expect(record.buckets[0]?.multiplier).toBe(factor);
      if (protocol === 'chat' || protocol === 'responses') expect(seen.body['service_tier']).toBe(charged);
    }
  },
);

test.each<readonly [Protocol, string, number, string]>([
  ['chat', 'turbo', 422, 'validation_error'],
  ['responses', 'turbo', 422, 'validation_error'],
  ['messages', 'turbo', 422, 'validation_error'],
  ['gemini', 'turbo', 400, 'validation_error'],
  ['chat', 'scale', 400, 'unsupported_feature'],
  ['messages', 'batch', 400, 'unsupported_feature'],
])('%s with the tier %s is refused with %i, and nothing is sent', async (protocol, word, status, code) => {
  const count = upstream.bodies.length;
  const refused = await ask(protocol, word, 'nothing');
  expect(refused.status).toBe(status);
  expect(JSON.stringify(refused.body)).toContain(code);
  expect(JSON.stringify(refused.body)).toContain(protocol === 'gemini' ? 'serviceTier' : 'service_tier');
  expect(upstream.bodies).toHaveLength(count);
});

test('a tier that only another model has is known, and refused for this one', async () => {
  const refused = await ask('chat', 'ultrafast', 'nothing', 'plain');
  expect(refused).toMatchObject({
    status: 400,
    body: { error: { code: 'unsupported_feature', param: 'service_tier' } },
  });
});

test('a further tier may be named behind the model, and the list of models has it with its price', async () => {
  const asked = await ask('chat', undefined, 'ultrafast', 'chat:ultrafast');
  expect(asked).toMatchObject({ status: 200, sent: 'ultrafast', record: { service_tier: 'ultrafast' } });
  const response = await fetch(`${gateway.url}/v1/models/chat`, { headers: { authorization: `Bearer ${key}` } });
  expect(await response.json()).toMatchObject({
    capabilities: { service_tiers: ['flex', 'priority', 'ultrafast'] },
    pricing: { tiers: { flex: 0.4, ultrafast: 4 } },
  });
});

test('a request is held at the factor of the tier that it asks for', async () => {
  const poor = await newAccount(gateway, 0.04);
  const own = (await newKey(gateway, {}, poor.managementKey)).key;
  const send = (word: string): Promise<Response> =>
    fetch(gateway.url + paths.chat, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${own}` },
      body: JSON.stringify({
        model: 'chat',
        max_tokens: 16,
        service_tier: word,
        messages: [{ role: 'user', content: 'chat reports nothing' }],
      }),
    });
  expect((await send('ultrafast')).status).toBe(429);
  expect((await send('default')).status).toBe(200);
});
