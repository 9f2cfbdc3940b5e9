/**
 * Handwritten requests as Claude Code 2.1.330 sends them, to the built-in models and to upstreams of every protocol: a conversation with tools, instructions in its middle, a tool search, an image, a fallback model. None may fail.
 */
import { afterAll, describe, expect, test } from 'vitest';
import { type AgentChain, chainModels, startAgentChain } from './agent-chain.ts';
import { makePng } from './sample-image.ts';

const chain: AgentChain = await startAgentChain();
afterAll(() => chain.end());

type Json = Readonly<Record<string, unknown>>;

interface Block {
  readonly type: string;
  readonly id?: string;
  readonly name?: string;
  readonly input?: unknown;
  readonly text?: string;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly blocks: readonly Block[];
  readonly stopReason: string | undefined;
  readonly error: Json | undefined;
}

const headers = {
  'content-type': 'application/json',
  authorization: `Bearer ${chain.gateway.apiKey}`,
  'anthropic-version': '2023-06-01',
  'anthropic-beta':
    'claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,effort-2025-11-24',
  'x-app': 'cli',
  'user-agent': 'claude-cli/2.1.330 (external, cli)',
};
const cached = { cache_control: { type: 'ephemeral', ttl: '1h', scope: 'global' } };
const schema = (property: string): Json => ({
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  properties: { [property]: { type: 'string' } },
  required: [property],
  additionalProperties: false,
});
const bash = {
  name: 'Bash',
  description: 'Runs a command.',
  input_schema: schema('command'),
  eager_input_streaming: true,
};
const search = { name: 'ToolSearch', description: 'Finds tools.', input_schema: schema('query') };
const deferred = { name: 'WebFetch', description: 'Fetches a page.', input_schema: schema('url'), defer_loading: true };
const hosted = { type: 'web_search_20260209', name: 'web_search', max_uses: 8 };

/** Returns a body as the agent writes it. */
function makeBody(model: string, messages: readonly unknown[]): Json {
  return {
    model,
    max_tokens: 8_000,
    stream: true,
    system: [
      { type: 'text', text: 'You are Claude Code, Anthropic’s official CLI for Claude.', ...cached },
      { type: 'text', text: 'Be concise.' },
    ],
    messages,
    tools: [bash, search, deferred, hosted],
    thinking: { type: 'adaptive', display: 'updates' },
    output_config: { effort: 'high' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
    metadata: { user_id: '{"device_id":"d","account_uuid":"","session_id":"s"}' },
  };
}

async function post(path: string, body: Json): Promise<Response> {
  return fetch(`${chain.gateway.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
}

/** Sends a request, and reads the stream as the agent does: it builds blocks from their deltas. */
async function ask(model: string, messages: readonly unknown[]): Promise<Answer> {
  const response = await post('/v1/messages?beta=true', makeBody(model, messages));
  const text = await response.text();
  const { status, headers: seen } = response;
  if (status !== 200) {
    const { error } = JSON.parse(text) as { error: Json };
    return { status, headers: seen, blocks: [], stopReason: undefined, error };
  }
  const blocks: (Block & { json: string })[] = [];
  let stopReason: string | undefined;
  for (const line of text.split('\n').filter(each => each.startsWith('data: '))) {
    const event = JSON.parse(line.slice(6)) as {
      type: string;
      content_block?: Block;
      error?: Json;
      delta?: { text?: string; partial_json?: string; thinking?: string; signature?: string; stop_reason?: string };
    };
    if (event.error !== undefined) return { status, headers: seen, blocks, stopReason, error: event.error };
    if (event.content_block !== undefined) blocks.push({ ...event.content_block, json: '' });
    const open = blocks.at(-1) as (Record<string, string> & { json: string }) | undefined;
    stopReason = event.delta?.stop_reason ?? stopReason;
    if (open === undefined || event.type !== 'content_block_delta') continue;
    open.json += event.delta?.partial_json ?? '';
    for (const name of ['text', 'thinking', 'signature'] as const) {
      const added = event.delta?.[name];
      if (added !== undefined) open[name] = `${open[name] ?? ''}${added}`;
    }
  }
  const whole = blocks.map(({ json, ...block }) =>
    json === '' ? block : { ...block, input: JSON.parse(json) as Json },
  );
  return { status, headers: seen, blocks: whole, stopReason, error: undefined };
}

const findCall = ({ blocks }: Answer): Block => {
  const call = blocks.find(({ type }) => type === 'tool_use');
  if (call === undefined) throw new Error(`no call in ${JSON.stringify(blocks)}`);
  return call;
};
const readText = ({ blocks }: Answer): string => blocks.map(({ text = '' }) => text).join('');
const makeResult = (call: Block, content: unknown): Json => ({
  role: 'user',
  content: [{ type: 'tool_result', tool_use_id: call.id, content, ...cached }],
});

const question = {
  role: 'user',
  content: [
    { type: 'text', text: '<system-reminder>\nToday is Sunday.\n</system-reminder>' },
    { type: 'text', text: 'Run the Bash command to list files.', ...cached },
  ],
};
const midSystem = {
  role: 'system',
  content: [{ type: 'text', text: 'The user has opened main.ts. Run the requested Bash command.', ...cached }],
};

describe.each(chainModels)('on %s', model => {
  test('a conversation of five turns has no error', async () => {
    const messages: unknown[] = [question, midSystem];
    const first = await ask(model, messages);
    expect([first.status, first.error, first.stopReason]).toEqual([200, undefined, 'tool_use']);
    expect(findCall(first).name).toBe('Bash');

    messages.push({ role: 'assistant', content: first.blocks }, makeResult(findCall(first), 'a.txt b.txt'));
    const second = await ask(model, messages);
    expect([second.status, second.error, second.stopReason]).toEqual([200, undefined, 'end_turn']);
    expect(readText(second)).toContain('a.txt b.txt');

    messages.push(
      { role: 'assistant', content: second.blocks },
      { role: 'user', content: 'Call ToolSearch with a query about pages.' },
      { role: 'system', content: 'Instructions in the middle: call ToolSearch with the query.' },
    );
    const third = await ask(model, messages);
    expect([third.error, third.stopReason, findCall(third).name]).toEqual([undefined, 'tool_use', 'ToolSearch']);

    messages.push(
      { role: 'assistant', content: third.blocks },
      makeResult(findCall(third), [{ type: 'tool_reference', tool_name: 'WebFetch' }]),
      { role: 'user', content: 'Call WebFetch with the url https://example.com to fetch the page.' },
    );
    const fourth = await ask(model, messages);
    expect([fourth.error, fourth.stopReason, findCall(fourth).name]).toEqual([undefined, 'tool_use', 'WebFetch']);

    const data = (await makePng(2, 2, 'red')).toString('base64');
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } };
    messages.push(
      { role: 'assistant', content: fourth.blocks },
      makeResult(findCall(fourth), [{ type: 'text', text: 'A page.' }, image]),
      {
        role: 'assistant',
        content: [
          { type: 'fallback', from: { model: 'claude-opus-5' }, to: { model: 'claude-sonnet-5' } },
          { type: 'text', text: 'Done.' },
        ],
      },
      { role: 'user', content: 'Thank you.' },
    );
    const fifth = await ask(model, messages);
    expect([fifth.status, fifth.error]).toEqual([200, undefined]);
    expect(readText(fifth)).not.toBe('');
  });

  test('the tokens of a conversation can be counted', async () => {
    const { max_tokens: _, stream: __, ...body } = makeBody(model, [question, midSystem]);
    const answer = await post('/v1/messages/count_tokens?beta=true', body);
    expect(answer.status).toBe(200);
    expect(((await answer.json()) as { input_tokens: number }).input_tokens).toBeGreaterThan(100);
  });

  test('a deferred tool is not called before a tool search has found it', async () => {
    const answer = await ask(model, [
      { role: 'user', content: 'Call WebFetch with the url https://example.com to fetch the page.' },
    ]);
    expect([answer.error, answer.blocks.some(({ name }) => name === 'WebFetch')]).toEqual([undefined, false]);
  });
});

describe('requests to upstreams', () => {
  const translated = ['via/chat', 'via/responses', 'via/gemini'] as const;

  test('a Messages upstream gets the request unchanged, with beta headers', async () => {
    const messages = [question, midSystem];
    await ask('via/messages', messages);
    // The user id is made unique to the account, and the tool that costs extra is left out because it has no price here.
    const { model: _, max_tokens: __, metadata: ___, tools, ...requested } = makeBody('via/messages', messages);
    expect(chain.sent('via/messages')).toMatchObject({ ...requested, tools: (tools as unknown[]).slice(0, 3) });
    expect(chain.sentHeaders('via/messages')['anthropic-beta']).toBe(headers['anthropic-beta']);
  });

  test.each(translated)(
    '%s gets instructions at their position and no hosted or deferred tool, and the client gets a warning',
    async model => {
      const { headers: answerHeaders } = await ask(model, [question, midSystem, { role: 'user', content: 'Go on.' }]);
      const text = chain.sentText(model);
      expect(text.indexOf('list files')).toBeLessThan(text.indexOf('opened main.ts'));
      expect(text.indexOf('opened main.ts')).toBeLessThan(text.indexOf('Go on.'));
      expect(text).toContain('ToolSearch');
      expect(text).not.toMatch(/WebFetch|web_search/);
      expect(answerHeaders.get('x-tollgate-warnings')).toContain('tools.web_search_20260209');
      expect(answerHeaders.get('x-tollgate-warnings')).toContain('context_management');
    },
  );

  test.each(translated)('%s: an unknown role is refused with Anthropic’s own message', async model => {
    const answer = await ask(model, [question, { role: 'critic', content: 'Hm.' }]);
    expect([answer.status, answer.error?.['code'], answer.error?.['type']]).toEqual([
      400,
      'unsupported_feature',
      'invalid_request_error',
    ]);
    expect(answer.error?.['message']).toBe("messages.1.role: Input should be 'user' or 'assistant'");
  });
});

test('the path that the agent probes before its first request is answered', async () => {
  for (const method of ['HEAD', 'GET']) {
    const answer = await fetch(`${chain.gateway.url}/api/hello`, { method });
    expect(answer.status).toBe(200);
  }
});

test('errors on all paths of the agent have the envelope of Messages and tell it not to retry', async () => {
  for (const [path, method] of [
    ['/v1/files', 'GET'],
    ['/v1/skills?beta=true', 'GET'],
    ['/v1/models/none', 'GET'],
    ['/api/claude_cli/bootstrap', 'GET'],
    ['/v1/messages', 'POST'],
  ] as const) {
    const answer = await fetch(`${chain.gateway.url}${path}`, {
      method,
      headers,
      ...(method === 'POST' ? { body: '{' } : {}),
    });
    const { type, error } = (await answer.json()) as { type: string; error: Json };
    expect([path, type, answer.headers.get('x-should-retry')]).toEqual([path, 'error', 'false']);
    expect(error['type']).toBe(answer.status === 404 ? 'not_found_error' : 'invalid_request_error');
  }
});

test('a refusal and a full context have the stop reasons of Messages', async () => {
  const said = async (line: string, version: boolean): Promise<unknown> => {
    const { 'anthropic-version': named, ...rest } = headers;
    const answer = await fetch(`${chain.gateway.url}/v1/messages`, {
      method: 'POST',
      headers: version ? { ...rest, 'anthropic-version': named } : rest,
      body: JSON.stringify({ model: 'sim/large', max_tokens: 100, messages: [{ role: 'user', content: line }] }),
    });
    return ((await answer.json()) as { stop_reason: string }).stop_reason;
  };
  expect(await said('!sim finish=refusal', true)).toBe('refusal');
  expect(await said('!sim finish=refusal', false)).toBe('content_filter');
  expect(await said('!sim finish=context_window', true)).toBe('model_context_window_exceeded');
  expect(await said('!sim finish=context_window', false)).toBe('max_tokens');
});
