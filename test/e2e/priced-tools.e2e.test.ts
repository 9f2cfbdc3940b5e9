/** Tools that the provider runs and that have a price per call (`pricing.tools`): the cost is held before the request, charged as the provider reports the calls, and shown in the receipt. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadTokenizer } from '../../src/generation/tokens.ts';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { type RecordDetailJson, call, readDollars, newAccount, newKey } from './account-client.ts';
import { dataFrame, type Json, ScriptedUpstream, typedFrame } from './scripted-upstream.ts';

/** The upstreams' answers: one or two searches, then a word. Tokens cost nothing, so that only the calls are charged. */
const chatUsage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 };
const chatChunk = (delta: Json, finish: string | null): string =>
  dataFrame({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finish }] });
const chat = (usage: Json) => ({
  frames: [
    chatChunk({ role: 'assistant', content: 'Found.' }, null),
    chatChunk({}, 'stop'),
    dataFrame({ id: 'c', object: 'chat.completion.chunk', choices: [], usage }),
    'data: [DONE]\n\n',
  ],
  whole: {
    id: 'c',
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Found.' }, finish_reason: 'stop' }],
    usage,
  },
});

/** Reasons for 300 tokens, then says five. */
const reasoned = 'Let me think about that again. '.repeat(43);
const grokUsage = {
  prompt_tokens: 10,
  completion_tokens: 5,
  total_tokens: 315,
  completion_tokens_details: { reasoning_tokens: 300 },
};
const grok = {
  frames: [
    chatChunk({ role: 'assistant', reasoning_content: reasoned }, null),
    chatChunk({ content: 'The answer is forty-two.' }, null),
    ...chat(grokUsage).frames.slice(1),
  ],
  whole: {
    ...chat(grokUsage).whole,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', reasoning_content: reasoned, content: 'The answer is forty-two.' },
        finish_reason: 'stop',
      },
    ],
  },
};

const search = (id: string, type: string): Json => ({
  id,
  type: 'web_search_call',
  status: 'completed',
  action: { type },
});
const said: Json = {
  id: 'm',
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: 'Found.', annotations: [] }],
};
const responsesOutput = [search('a', 'search'), search('b', 'open_page'), search('c', 'search'), said];
const responsesWhole: Json = {
  id: 'r',
  object: 'response',
  status: 'completed',
  output: responsesOutput,
  usage: { input_tokens: 10, output_tokens: 2, total_tokens: 12 },
};
const responses = {
  frames: [
    typedFrame('response.created', { response: { ...responsesWhole, status: 'in_progress', output: [] } }),
    ...responsesOutput.flatMap((item, index) => [
      typedFrame('response.output_item.added', { output_index: index, item }),
      typedFrame('response.output_item.done', { output_index: index, item }),
    ]),
    typedFrame('response.completed', { response: responsesWhole }),
  ],
  whole: responsesWhole,
};

const blocks: Json[] = [
  { type: 'server_tool_use', id: 's1', name: 'web_search', input: { query: 'a' } },
  { type: 'web_search_tool_result', tool_use_id: 's1', content: [] },
  { type: 'server_tool_use', id: 's2', name: 'web_search', input: { query: 'b' } },
  { type: 'web_search_tool_result', tool_use_id: 's2', content: { type: 'web_search_tool_result_error' } },
  { type: 'text', text: 'Found.' },
];
const messages = (usage: Json) => ({
  frames: [
    typedFrame('message_start', {
      message: {
        id: 'm',
        type: 'message',
        role: 'assistant',
        content: [],
        usage: { input_tokens: 10, output_tokens: 1 },
      },
    }),
    ...blocks.flatMap((block, index) => [
      typedFrame('content_block_start', { index, content_block: block }),
      typedFrame('content_block_stop', { index }),
    ]),
    typedFrame('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2, ...usage } }),
    typedFrame('message_stop', {}),
  ],
  whole: {
    id: 'm',
    type: 'message',
    role: 'assistant',
    content: blocks,
    stop_reason: 'end_turn',
    usage: { input_tokens: 10, output_tokens: 2, ...usage },
  },
});

const queries = (...texts: string[]): Json => ({ groundingMetadata: { webSearchQueries: texts } });
/** Answers of Gemini: its model searches, runs code, then says a word. A stream repeats what was searched. */
const gemini = (modelVersion: string, ...searched: string[]) => {
  const candidate = (part: Json, more: Json = {}): Json => ({ content: { role: 'model', parts: [part] }, ...more });
  const ran = { executableCode: { language: 'PYTHON', code: '1' } };
  const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 2, totalTokenCount: 12 };
  const last = candidate({ text: 'Found.' }, { finishReason: 'STOP', ...queries(...searched) });
  return {
    frames: [
      dataFrame({ candidates: [candidate(ran, queries('a'))], modelVersion, usageMetadata }),
      dataFrame({ candidates: [last], modelVersion, usageMetadata }),
    ],
    whole: {
      candidates: [{ ...last, content: { role: 'model', parts: [ran, { text: 'Found.' }] } }],
      modelVersion,
      usageMetadata,
    },
  };
};

const scripts = {
  'gemini three': gemini('gemini-3.5-flash', 'a', 'b', 'c'),
  'gemini two': gemini('gemini-2.5-flash', 'a', 'b'),
  'chat silent': chat(chatUsage),
  'chat reports': chat({ ...chatUsage, num_search_queries: 3 }),
  'grok reasons': grok,
  'responses items': responses,
  'messages reports': messages({ server_tool_use: { web_search_requests: 1 } }),
  'messages items': messages({}),
  'messages passes': messages({ input_tokens: 4945, server_tool_use: { web_search_requests: 0 } }),
  'messages compacts': messages({
    input_tokens: 10,
    iterations: [
      { type: 'compaction', input_tokens: 900, output_tokens: 31 },
      { type: 'message', input_tokens: 10, output_tokens: 2 },
    ],
  }),
};

let upstream: ScriptedUpstream;
let gateway: Gateway;

beforeAll(async () => {
  upstream = await ScriptedUpstream.start(scripts);
  const base = upstream.url;
  const free = 'input: 0, output: 0';
  const tools = 'tools: { web_search: 0.01, code_execution: 0.003 }';
  const model = (id: string, provider: string, pricing: string): string =>
    `  - { id: ${id}, context_length: 1000, max_output_tokens: 100, capabilities: { function_call: true }, pricing: { ${pricing} }, routes: [{ provider: ${provider}, model: m }] }`;
  gateway = await startGateway({
    config: [
      'simulator: { enabled: false }',
      'plans: { core: { monthly: { price: 1, tokens: 1000000 }, free_daily_requests: 10, discount: 0.5, models: all } }',
      'providers:',
      `  chat: { protocol: chat, base_url: "${base}/v1", api_key: k }`,
      `  responses: { protocol: responses, base_url: "${base}/v1", api_key: k }`,
      `  messages: { protocol: messages, base_url: "${base}", api_key: k }`,
      `  gemini: { protocol: gemini, base_url: "${base}", api_key: k }`,
      `  x-ai: { protocol: chat, base_url: "${base}/v1", api_key: k }`,
      'models:',
      ...['chat', 'responses', 'messages', 'gemini'].map(name => model(name, name, `${free}, ${tools}`)),
      model('few', 'messages', `${free}, ${tools}, tool_calls: 2`),
      model('text', 'messages', `input: 1, output: 1, ${tools}`),
      model('plain', 'chat', free),
      ...['m', 'gpt-4o'].map(name =>
        model(`prose-${name}`, 'chat', 'input: 1, output: 1, caching: { read: 0.1, write_5m: 1.25, write_1h: 2 }')
          .replace('model: m', `model: ${name}`)
          .replace('context_length: 1000', 'context_length: 200000'),
      ),
      model('grok', 'x-ai', 'input: 1, output: 1')
        .replace('model: m', 'model: grok-4')
        .replace('tokens: 100', 'tokens: 1000'),
      model('unasked', 'messages', free),
      model('claude', 'messages', free).replace('model: m', 'model: claude-sonnet-5'),
      '',
    ].join('\n'),
  });
});
afterAll(async () => {
  upstream.stop();
  await endGateway(gateway);
});

const paths: Readonly<Record<string, string>> = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
};

interface Payer {
  readonly key: string;
  readonly managementKey: string;
  readonly dollars: number;
}

/** Creates an account with a balance in dollars, and a key. */
async function makePayer(dollars: number, settings: object = {}): Promise<Payer & { readonly accountId: bigint }> {
  const { accountId, managementKey } = await newAccount(gateway, dollars);
  return { accountId, managementKey, dollars, key: (await newKey(gateway, settings, managementKey)).key };
}

async function ask(
  payer: Payer,
  model: string,
  body: Json & { readonly said: string; readonly protocol: string },
): Promise<{ status: number; json: Json; text: string; cost: number; id: string }> {
  const { said: text, protocol, ...rest } = body;
  const content = protocol === 'responses' ? { input: text } : { messages: [{ role: 'user', content: text }] };
  const response = await fetch(gateway.url + (paths[protocol] ?? ''), {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${payer.key}` },
    body: JSON.stringify({ model, ...content, ...(protocol === 'messages' ? { max_tokens: 50 } : {}), ...rest }),
  });
  const whole = await response.text();
  return {
    status: response.status,
    text: whole,
    json: whole.startsWith('{') ? (JSON.parse(whole) as Json) : {},
    cost: Number(response.headers.get('x-tollgate-cost')),
    id: response.headers.get('x-request-id') ?? '',
  };
}

async function receipt({ managementKey }: Payer, id: string): Promise<RecordDetailJson> {
  return (await call<RecordDetailJson>(gateway, 'GET', `/activity/${id}`, { key: managementKey })).body;
}

const webSearch = { chat: { web_search_options: {} }, responses: { tools: [{ type: 'web_search' }] } };
const messagesSearch = { tools: [{ type: 'web_search_20250305', name: 'web_search' }] };

describe.each([false, true])('streamed: %s', stream => {
  test.each([
    ['chat silent', 'chat', webSearch.chat, 1],
    ['chat reports', 'chat', webSearch.chat, 3],
    ['chat silent', 'chat', { web_search_options: null }, 0],
    ['responses items', 'responses', webSearch.responses, 2],
    ['messages reports', 'messages', messagesSearch, 1],
    ['messages items', 'messages', messagesSearch, 2],
  ])(
    '“%s” of a %s upstream, requested with %o, is charged as many times as the upstream reports',
    async (text, protocol, member, calls) => {
      const payer = await makePayer(1);
      const before = upstream.bodies.length;
      const answer = await ask(payer, protocol, { said: text, protocol, stream, ...member });
      expect(answer.status).toBe(200);
      expect(upstream.bodies[before]).toMatchObject(member);
      const { cost, buckets } = await receipt(payer, answer.id);
      expect(cost).toBeCloseTo(calls * 0.01, 9);
      if (!stream) expect(answer.cost).toBeCloseTo(calls * 0.01, 9);
      const bought = { kind: 'web_search', tokens: calls, price: 0.01, multiplier: 1, discount: 0, paid_by: 'account' };
      const lines = buckets.filter(({ kind }) => kind === 'web_search');
      expect(lines).toMatchObject(calls === 0 ? [] : [bought]);
      expect(await readDollars(gateway, payer.managementKey)).toBeCloseTo(1 - calls * 0.01, 9);
    },
  );
});

test.each([
  ['gemini three', { tools: [{ googleSearch: {} }] }, { web_search: 3 }],
  ['gemini three', { tools: [{ google_search: {}, code_execution: {} }] }, { web_search: 3, code_execution: 1 }],
  ['gemini two', { tools: [{ googleSearch: {} }, { codeExecution: {} }] }, { web_search: 1, code_execution: 1 }],
  ['gemini two', { tools: { code_execution: {} } }, { code_execution: 1 }],
])('what “%s” searched and ran is charged, requested with %o, streamed or not', async (word, members, calls) => {
  for (const method of ['generateContent', 'streamGenerateContent?alt=sse']) {
    const payer = await makePayer(1);
    const response = await fetch(`${gateway.url}/v1beta/models/gemini:${method}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${payer.key}` },
      body: JSON.stringify({ contents: [{ role: 'user', parts: [{ text: word }] }], ...members }),
    });
    await response.text();
    const { buckets } = await receipt(payer, response.headers.get('x-request-id') ?? '');
    const paid = buckets.filter(({ kind }) => kind.includes('search') || kind.includes('code'));
    expect(Object.fromEntries(paid.map(({ kind, tokens }) => [kind, tokens]))).toEqual(calls);
  }
});

test('a provider’s tools are held as far as funds reach, and refused only if the first pass can’t be paid', async () => {
  const tools = [{ type: 'web_fetch_20250910', name: 'web_fetch' }];
  const fetching = { said: 'messages passes', protocol: 'messages', tools };
  const poor = await makePayer(0.0005);
  const { id } = await ask(poor, 'text', fetching);
  expect(await receipt(poor, id)).toMatchObject({ cost: 500e-6, written_off: 4_447e-6 });
  expect(await ask(await makePayer(0.000_01), 'text', fetching)).toMatchObject({ status: 429 });
});

test('what a request can reach is held: text without cache marks as plain input, as the tokenizer counts it if funds are short', async () => {
  const line = 'However long the afternoon seemed, nobody in the little village wanted to return before supper. ';
  const tokenizer = await loadTokenizer();
  const prose = line.repeat(Math.round(19_500 / tokenizer.count(line)));
  const nano = (dollars: number): number => Math.round(dollars * 1e9) / 1e9;
  const input = tokenizer.count(prose) / 1e6;
  const tries: [model: string, dollars: number, status: number][] = [
    ['prose-m', 0.03, 200],
    ['prose-m', 1.3 * input, 429],
    ['prose-gpt-4o', input + 0.000_05, 200],
    ['prose-gpt-4o', input, 429],
  ];
  for (const [model, dollars, status] of tries) {
    const messages = [
      { role: 'system', content: prose },
      { role: 'user', content: 'chat silent' },
    ];
    const answer = await ask(await makePayer(nano(dollars)), model, { said: '', protocol: 'chat', messages });
    expect([model, dollars, answer.status]).toEqual([model, dollars, status]);
  }
});

test('input above the context is believed if the provider could run tools, because each pass sends it again, and not otherwise', async () => {
  const payer = await makePayer(1);
  const searching = await ask(payer, 'text', { said: 'messages passes', protocol: 'messages', ...messagesSearch });
  expect(searching.cost).toBeCloseTo(4_947e-6, 9);
  const plain = await ask(payer, 'text', { said: 'messages passes', protocol: 'messages' });
  expect(plain.cost).toBeLessThan(100e-6);
});

test('count_tokens adds what a model adds to the prompt for tools: more if one of them must be used', async () => {
  const tools = [{ name: 'note', description: 'Notes a word.', input_schema: { type: 'object', properties: {} } }];
  const count = async (model: string, members: Json): Promise<number> => {
    const response = await fetch(`${gateway.url}/v1/messages/count_tokens`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': gateway.apiKey },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }], ...members }),
    });
    return ((await response.json()) as { input_tokens: number }).input_tokens;
  };
  const [none, auto, forced] = [{}, { tools }, { tools, tool_choice: { type: 'any' } }];
  expect((await count('claude', none)) - (await count('unasked', none))).toBe(0);
  expect((await count('claude', auto)) - (await count('unasked', auto))).toBe(438);
  expect((await count('claude', forced)) - (await count('unasked', forced))).toBe(574);
});

test.each([false, true])(
  'a limit for visible tokens does not cut an answer that reasons, and all of it is charged, streamed: %s',
  async stream => {
    const payer = await makePayer(1);
    const answer = await ask(payer, 'grok', { said: 'grok reasons', protocol: 'chat', stream, max_tokens: 50 });
    expect(answer.text).toContain('"content":"The answer is forty-two."');
    expect(answer.text).toContain('"finish_reason":"stop"');
    expect(await receipt(payer, answer.id)).toMatchObject({ state: 'completed', cost: 315e-6, written_off: 0 });
  },
);

test.each([false, true])('the passes of an answer are charged, streamed: %s', async stream => {
  const payer = await makePayer(1);
  const answer = await ask(payer, 'text', { said: 'messages compacts', protocol: 'messages', stream });
  const { cost } = await receipt(payer, answer.id);
  expect(cost).toBeCloseTo(943e-6, 9);
  if (!stream) expect(answer.json['usage']).toMatchObject({ input_tokens: 10, output_tokens: 2, cost });
});

test('before the request, the cost of calls is held: of as many as the request allows, else as many as the configuration says, else ten', async () => {
  const search2 = { tools: [{ ...messagesSearch.tools[0], max_uses: 2 }] };
  const tries: [model: string, member: Json, dollars: number, status: number][] = [
    ['messages', messagesSearch, 0.099, 429],
    ['messages', messagesSearch, 0.101, 200],
    ['messages', search2, 0.019, 429],
    ['messages', search2, 0.021, 200],
    ['few', messagesSearch, 0.019, 429],
    ['few', messagesSearch, 0.021, 200],
    ['messages', {}, 0.0001, 200],
  ];
  for (const [model, member, dollars, status] of tries) {
    const payer = await makePayer(dollars);
    const answer = await ask(payer, model, { said: 'messages reports', protocol: 'messages', ...member });
    expect([model, dollars, answer.status]).toEqual([model, dollars, status]);
    if (status === 429) expect(answer.json).toMatchObject({ error: { code: 'insufficient_balance' } });
  }
  const limited = { ...webSearch.responses, max_tool_calls: 3 };
  for (const [dollars, status] of [[0.029, 429] as const, [0.031, 200] as const]) {
    const answer = await ask(await makePayer(dollars), 'responses', {
      said: 'responses items',
      protocol: 'responses',
      ...limited,
    });
    expect([dollars, answer.status]).toEqual([dollars, status]);
  }
});

test('calls beyond the number that a request allows are not charged', async () => {
  const payer = await makePayer(1);
  const tools = [{ ...messagesSearch.tools[0], max_uses: 1 }];
  const { id } = await ask(payer, 'messages', { said: 'messages items', protocol: 'messages', tools });
  expect((await receipt(payer, id)).cost).toBeCloseTo(0.01, 9);
});

test('a plan pays for the tokens, and money for the calls, without the plan’s discount', async () => {
  const payer = await makePayer(10);
  await gateway.cli(['subscriptions', 'start', String(payer.accountId), '--plan', 'core', '--period', 'monthly']);
  const left = await readDollars(gateway, payer.managementKey);
  const { id } = await ask(payer, 'text', { said: 'messages reports', protocol: 'messages', ...messagesSearch });
  const { cost, buckets } = await receipt(payer, id);
  expect(cost).toBeCloseTo(0.01, 9);
  expect(buckets.map(({ kind, tokens, paid_by: by, discount }) => [kind, tokens, by, discount])).toEqual([
    ['input', 10, 'subscription', 1],
    ['output', 2, 'subscription', 1],
    ['web_search', 1, 'account', 0],
  ]);
  expect(await readDollars(gateway, payer.managementKey)).toBeCloseTo(left - 0.01, 9);
  const alone = (await newKey(gateway, { fallback_to_payg: false }, payer.managementKey)).key;
  const refused = await ask({ ...payer, key: alone }, 'text', {
    said: 'messages reports',
    protocol: 'messages',
    ...messagesSearch,
  });
  expect(refused).toMatchObject({ status: 429, json: { error: { code: 'subscription_exhausted' } } });
});

test('a tool without a price is refused if the request requires it', async () => {
  const payer = await makePayer(1);
  const refused = await ask(payer, 'plain', { said: 'chat silent', protocol: 'chat', ...webSearch.chat });
  expect(refused).toMatchObject({
    status: 400,
    json: { error: { code: 'unsupported_feature', param: 'web_search_options' } },
  });
  const other = { tools: [{ type: 'file_search' }], tool_choice: 'required' };
  const unpriced = await ask(payer, 'responses', { said: 'responses items', protocol: 'responses', ...other });
  expect(unpriced).toMatchObject({ status: 400, json: { error: { code: 'unsupported_feature', param: 'tools.0' } } });
});

test('the list of models has the prices of tools', async () => {
  const response = await fetch(`${gateway.url}/v1/models/few`, {
    headers: { authorization: `Bearer ${gateway.apiKey}` },
  });
  expect(await response.json()).toMatchObject({ pricing: { tools: { web_search: 0.01, code_execution: 0.003 } } });
});
