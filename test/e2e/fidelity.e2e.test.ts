/**
 * No content changes silently between protocols (docs/interfaces/README.md "Refused, listed or dropped"): what can't be expressed is refused or listed, unless it is only a hint. Features that an upstream lacks are replaced: a schema by a tool, several answers by several calls. On one side are real clients, on the other servers that record every byte.
 */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { makeOpaque } from '../../src/codecs/content.ts';
import { toSignature } from '../../src/codecs/messages/reasoning-blobs.ts';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { endGateway, type Gateway, readRecord } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { complete, post, stream } from './chat-client.ts';

type Json = Record<string, unknown>;

/** The bodies that the servers received, with their paths. */
const seen: { path: string; raw: string; body: Json }[] = [];
const frames = (...events: Json[]): string =>
  events.map(event => `event: ${String(event['type'])}\ndata: ${JSON.stringify(event)}\n\n`).join('');
const data = (...events: Json[]): string => events.map(event => `data: ${JSON.stringify(event)}\n\n`).join('');

/** Returns a stream as Anthropic writes it: a call of the request's last tool in two pieces; without tools the text "ok". */
function messagesAnswer({ tools = [] }: { tools?: { name: string }[] }): string {
  const usage = { input_tokens: 20, output_tokens: 9 };
  const [start, name] = [
    { id: 'm', type: 'message', role: 'assistant', model: 'm', content: [], usage },
    tools.at(-1)?.name,
  ];
  const block = name === undefined ? { type: 'text', text: '' } : { type: 'tool_use', id: 't', name, input: {} };
  const pieces =
    name === undefined
      ? [{ type: 'text_delta', text: 'ok' }]
      : ['{"minutes":', '12}'].map(partial_json => ({ type: 'input_json_delta', partial_json }));
  return frames(
    { type: 'message_start', message: start },
    { type: 'content_block_start', index: 0, content_block: block },
    ...pieces.map(delta => ({ type: 'content_block_delta', index: 0, delta })),
    { type: 'content_block_stop', index: 0 },
    {
      type: 'message_delta',
      delta: { stop_reason: name === undefined ? 'end_turn' : 'tool_use', stop_sequence: null },
      usage,
    },
    { type: 'message_stop' },
  );
}

/** How many requests the Chat server has answered; its answers say the number. */
let answered = 0;
function chatAnswer(): string {
  answered += 1;
  const choice = (delta: Json, finish_reason: string | null = null): Json => ({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
  });
  const usage = { prompt_tokens: 10, completion_tokens: answered, total_tokens: 10 + answered };
  return `${data(choice({ role: 'assistant', content: `answer ${answered}` }), choice({}, 'stop'), { ...choice({}), choices: [], usage })}data: [DONE]\n\n`;
}

const geminiAnswer = (): string =>
  data({
    candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'ok' }] }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 1 },
    modelVersion: 'm',
    responseId: 'r',
  });

const server: Server = createServer((request, response) => {
  void (async () => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const raw = Buffer.concat(parts).toString();
    const path = request.url ?? '';
    const body = JSON.parse(raw) as Json;
    seen.push({ path, raw, body });
    response.setHeader('content-type', 'text/event-stream');
    if (path === '/v1/messages') response.end(messagesAnswer(body));
    else response.end(path.includes('/v1beta/') ? geminiAnswer() : chatAnswer());
  })();
});

let gateway: Gateway;
const config = (more = ''): string => {
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const model = (id: string, provider: string, name: string): string =>
    `  - { id: ${id}, max_output_tokens: 4096, capabilities: { function_call: true, reasoning: true }, pricing: { input: 1, output: 10 }, routes: [{ provider: ${provider}, model: ${name} }] }\n`;
  return `
${more}
simulator: { enabled: false }
retries: 0
providers:
  chat: { protocol: chat, base_url: "${origin}/v1" }
  # A name of a preset without an address of its own: it has the preset's quirks.
  llama-cpp: { protocol: chat, base_url: "${origin}/v1" }
  messages: { protocol: messages, base_url: "${origin}" }
  gemini: { protocol: gemini, base_url: "${origin}" }
  other-chat: { protocol: chat, base_url: "${origin}/other/v1" }
  other-gemini: { protocol: gemini, base_url: "${origin}/other" }
models:
  - id: up/either
    pricing: { input: 1, output: 10 }
    routes: [{ provider: chat, model: m }, { provider: other-chat, model: m }]
  - id: up/spare
    capabilities: { function_call: true, reasoning: true }
    pricing: { input: 1, output: 10 }
    routes: [{ provider: gemini, model: m }, { provider: other-gemini, model: m, priority: 2 }]
${model('up/chat', 'chat', 'm')}${model('up/local', 'llama-cpp', 'm')}${model('up/messages', 'messages', 'claude-haiku-4-5')}${model('up/older', 'messages', 'claude-3-opus')}${model('up/gemini', 'gemini', 'gemini-2.5-flash')}`;
};
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  gateway = await startGateway({ config: config() });
});
beforeEach(() => {
  seen.length = 0;
  answered = 0;
});
afterAll(async () => {
  await endGateway(gateway);
  server.close();
});

const user = [{ role: 'user', content: 'hi' }];
const schema = { type: 'object', properties: { minutes: { type: 'integer' } }, required: ['minutes'] };

interface Reply {
  readonly status: number;
  readonly warnings: string | null;
  readonly code: string | undefined;
  readonly param: string | null | undefined;
}
async function send(path: string, body: Json, headers: Record<string, string> = {}): Promise<Reply> {
  const response = await post(gateway, path, body, { headers });
  const { error } = (await response.json()) as { error?: { code: string; param: string | null } };
  const warnings = response.headers.get('x-tollgate-warnings');
  return { status: response.status, warnings, code: error?.code, param: error?.param };
}

describe('an answer that follows a schema, from a model that does not support schemas', () => {
  const requested = {
    model: 'up/older',
    messages: user,
    response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } },
  };

  test('is a tool call for the upstream and text for a client of Chat, whole and as a stream', async () => {
    const whole = await complete(gateway, requested);
    expect([whole.text, whole.finish, whole.calls]).toEqual(['{"minutes":12}', 'stop', []]);
    const streamed = await stream(gateway, requested);
    expect([streamed.text, streamed.finish, streamed.calls, streamed.done]).toEqual([
      '{"minutes":12}',
      'stop',
      [],
      true,
    ]);
    // The text comes in pieces, not all at the end.
    expect(streamed.chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? ''))).toEqual(
      expect.arrayContaining(['{"minutes":', '12}']),
    );
    for (const { headers } of [whole, streamed])
      expect(headers.get('x-tollgate-warnings')).toBe('dropped=response_format');
    expect(seen.map(({ body }) => [body['tools'], body['tool_choice']])).toEqual(
      [0, 1].map(() => [
        [
          {
            name: 'tollgate_final_answer',
            description: 'Gives the final answer. Call it once, with the whole answer, instead of writing text.',
            input_schema: schema,
          },
        ],
        { type: 'tool', name: 'tollgate_final_answer' },
      ]),
    );
  });

  test('is text for a client of Responses, too', async () => {
    const body = { model: 'up/older', input: 'hi', text: { format: { type: 'json_schema', name: 'answer', schema } } };
    const whole = (await (await post(gateway, '/v1/responses', body)).json()) as Json;
    const streamed = await (await post(gateway, '/v1/responses', { ...body, stream: true })).text();
    const last = streamed.split('\n\n').find(frame => frame.startsWith('event: response.completed'));
    const completed = JSON.parse(last?.split('\ndata: ')[1] ?? '{}') as { response: Json };
    for (const { status, output } of [whole, completed.response]) {
      expect(status).toBe('completed');
      expect(output).toMatchObject([{ type: 'message', content: [{ type: 'output_text', text: '{"minutes":12}' }] }]);
    }
    expect(streamed).not.toContain('function_call');
    expect(streamed).not.toContain('tollgate_final_answer');
  });
});

test('several answers of a server that gives only one take as many calls, and each choice is paid once', async () => {
  const requested = { model: 'up/local', messages: user, n: 3, max_completion_tokens: 300 };
  const whole = await complete(gateway, requested);
  const texts = (choices: readonly { message: { content: string | null } }[]): string[] =>
    choices.map(({ message }) => message.content ?? '').toSorted();
  expect(texts(whole.body.choices)).toEqual(['answer 1', 'answer 2', 'answer 3']);
  expect(whole.body.choices.map(({ index }) => index)).toEqual([0, 1, 2]);
  expect(seen.map(({ body }) => [body['n'], body['max_tokens'], body['max_completion_tokens']])).toEqual(
    seen.map(() => [1, 300, undefined]),
  );
  expect(new Set(seen.map(({ raw }) => raw)).size).toBe(1);
  // 3 × 10 tokens of input, and 1 + 2 + 3 of output.
  expect(whole.body.usage).toMatchObject({ prompt_tokens: 30, completion_tokens: 6, cost: 0.00009 });
  const record = await readRecord(gateway, whole.headers.get('x-request-id') ?? '');
  expect([record.state, record.costNanoUsd]).toEqual([RecordState.COMPLETED, 90_000n]);
  answered = 0;
  const streamed = await stream(gateway, requested);
  const said = [0, 1, 2].map(index =>
    streamed.chunks
      .flatMap(({ choices }) => choices.filter(choice => choice.index === index))
      .map(({ delta }) => delta.content ?? '')
      .join(''),
  );
  expect(said.toSorted()).toEqual(['answer 1', 'answer 2', 'answer 3']);
  expect([streamed.usage?.completion_tokens, streamed.usage?.cost, seen.length]).toEqual([6, 0.00009, 6]);
});

describe('content that the upstream’s protocol can’t express', () => {
  const strict = { 'x-tollgate-strict': 'true' };

  test.each<[string, string, Json, string]>([
    ['Messages to Chat', '/v1/messages', { model: 'up/chat', max_tokens: 50, messages: user, top_k: 5 }, 'top_k'],
    ['Chat to Messages', '/v1/chat/completions', { model: 'up/messages', messages: user, seed: 7 }, 'seed'],
    ['Responses to Gemini', '/v1/responses', { model: 'up/gemini', input: 'hi', my_field: 1 }, 'my_field'],
    ['Chat to Gemini', '/v1/chat/completions', { model: 'up/gemini', messages: user, my_field: 1 }, 'my_field'],
  ])('is listed if only quality may suffer, but refused if the client is strict: %s', async (_, path, body, field) => {
    expect(await send(path, body)).toEqual({
      status: 200,
      warnings: `dropped=${field}`,
      code: undefined,
      param: undefined,
    });
    expect(seen).toHaveLength(1);
    expect(await send(path, body, strict)).toEqual({
      status: 400,
      warnings: null,
      code: 'unsupported_parameter',
      param: field,
    });
    expect(seen).toHaveLength(1);
  });

  test.each<[string, Json, string]>([
    ['Chat to Messages', { model: 'up/messages', messages: user, logit_bias: { 1: 2 } }, 'logit_bias'],
    ['Chat to Gemini', { model: 'up/gemini', messages: user, logit_bias: { 1: 2 } }, 'logit_bias'],
    ['Chat to Messages', { model: 'up/messages', messages: user, logprobs: true }, 'logprobs'],
  ])('is refused if the client would get something else: %s', async (_, body, field) => {
    expect(await send('/v1/chat/completions', body)).toMatchObject({
      status: 400,
      code: 'unsupported_parameter',
      param: field,
    });
    expect(seen).toEqual([]);
  });

  test('is left out silently if it is only a hint, even for a strict client', async () => {
    const hints = { prompt_cache_key: 'k', safety_identifier: 's', user: 'u' };
    for (const model of ['up/messages', 'up/gemini']) {
      const listed = await send('/v1/chat/completions', { model, messages: user, ...hints }, strict);
      expect([listed.status, listed.warnings]).toEqual([200, null]);
    }
    const cached = [{ role: 'user', content: [{ type: 'text', text: 'hi', cache_control: { type: 'ephemeral' } }] }];
    const listed = await send('/v1/messages', { model: 'up/chat', max_tokens: 50, messages: cached }, strict);
    expect([listed.status, listed.warnings]).toEqual([200, null]);
  });
});

test.each([
  ['up/chat', '/v1/messages'],
  ['up/messages', '/v1/chat/completions'],
  ['up/gemini', '/v1/messages'],
  ['up/gemini', '/v1/responses'],
])('the same request is sent as the same bytes each time: %s from %s', async (model, path) => {
  const tool = { type: 'object', properties: { b: { type: 'string' }, a: { type: 'integer' } } };
  const body: Json =
    path === '/v1/responses'
      ? { model, input: 'hi', tools: [{ type: 'function', name: 'f', parameters: tool }] }
      : path === '/v1/messages'
        ? { model, max_tokens: 50, messages: user, tools: [{ name: 'f', input_schema: tool }] }
        : { model, messages: user, tools: [{ type: 'function', function: { name: 'f', parameters: tool } }] };
  for (let time = 0; time < 3; time += 1) expect((await send(path, body)).status).toBe(200);
  expect(seen).toHaveLength(3);
  expect(new Set(seen.map(({ raw }) => raw)).size).toBe(1);
});

describe('a conversation stays with one route', () => {
  const paths = async (path: string, bodies: readonly Json[]): Promise<string[]> => {
    seen.length = 0;
    for (const body of bodies) expect((await send(path, body)).status).toBe(200);
    return seen.map(each => (each.path.startsWith('/other') ? 'other' : 'first'));
  };
  const turns = (start: string): Json[] =>
    [1, 2, 3].map(length => ({
      model: 'up/either',
      messages: Array.from({ length: 2 * length - 1 }, (_, index) => ({
        role: index % 2 === 0 ? 'user' : 'assistant',
        content: `${start} ${index}`,
      })),
    }));

  test('which is the one that answered it first, because its prompt is cached there', async () => {
    const taken = new Set<string>();
    // Each conversation begins with a random route. Once in 8 million runs all 24 begin with the same one.
    for (let index = 0; index < 24; index += 1) {
      const went = new Set(await paths('/v1/chat/completions', turns(`conversation ${index}`)));
      expect(went.size).toBe(1);
      for (const each of went) taken.add(each);
    }
    expect([...taken].toSorted()).toEqual(['first', 'other']);
    const grouped = { model: 'up/either', messages: user, prompt_cache_key: 'one group' };
    expect(
      new Set(
        await paths(
          '/v1/chat/completions',
          Array.from({ length: 8 }, () => grouped),
        ),
      ).size,
    ).toBe(1);
  });

  test('which is the one that can read its encrypted reasoning, even if another route comes first', async () => {
    const from = (provider: string): Json => {
      const signature = toSignature([makeOpaque('gemini.thought_signature', 'S1', provider, '')]);
      return {
        model: 'up/spare',
        max_tokens: 100,
        tools: [{ name: 'f', input_schema: { type: 'object' } }],
        messages: [
          ...user,
          {
            role: 'assistant',
            content: [
              { type: 'thinking', thinking: '', signature },
              { type: 'tool_use', id: 't', name: 'f', input: {} },
            ],
          },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'ok' }] },
        ],
      };
    };
    const bodies = ['other-gemini', 'gemini', 'unheard-of'].map(from);
    expect(await paths('/v1/messages', bodies)).toEqual(['other', 'first', 'first']);
    expect(seen.map(({ raw }) => raw.includes('"thoughtSignature":"S1"'))).toEqual([true, true, false]);
  });
});

test('strict and expose_route take effect at a reload', async () => {
  const body = { model: 'up/chat', max_tokens: 50, messages: user, top_k: 5 };
  const route = async (): Promise<string | null> => {
    const response = await post(gateway, '/v1/chat/completions', { model: 'up/chat', messages: user });
    await response.arrayBuffer();
    return response.headers.get('x-tollgate-route');
  };
  const file = join(gateway.home.folder, 'gateway.yaml');
  expect([(await send('/v1/messages', body)).status, await route()]).toEqual([200, null]);
  writeFileSync(file, config('strict: true\nexpose_route: true'));
  expect((await gateway.admin.reloadConfiguration({})).needsRestart).toEqual([]);
  expect([(await send('/v1/messages', body)).status, await route()]).toEqual([400, 'chat/m']);
  writeFileSync(file, config());
  await gateway.admin.reloadConfiguration({});
  expect([(await send('/v1/messages', body)).status, await route()]).toEqual([200, null]);
});
