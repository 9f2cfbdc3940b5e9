/**
 * Handwritten requests as Codex 0.169 sends them by default, to the built-in models and to upstreams of every protocol, over HTTP and WebSocket: with
 * namespaces of tools, hosted tools, and tool outputs without a call.
 */
import { afterAll, describe, expect, test } from 'vitest';
import { readBalance } from '../gateway.ts';
import { type AgentChain, chainModels, startAgentChain } from './agent-chain.ts';
import { SocketClient } from './socket-client.ts';

const chain: AgentChain = await startAgentChain();
afterAll(() => chain.end());

type Json = Readonly<Record<string, unknown>>;

interface OutputItem {
  readonly type: string;
  readonly call_id?: string;
  readonly name?: string;
  readonly namespace?: string;
  readonly arguments?: string;
  readonly content?: readonly { readonly text?: string }[];
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly output: readonly OutputItem[];
  readonly error: Json | undefined;
  /** The items of the `response.output_item.added` events. */
  readonly added: readonly OutputItem[];
}

const parameters = (property: string): Json => ({
  type: 'object',
  properties: { [property]: { type: 'string' } },
  required: [property],
  additionalProperties: false,
});
const tools = [
  {
    type: 'function',
    name: 'exec_command',
    description: 'Runs a command in a PTY.',
    strict: false,
    parameters: parameters('cmd'),
  },
  {
    type: 'custom',
    name: 'apply_patch',
    description: 'Edits files.',
    format: { type: 'grammar', syntax: 'lark', definition: 'start: "*** Begin Patch"' },
  },
  {
    type: 'namespace',
    name: 'mcp__docs__',
    description: 'Tools in the mcp__docs__ namespace.',
    tools: [
      {
        type: 'function',
        name: 'search',
        description: 'Looks into the manual.',
        strict: false,
        parameters: parameters('topic'),
      },
      { type: 'function', name: 'exec_command', description: 'Prints a chapter.', parameters: parameters('chapter') },
    ],
  },
  { type: 'web_search', external_web_access: false },
  { type: 'image_generation', output_format: 'png' },
];

function makeBody(model: string, input: readonly unknown[], more: Json = {}): Json {
  return {
    model,
    instructions: 'You are Codex, a coding agent.',
    input,
    tools,
    tool_choice: 'auto',
    parallel_tool_calls: true,
    reasoning: { effort: 'medium', summary: 'auto' },
    store: false,
    stream: true,
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: '0197a9d4-0000-7000-8000-000000000000',
    text: { verbosity: 'low' },
    client_metadata: { 'x-codex-installation-id': 'i', 'x-codex-turn-metadata': '{"turn_id":"t"}' },
    ...more,
  };
}

async function ask(model: string, input: readonly unknown[], more: Json = {}): Promise<Answer> {
  const response = await fetch(`${chain.gateway.url}/v1/responses`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${chain.gateway.apiKey}`,
      'openai-beta': 'responses=experimental',
      originator: 'codex_cli_rs',
      session_id: '0197a9d4-0000-7000-8000-000000000000',
    },
    body: JSON.stringify(makeBody(model, input, more)),
  });
  const text = await response.text();
  const { status, headers } = response;
  if (status !== 200) {
    return { status, headers, output: [], added: [], error: (JSON.parse(text) as { error: Json }).error };
  }
  const events = text
    .split('\n')
    .filter(line => line.startsWith('data: {'))
    .map(
      line =>
        JSON.parse(line.slice(6)) as {
          type: string;
          item?: OutputItem;
          response?: { output: OutputItem[]; error: Json };
        },
    );
  const last = events.at(-1)?.response;
  const added = events.flatMap(({ type, item }) => (type === 'response.output_item.added' && item ? [item] : []));
  return { status, headers, output: last?.output ?? [], added, error: last?.error ?? undefined };
}

const user = (text: string): Json => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] });
const developer = {
  type: 'message',
  role: 'developer',
  content: [{ type: 'input_text', text: '<permissions instructions>Workspace write.</permissions instructions>' }],
};
const findCall = ({ output }: Pick<Answer, 'output'>): OutputItem => {
  const call = output.find(({ type }) => type === 'function_call');
  if (call === undefined) throw new Error(`no call in ${JSON.stringify(output)}`);
  return call;
};
const makeResult = (call: OutputItem, output: unknown): Json => ({
  type: 'function_call_output',
  call_id: call.call_id,
  output,
});
const readText = ({ output }: Pick<Answer, 'output'>): string =>
  output.flatMap(({ content = [] }) => content.map(({ text = '' }) => text)).join('');

describe.each(chainModels)('on %s', model => {
  test('a conversation of five turns has no error', async () => {
    const input: unknown[] = [developer, user('Run a command in the PTY: exec command ls.')];
    const first = await ask(model, input);
    expect([first.status, first.error]).toEqual([200, undefined]);
    expect([findCall(first).name, findCall(first).namespace]).toEqual(['exec_command', undefined]);

    input.push(...first.output, makeResult(findCall(first), 'a.txt b.txt'));
    const second = await ask(model, input);
    expect([second.error, readText(second)]).toEqual([undefined, expect.stringContaining('a.txt b.txt')]);

    input.push(...second.output, user('Search the manual for the topic sandboxes.'));
    const third = await ask(model, input);
    expect([third.error, findCall(third)]).toMatchObject([undefined, { name: 'search', namespace: 'mcp__docs__' }]);
    // The streamed event has the namespace, too.
    expect(findCall({ output: third.added })).toMatchObject({ name: 'search', namespace: 'mcp__docs__' });

    input.push(...third.output, makeResult(findCall(third), [{ type: 'input_text', text: 'Sandboxes are boxes.' }]));
    const fourth = await ask(model, input);
    expect([fourth.error, readText(fourth)]).toEqual([undefined, expect.stringContaining('Sandboxes are boxes.')]);

    input.push(
      ...fourth.output,
      { type: 'function_call_output', name: 'watch', namespace: 'mcp__docs__', output: 'The manual has changed.' },
      user('What is new?'),
    );
    const fifth = await ask(model, input);
    expect([fifth.status, fifth.error]).toEqual([200, undefined]);
    expect(readText(fifth)).not.toBe('');
  });

  test('a tool in a namespace is distinguished from a top-level tool of the same name', async () => {
    const answer = await ask(model, [user('Print a chapter of the book: exec command.')]);
    expect(findCall(answer)).toMatchObject({ name: 'exec_command', namespace: 'mcp__docs__' });
  });

  test('a WebSocket session with tools continues from a response that was prepared free of charge', async () => {
    const before = await readBalance(chain.gateway);
    const socket = await SocketClient.open(chain.gateway.url, chain.gateway.apiKey);
    const prepared = await socket.ask(makeBody(model, [developer], { generate: false }));
    if ('error' in prepared) throw new Error(JSON.stringify(prepared.error));
    expect(prepared.response).toMatchObject({ status: 'completed', output: [], usage: { input_tokens: 0, cost: 0 } });
    expect(await readBalance(chain.gateway)).toBe(before);

    const previous = (id: string): Json => ({ previous_response_id: id });
    const input = [user('Search the manual for the topic sandboxes.')];
    const first = await socket.ask(makeBody(model, input, previous(prepared.response.id)));
    if ('error' in first) throw new Error(JSON.stringify(first.error));
    const call = findCall(first.response);
    expect(call).toMatchObject({ name: 'search', namespace: 'mcp__docs__' });

    const second = await socket.ask(makeBody(model, [makeResult(call, 'Boxes.')], previous(first.response.id)));
    if ('error' in second) throw new Error(JSON.stringify(second.error));
    expect(readText(second.response)).toContain('Boxes.');
    await socket.close();
    expect(await readBalance(chain.gateway)).toBeLessThan(before);
  });
});

describe('requests to upstreams', () => {
  test('a Responses upstream gets tools, items and unknown members unchanged', async () => {
    const input = [developer, { type: 'function_call_output', name: 'watch', output: 'Changed.' }, user('Hello?')];
    await ask('via/responses', input);
    // The cache key is made unique to the account, and hosted tools are left out because they have no price here.
    const { model: _, prompt_cache_key: __, ...unchanged } = makeBody('via/responses', input);
    expect(chain.sent('via/responses')).toMatchObject({ ...unchanged, tools: tools.slice(0, 3) });
  });

  test.each(['via/chat', 'via/messages', 'via/gemini'] as const)(
    '%s gets the tools of a namespace as plain tools, no hosted tools, and a tool output without a call as text',
    async model => {
      const { headers } = await ask(model, [
        developer,
        user('Hello.'),
        { type: 'function_call_output', name: 'watch', output: 'The manual has changed.' },
        user('Well?'),
      ]);
      const text = chain.sentText(model);
      expect(text).toContain('"mcp__docs__search"');
      expect(text).toContain('"mcp__docs__exec_command"');
      expect(text).toContain('Output of the tool watch:');
      expect(text).not.toMatch(/web_search|image_generation/);
      expect(headers.get('x-tollgate-warnings')).toMatch(/tools\.web_search,tools\.image_generation/);
      expect(headers.get('x-tollgate-warnings')).toContain('client_metadata');
    },
  );

  test.each(['via/chat', 'via/messages', 'via/gemini', 'sim/large'] as const)(
    '%s: a request whose `tool_choice` names a hosted tool is refused',
    async model => {
      const answer = await ask(model, [user('Search.')], { tool_choice: { type: 'web_search' } });
      expect([answer.status, answer.error?.['code'], answer.error?.['param']]).toEqual([
        400,
        'unsupported_feature',
        'tool_choice',
      ]);
    },
  );

  test('a Responses upstream gets tool results in place; for other upstreams they are moved next to their calls', async () => {
    const call = { type: 'function_call', call_id: 'call_1', name: 'exec_command', arguments: '{"cmd":"ls"}' };
    const input = [
      user('List.'),
      call,
      user('Are you there?'),
      { type: 'function_call_output', call_id: 'call_1', output: 'a.txt' },
    ];
    for (const model of chainModels) expect([model, (await ask(model, input)).error]).toEqual([model, undefined]);
    expect(chain.sent('via/responses')['input']).toEqual(input);
    const roles = (chain.sent('via/chat')['messages'] as { role: string }[]).map(({ role }) => role);
    expect(roles).toEqual(['system', 'user', 'assistant', 'tool', 'user']);
  });
});

test('tool results of a Chat client are moved next to their calls for a Chat upstream, too', async () => {
  const calls = ['a', 'b'].map(id => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } }));
  const [first, calling, between] = [
    { role: 'user', content: 'Go.' },
    { role: 'assistant', content: null, tool_calls: calls },
    { role: 'user', content: 'Are you there?' },
  ];
  const [a, b] = ['a', 'b'].map(id => ({ role: 'tool', tool_call_id: id, content: `said ${id}` }));
  const response = await fetch(`${chain.gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${chain.gateway.apiKey}` },
    body: JSON.stringify({ model: 'via/chat', messages: [first, calling, b, between, a] }),
  });
  expect(response.status).toBe(200);
  expect(chain.sent('via/chat')['messages']).toEqual([first, calling, a, b, between]);
});

test('`generate` must be a boolean over a WebSocket, and is ignored with a warning over HTTP', async () => {
  const socket = await SocketClient.open(chain.gateway.url, chain.gateway.apiKey);
  const answer = await socket.ask(makeBody('sim/large', [user('Hi')], { generate: 'no' }));
  expect(answer).toMatchObject({ error: { status: 422, error: { code: 'validation_error', param: 'generate' } } });
  await socket.close();
  const { headers } = await ask('sim/large', [user('Hi')], { generate: false });
  expect(headers.get('x-tollgate-warnings')).toContain('generate');
});
