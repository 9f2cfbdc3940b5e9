/**
 * Messages and Chat on the same models give the same answers at the same cost. Also, a coding agent's session through Messages to upstreams of
 * both protocols.
 * Ids like EF-07 name cases of `test/translation/cases.json`.
 */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { makePngUrl } from './sample-image.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n', balance: '1000' });
afterAll(() => endGateway(gateway));

type Json = Record<string, unknown>;
interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Json;
}

async function send(target: Gateway, path: string, body: Json, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(target.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': target.apiKey, ...headers },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  const read = isStream ? { events: parseEvents(text) } : (JSON.parse(text) as Json);
  return { status: response.status, headers: response.headers, body: read };
}

function parseEvents(text: string): Json[] {
  const data = text.split('\n').filter(line => line.startsWith('data: {'));
  return data.map(line => JSON.parse(line.slice('data: '.length)) as Json);
}

/** The content of an answer, the same for both interfaces. */
interface Gist {
  text: string;
  reasoningText: string;
  readonly calls: { name: string; arguments: string }[];
  finish: string;
  cost: number;
}
const finishes: Readonly<Record<string, string>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'tool_calls',
  max_tokens: 'length',
  content_filter: 'content_filter',
};
const emptyGist = (): Gist => ({ text: '', reasoningText: '', calls: [], finish: '', cost: -1 });

function readMessageGist(body: Json): Gist {
  const gist = emptyGist();
  for (const block of body['content'] as Json[]) {
    if (block['type'] === 'text') gist.text += block['text'] as string;
    if (block['type'] === 'thinking') gist.reasoningText += block['thinking'] as string;
    if (block['type'] !== 'tool_use') continue;
    gist.calls.push({ name: block['name'] as string, arguments: JSON.stringify(block['input']) });
  }
  gist.finish = finishes[body['stop_reason'] as string] ?? '';
  gist.cost = (body['usage'] as { cost: number }).cost;
  return gist;
}

function readStreamGist(events: readonly Json[]): Gist {
  const gist = emptyGist();
  for (const { type, content_block: block, delta, usage } of events) {
    if (type === 'content_block_start' && (block as Json)['type'] === 'tool_use') {
      gist.calls.push({ name: (block as Json)['name'] as string, arguments: '' });
    }
    const added = (delta ?? {}) as Record<string, string>;
    gist.text += added['text'] ?? '';
    gist.reasoningText += added['thinking'] ?? '';
    const last = gist.calls.at(-1);
    if (last !== undefined) last.arguments += added['partial_json'] ?? '';
    if (type !== 'message_delta') continue;
    gist.finish = finishes[added['stop_reason'] ?? ''] ?? '';
    gist.cost = (usage as { cost: number }).cost;
  }
  return gist;
}

function readChatGist(body: Json): Gist {
  const [choice] = body['choices'] as { message: Json; finish_reason: string }[];
  const { content, reasoning_content: reasoningText, tool_calls: calls } = choice?.message ?? {};
  return {
    text: (content ?? '') as string,
    reasoningText: (reasoningText ?? '') as string,
    calls: ((calls ?? []) as { function: Gist['calls'][number] }[]).map(each => each.function),
    finish: choice?.finish_reason ?? '',
    cost: (body['usage'] as { cost: number }).cost,
  };
}

const parameters = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer' } },
  required: ['city', 'days'],
};
const image = await makePngUrl(8, 8, 'red');
const imageData = image.slice(image.indexOf(',') + 1);

/** A conversation that both interfaces can express. */
interface Talk {
  readonly system: string | null;
  readonly words: string;
  readonly imagePart: boolean;
  readonly calls: number;
  readonly answered: boolean;
  readonly thinking: boolean;
  readonly tokens: number;
  readonly limit: number;
}
const talks: fc.Arbitrary<Talk> = fc.record({
  system: fc.option(fc.constantFrom('You are brief.', 'Sois bref. 😀')),
  words: fc.constantFrom('What is a gate?', 'Straße & "toll"?', '你好'),
  imagePart: fc.boolean(),
  calls: fc.nat(3),
  answered: fc.boolean(),
  thinking: fc.boolean(),
  tokens: fc.integer({ min: 1, max: 60 }),
  limit: fc.constantFrom(40, 3000),
});

const steered = ({ words, calls, tokens }: Talk): string =>
  `${words}\n!sim tokens=${tokens}${calls > 0 ? ` calls=${calls}` : ''}`;

function asMessages(talk: Talk): Json {
  const imagePart = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: imageData } };
  const content = [...(talk.imagePart ? [imagePart] : []), { type: 'text', text: steered(talk) }];
  const history = [
    { role: 'user', content: 'Weather?' },
    {
      role: 'assistant',
      content: [{ type: 'tool_use', id: 'c1', name: 'weather', input: { city: 'Paris', days: 1 } }],
    },
  ];
  const result = { type: 'tool_result', tool_use_id: 'c1', content: 'Sunny' };
  return {
    model: 'sim/large',
    max_tokens: talk.limit,
    temperature: 0,
    ...(talk.system === null ? {} : { system: talk.system }),
    tools: [{ name: 'weather', input_schema: parameters }],
    ...(talk.thinking ? { thinking: { type: 'adaptive' }, output_config: { effort: 'low' } } : {}),
    messages: [
      ...(talk.answered ? history : []),
      { role: 'user', content: talk.answered ? [result, ...content] : content },
    ],
  };
}

function asChat(talk: Talk): Json {
  const imagePart = { type: 'image_url', image_url: { url: image } };
  const content = [...(talk.imagePart ? [imagePart] : []), { type: 'text', text: steered(talk) }];
  const call = { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"city":"Paris","days":1}' } };
  const history = [
    { role: 'user', content: 'Weather?' },
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'c1', content: 'Sunny' },
  ];
  return {
    model: 'sim/large',
    max_completion_tokens: talk.limit,
    temperature: 0,
    tools: [{ type: 'function', function: { name: 'weather', parameters } }],
    ...(talk.thinking ? { reasoning_effort: 'low' } : {}),
    messages: [
      ...(talk.system === null ? [] : [{ role: 'system', content: talk.system }]),
      ...(talk.answered ? history : []),
      { role: 'user', content },
    ],
  };
}

test('the same conversation gives the same text, calls, finish and cost through Chat and Messages, streamed and not', async () => {
  await fc.assert(
    fc.asyncProperty(talks, async talk => {
      const [whole, streamed, chat] = await Promise.all([
        send(gateway, '/v1/messages', asMessages(talk)),
        send(gateway, '/v1/messages', { ...asMessages(talk), stream: true }),
        send(gateway, '/v1/chat/completions', asChat(talk)),
      ]);
      expect([whole.status, streamed.status, chat.status]).toEqual([200, 200, 200]);
      const said = readMessageGist(whole.body);
      expect(readStreamGist(streamed.body['events'] as Json[])).toEqual(
        said.finish === 'length' ? { ...said, calls: expect.anything() as unknown } : said,
      );
      const other = readChatGist(chat.body);
      expect(said.finish === 'length' ? { ...other, calls: said.calls } : other).toEqual(said);
    }),
    { numRuns: 40 },
  );
});

describe('the envelope of the Anthropic interface', () => {
  const body = { model: 'sim/large', max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] };
  const refused: readonly {
    name: string;
    path: string;
    sent: Json;
    key?: string;
    expected: readonly [number, string, string];
  }[] = [
    {
      name: 'a missing field',
      path: '',
      sent: { model: 'sim/large' },
      expected: [422, 'invalid_request_error', 'validation_error'],
    },
    {
      name: 'an unknown model',
      path: '',
      sent: { ...body, model: 'no/no' },
      expected: [400, 'invalid_request_error', 'model_not_found'],
    },
    {
      name: 'a wrong key',
      path: '',
      sent: body,
      key: 'no',
      expected: [401, 'authentication_error', 'invalid_api_key'],
    },
    { name: 'an unknown path below it', path: '/nothing', sent: body, expected: [404, 'not_found_error', 'not_found'] },
    {
      name: 'a wrong count',
      path: '/count_tokens?beta=true',
      sent: {},
      expected: [422, 'invalid_request_error', 'validation_error'],
    },
  ];
  test.each(refused)('$name', async ({ path, sent, key, expected: [status, type, code] }) => {
    const answer = await send(gateway, `/v1/messages${path}`, sent, key === undefined ? {} : { 'x-api-key': key });
    expect(answer.status).toBe(status);
    expect(answer.body).toMatchObject({ type: 'error', error: { type, code, status_code: status } });
    const id = answer.headers.get('x-request-id');
    expect(answer.headers.get('request-id')).toBe(id);
    expect((answer.body['error'] as Json)['id']).toBe(id);
  });

  test('a field that is null counts as not sent, and the query is ignored (HD-15)', async () => {
    const nulls = { system: null, tools: null, tool_choice: null, thinking: null, temperature: null, metadata: null };
    const answer = await send(gateway, '/v1/messages?beta=true', { ...body, ...nulls });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('request-id')).toBe(answer.headers.get('x-request-id'));
  });
});

/** Starts an upstream that records the bodies it gets and answers with the gateway's built-in models. */
async function recordingUpstream(): Promise<{ url: string; bodies: string[]; headers: IncomingHttpHeaders[] }> {
  const bodies: string[] = [];
  const headers: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      bodies.push(body.toString('utf8'));
      headers.push({ ...request.headers, path: request.url });
      const sent = { 'content-type': 'application/json', authorization: `Bearer ${gateway.apiKey}` };
      void fetch(gateway.url + (request.url ?? ''), { method: 'POST', headers: sent, body }).then(async answer => {
        response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
        response.end(Buffer.from(await answer.arrayBuffer()));
      });
    });
  });
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve);
  });
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies, headers };
}

const front = (protocol: string, base: string): string => `
simulator: { enabled: false }
retries: 0
providers:
  inner: { protocol: ${protocol}, base_url: "${base}", api_key: inner-key }
models:
  - id: sim/large
    context_length: 128000
    max_output_tokens: 16384
    endpoints: [/v1/chat/completions, /v1/messages]
    capabilities: { vision: true, function_call: true, reasoning: true, service_tiers: [] }
    pricing: { input: 1, output: 4, caching: { read: 0.1, write_5m: 1.25, write_1h: 2 } }
    routes: [{ provider: inner, model: sim/large }]
`;

/** Returns the blocks of a streamed answer, in the form in which the agent sends them back. */
function readBlocks(events: readonly Json[]): Json[] {
  const blocks: Json[] = [];
  const inputs: string[] = [];
  for (const { type, content_block: content, delta } of events) {
    if (type === 'content_block_start') blocks.push({ ...(content as Json) });
    const last = blocks.at(-1);
    if (type !== 'content_block_delta' || last === undefined) continue;
    const added = delta as Record<string, string>;
    if (added['text'] !== undefined) last['text'] = (last['text'] as string) + added['text'];
    if (added['thinking'] !== undefined) last['thinking'] = (last['thinking'] as string) + added['thinking'];
    if (added['signature'] !== undefined) last['signature'] = added['signature'];
    inputs[blocks.length - 1] = (inputs[blocks.length - 1] ?? '') + (added['partial_json'] ?? '');
  }
  return blocks.map((each, index) =>
    each['type'] === 'tool_use' ? { ...each, input: JSON.parse(inputs[index] ?? '{}') as unknown } : each,
  );
}

describe.each([
  { protocol: 'messages', suffix: '' },
  { protocol: 'chat', suffix: '/v1' },
])('a coding agent’s session to a $protocol upstream', ({ protocol, suffix }) => {
  test('in 30 turns with 20 tools, a cached prompt and reasoning, arguments and signatures are unchanged, and the same request is sent as the same bytes', async () => {
    const upstream = await recordingUpstream();
    const target = await startGateway({ config: front(protocol, upstream.url + suffix), balance: '100' });
    onTestFinished(() => endGateway(target));
    const tools = Array.from({ length: 20 }, (_, index) => ({
      name: `tool_${index}`,
      description: `Tool number ${index}`,
      input_schema: {
        type: 'object',
        properties: { path: { type: 'string' }, line: { type: 'integer' } },
        required: ['path', 'line'],
      },
      ...(index === 19 ? { cache_control: { type: 'ephemeral' } } : {}),
    }));
    const system = [
      { type: 'text', text: 'You are a coding agent. '.repeat(400), cache_control: { type: 'ephemeral', ttl: '1h' } },
    ];
    const messages: Json[] = [
      { role: 'user', content: [{ type: 'text', text: 'Mend the build.\n!sim calls=2 say=Next.' }] },
    ];
    const body = {
      model: 'sim/large',
      max_tokens: 4096,
      system,
      tools,
      thinking: { type: 'enabled', budget_tokens: 1024 },
      stream: true,
    };
    for (let turn = 0; turn < 30; turn += 1) {
      const { status, body: answer } = await send(target, '/v1/messages', { ...body, messages });
      expect(status).toBe(200);
      const content = readBlocks(answer['events'] as Json[]);
      const calls = content.filter(({ type }) => type === 'tool_use');
      expect(calls).toHaveLength(2);
      messages.push({ role: 'assistant', content });
      const results = calls.map(({ id }) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: [{ type: 'text', text: 'ok' }],
      }));
      messages.push({
        role: 'user',
        content: [...results, { type: 'text', text: `Turn ${turn}.\n!sim calls=2 say=Next.` }],
      });
    }
    await send(target, '/v1/messages', { ...body, messages });
    await send(target, '/v1/messages', { ...body, messages });
    const [again, last] = [upstream.bodies.pop(), upstream.bodies.pop()];
    expect(again).toBe(last);
    const sent = JSON.parse(last ?? '{}') as { messages: Json[] };
    if (protocol === 'messages') {
      expect(sent.messages).toEqual(messages);
      expect(sent).toMatchObject({ system, tools });
      return;
    }
    const ownCalls = messages.flatMap(({ role, content }) =>
      role === 'assistant' ? (content as Json[]).filter(({ type }) => type === 'tool_use') : [],
    );
    const sentCalls = sent.messages.flatMap(({ tool_calls: each }) => (each ?? []) as { id: string; function: Json }[]);
    expect(sentCalls.map(({ id, function: { arguments: args } }) => ({ id, args }))).toEqual(
      ownCalls.map(({ id, input }) => ({ id, args: JSON.stringify(input) })),
    );
  });
});

test('EF-07: an upstream gets its key, the client’s version or one that accepts sampling, and the beta headers of client and configuration', async () => {
  const upstream = await recordingUpstream();
  const config = front('messages', upstream.url).replace(
    'api_key: inner-key',
    'api_key: inner-key, headers: { anthropic-beta: c }',
  );
  const target = await startGateway({ config });
  onTestFinished(() => endGateway(target));
  const body = { model: 'sim/large', max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] };
  const own = { 'anthropic-version': '2026-10-21', 'anthropic-beta': 'a,b' };
  expect((await send(target, '/v1/messages', body, own)).status).toBe(200);
  const chat = { model: 'sim/large', messages: body.messages, temperature: 1 };
  expect((await send(target, '/v1/chat/completions', chat)).status).toBe(200);
  expect(upstream.headers).toMatchObject([
    { path: '/v1/messages', 'x-api-key': 'inner-key', ...own, 'anthropic-beta': 'a,b,c' },
    { path: '/v1/messages', 'x-api-key': 'inner-key', 'anthropic-version': '2023-06-01', 'anthropic-beta': 'c' },
  ]);
  expect(upstream.headers.every(({ authorization }) => authorization === undefined)).toBe(true);
  // The client set no limit, but the protocol requires one, so the gateway sends the model's limit.
  expect(JSON.parse(upstream.bodies[1] ?? '{}')).toMatchObject({ max_tokens: 16_384, temperature: 1 });
});
