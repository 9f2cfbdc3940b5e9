/** Tools in a form that only the models of one provider know. For other models they are converted to plain functions, and the calls are converted back. */
import { afterAll, describe, expect, test } from 'vitest';
import { type AgentChain, startAgentChain } from './agent-chain.ts';

const chain: AgentChain = await startAgentChain();
afterAll(() => chain.end());

type Json = Readonly<Record<string, unknown>>;

async function post(path: string, body: Json): Promise<Json> {
  const response = await fetch(`${chain.gateway.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${chain.gateway.apiKey}` },
    body: JSON.stringify(body),
  });
  return (await response.json()) as Json;
}

/** Sends a request, and returns the added items and the final response of its stream. */
async function stream(body: Json): Promise<{ readonly added: readonly Json[]; readonly response: Json }> {
  const response = await fetch(`${chain.gateway.url}/v1/responses`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${chain.gateway.apiKey}` },
    body: JSON.stringify({ ...body, stream: true }),
  });
  const events = (await response.text())
    .split('\n')
    .filter(line => line.startsWith('data: {'))
    .map(line => JSON.parse(line.slice(6)) as { type: string; item?: Json; response?: Json });
  const added = events.flatMap(({ type, item }) => (type === 'response.output_item.added' && item ? [item] : []));
  return { added, response: events.at(-1)?.response ?? {} };
}

/** Returns the output without reasoning items, in which Gemini’s signatures are. */
const readOutput = (response: Json): readonly Json[] =>
  (response['output'] as Json[]).filter(item => item['type'] !== 'reasoning');

describe.each(['sim/large', 'via/chat', 'via/messages', 'via/gemini'] as const)('on %s', model => {
  test.each([
    ['shell', 'shell_call', 'action', { commands: expect.any(Array) as unknown }],
    ['local_shell', 'local_shell_call', 'action', { type: 'exec', command: expect.any(Array) as unknown }],
    ['apply_patch', 'apply_patch_call', 'operation', { type: 'create_file', path: expect.any(String) as unknown }],
  ])('a call of %s is a %s, and continues with its result', async (type, callType, member, expected) => {
    const tools = [{ type }];
    const question = { role: 'user', content: '!sim calls=1' };
    const first = await stream({ model, input: [question], tools, store: false });
    const [call] = readOutput(first.response);
    expect(call).toMatchObject({ type: callType, call_id: expect.any(String) as unknown, status: 'completed' });
    expect(call?.[member]).toMatchObject(expected);
    expect(first.added.filter(item => item['type'] !== 'reasoning')).toEqual(readOutput(first.response));

    const output =
      type === 'shell' ? [{ stdout: 'It worked.', stderr: '', outcome: { type: 'exit', exit_code: 0 } }] : 'It worked.';
    const result = {
      type: `${callType}_output`,
      ...(type === 'local_shell' ? { id: call?.['call_id'] } : { call_id: call?.['call_id'] }),
      ...(type === 'apply_patch' ? { status: 'completed' } : {}),
      output,
    };
    const second = await post('/v1/responses', { model, input: [question, call, result], tools, store: false });
    expect(JSON.stringify(readOutput(second))).toContain('It worked.');
  });

  test('a tool search that the client runs finds a deferred tool, which can then be called', async () => {
    const found = {
      type: 'function',
      name: 'fetch_page',
      description: 'Fetches a page.',
      parameters: { type: 'object' },
      defer_loading: true,
    };
    const tools = [
      { type: 'tool_search', execution: 'client', description: 'Finds tools.', parameters: { type: 'object' } },
      found,
    ];
    const question = { role: 'user', content: '!sim calls=1' };
    const first = await post('/v1/responses', { model, input: [question], tools, store: false });
    const [search] = readOutput(first);
    expect(search).toMatchObject({ type: 'tool_search_call', execution: 'client' });
    const result = {
      type: 'tool_search_output',
      call_id: search?.['call_id'],
      execution: 'client',
      status: 'completed',
      tools: [found],
    };
    // In Messages, the result and this text are one user message, for which the simulator calls a tool only if the text requests it.
    const again = { role: 'user', content: 'Fetch the page.\n!sim calls=1' };
    const second = await post('/v1/responses', {
      model,
      input: [question, search, result, again],
      tools,
      store: false,
    });
    expect(readOutput(second)[0]).toMatchObject({ type: 'function_call', name: 'fetch_page' });
  });
});

describe.each(['sim/large', 'via/chat', 'via/responses', 'via/gemini'] as const)('on %s', model => {
  test.each([
    ['bash_20250124', 'bash', { command: expect.any(String) as unknown }],
    ['text_editor_20250728', 'str_replace_based_edit_tool', { command: 'view', path: expect.any(String) as unknown }],
    ['memory_20250818', 'memory', { command: 'view' }],
    ['computer_20250124', 'computer', { action: expect.any(String) as unknown }],
  ])('%s is called as a plain tool', async (type, name, input) => {
    const body = {
      model,
      max_tokens: 500,
      tools: [{ type, name }],
      messages: [{ role: 'user', content: '!sim calls=1' }],
    };
    const answer = await post('/v1/messages', body);
    // Gemini’s signatures come as reasoning items before the calls.
    const called = (answer['content'] as Json[]).filter(block => block['type'] !== 'thinking');
    expect(called).toMatchObject([{ type: 'tool_use', name, input }]);
  });
});

test('an upstream of the protocol that defines the tools gets them unchanged', async () => {
  const tools = [{ type: 'bash_20250124', name: 'bash' }];
  const messages = [{ role: 'user', content: 'Hi' }];
  await post('/v1/messages', { model: 'via/messages', max_tokens: 500, tools, messages });
  expect(chain.sent('via/messages')['tools']).toEqual(tools);
  const shell = [{ type: 'shell', environment: { type: 'local' } }];
  await post('/v1/responses', { model: 'via/responses', input: 'Hi', tools: shell, store: false });
  expect(chain.sent('via/responses')['tools']).toEqual(shell);
});
