/** Requests from Chat to Messages upstreams, and from Messages to upstreams of both protocols: the cases of `test/translation/cases.json`, by their ids. */
import { describe, expect, test } from 'vitest';
import type { EncodedRequest, JsonObject } from '../../src/codecs/codec.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import {
  calling,
  chatCall,
  fromChat,
  functionTool,
  refusal,
  result,
  same,
  toChat,
  user,
} from './messages-translate.ts';

describe('tools and results, Chat to Messages', () => {
  test('TR-01: results of parallel calls are one user message, in their order', () => {
    const { body } = fromChat({ messages: [user(), calling(chatCall('a'), chatCall('b')), result('a'), result('b')] });
    expect(body['messages']).toEqual([
      { role: 'user', content: 'hi' },
      {
        role: 'assistant',
        content: [
          { type: 'tool_use', id: 'a', name: 'f', input: {} },
          { type: 'tool_use', id: 'b', name: 'f', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a', content: 'done' },
          { type: 'tool_result', tool_use_id: 'b', content: 'done' },
        ],
      },
    ]);
  });

  test('TR-02: what the user says after a result follows it in the same message', () => {
    const { body } = fromChat({ messages: [user(), calling(chatCall('a')), result('a'), user('also')] });
    expect((body['messages'] as JsonObject[]).at(-1)).toEqual({
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'a', content: 'done' },
        { type: 'text', text: 'also' },
      ],
    });
  });

  test('TR-08: an id with other characters is mapped in the same way in call and result, and in every request', () => {
    const messages = [user(), calling(chatCall('functions.f:0')), result('functions.f:0')];
    const [, call, answer] = fromChat({ messages }).body['messages'] as { content: JsonObject[] }[];
    const id = call?.content[0]?.['id'];
    expect(id).toMatch(/^[a-zA-Z0-9_-]+$/);
    expect(answer).toMatchObject({ content: [{ tool_use_id: id }] });
    expect(fromChat({ messages })).toEqual(fromChat({ messages }));
  });

  test('TR-10: an id that is used again is made unique, and its result gets the same one', () => {
    const round = [calling(chatCall('call_0')), result('call_0')];
    const messages = fromChat({ messages: [user(), ...round, ...round] }).body['messages'] as JsonObject[];
    const ids = messages.flatMap(({ content }) =>
      Array.isArray(content)
        ? content.map(block => (block as JsonObject)['id'] ?? (block as JsonObject)['tool_use_id'])
        : [],
    );
    expect(ids).toEqual(['call_0', 'call_0', 'call_0_2', 'call_0_2']);
  });

  test('TR-17: arguments that are not an object are sent as text and listed; absent ones are an empty object', () => {
    const { body, dropped } = fromChat({
      messages: [user(), calling(chatCall('a', '{"a":'), chatCall('b', '')), result('a'), result('b')],
    });
    expect((body['messages'] as JsonObject[])[1]).toMatchObject({
      content: [{ input: { _unparsed: '{"a":' } }, { input: {} }],
    });
    expect(dropped).toEqual(['arguments']);
  });

  test.each([
    ['CH-01', 'required', { type: 'any' }],
    ['CH-01', 'none', { type: 'none' }],
    ['CH-02', { type: 'function', function: { name: 'f' } }, { type: 'tool', name: 'f' }],
  ])('%s: tool_choice %j', (_, choice, expected) => {
    const { body } = fromChat({ messages: [user()], tools: [functionTool()], tool_choice: choice });
    expect(body['tool_choice']).toEqual(expected);
  });

  test('CH-04: of allowed tools only those are offered', () => {
    const other = { type: 'function', function: { name: 'g' } };
    const { body } = fromChat({
      messages: [user()],
      tools: [functionTool(), other],
      tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [other] } },
    });
    expect(body).toMatchObject({ tools: [{ name: 'g' }], tool_choice: { type: 'auto' } });
    expect(body['tools']).toHaveLength(1);
  });

  test('CH-05: parallel_tool_calls false is sent with the tool choice', () => {
    const { body } = fromChat({ messages: [user()], tools: [functionTool()], parallel_tool_calls: false });
    expect(body['tool_choice']).toEqual({ type: 'auto', disable_parallel_tool_use: true });
  });

  test('CH-07: a model without forced calls refuses them, naming the field', () => {
    const body = { messages: [user()], tools: [functionTool()], tool_choice: 'required' };
    expect(refusal(() => fromChat(body, { model: 'claude-opus-5-5' }))).toBe('unsupported_parameter tool_choice');
  });

  test('CH-10: a tool without parameters has an object schema', () => {
    const tools = [functionTool(), { type: 'function', function: { name: 'g', parameters: { properties: {} } } }];
    expect(fromChat({ messages: [user()], tools }).body['tools']).toEqual([
      { name: 'f', input_schema: { type: 'object', properties: {} } },
      { name: 'g', input_schema: { type: 'object', properties: {} } },
    ]);
  });
});

test('CH-11: a custom tool becomes a function with one string, and so do its earlier calls', () => {
  const custom = { id: 'a', type: 'custom', custom: { name: 'patch', input: 'x' } };
  const { body, dropped } = fromChat({
    messages: [user(), calling(custom), result('a')],
    tools: [{ type: 'custom', custom: { name: 'patch', format: { type: 'grammar', grammar: {} } } }],
  });
  const schema = { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] };
  expect(body['tools']).toEqual([{ name: 'patch', input_schema: schema }]);
  expect((body['messages'] as JsonObject[])[1]).toMatchObject({ content: [{ name: 'patch', input: { input: 'x' } }] });
  expect(dropped).toEqual(['tools.0.custom.format']);
});

describe('roles, media and forms, Chat to Messages', () => {
  test('RO-02: system messages are blocks of the system prompt, in order', () => {
    const { body } = fromChat({
      messages: [{ role: 'system', content: 'a' }, { role: 'developer', content: 'b' }, user()],
    });
    expect(body['system']).toEqual([
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ]);
  });

  test('RO-01: a system message in the middle becomes a user text, and is listed', () => {
    const { body, dropped } = fromChat({ messages: [user(), { role: 'system', content: 'be brief' }, user('go')] });
    expect((body['messages'] as JsonObject[])[1]).toEqual({
      role: 'user',
      content: '<system-reminder>\nbe brief\n</system-reminder>',
    });
    expect(dropped).toEqual(['messages']);
  });

  test('RO-08: a last message of the assistant is refused', () => {
    expect(refusal(() => fromChat({ messages: [user(), { role: 'assistant', content: 'So' }] }))).toBe(
      'unsupported_parameter messages',
    );
  });

  const image = (url: string): JsonObject => user([{ type: 'image_url', image_url: { url, detail: 'auto' } }]);
  test.each([
    [
      'ME-01',
      'data:image/png;base64,/9j/4AAQSkZJRg==',
      { type: 'base64', media_type: 'image/jpeg', data: '/9j/4AAQSkZJRg==' },
    ],
    ['ME-02', 'data:image/jpg;base64,AAAA', { type: 'base64', media_type: 'image/jpeg', data: 'AAAA' }],
    ['ME-04, ME-05', 'https://a.example/b.png', { type: 'url', url: 'https://a.example/b.png' }],
  ])('%s: %s', (_, url, source) => {
    expect(fromChat({ messages: [image(url)] }).body['messages']).toEqual([
      { role: 'user', content: [{ type: 'image', source }] },
    ]);
  });

  test('ME-02: an image of a type that the protocol does not have is refused', () => {
    expect(refusal(() => fromChat({ messages: [image('data:image/svg+xml;base64,AAAA')] }))).toBe(
      'unsupported_parameter messages',
    );
  });

  test('ME-08: a text file is a text document, another format is refused', () => {
    const file = (type: string): JsonObject => ({
      messages: [user([{ type: 'file', file: { filename: 'a', file_data: `data:${type};base64,YSxi` } }])],
    });
    expect(fromChat(file('text/csv')).body['messages']).toMatchObject([
      { content: [{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'a,b' }, title: 'a' }] },
    ]);
    expect(refusal(() => fromChat(file('application/msword')))).toBe('unsupported_parameter messages');
  });

  test('ME-11: audio is refused', () => {
    const audio = user([{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }]);
    expect(refusal(() => fromChat({ messages: [audio] }))).toBe('unsupported_parameter messages');
  });

  test('JS-02: a schema is sent in the native format, also together with tools', () => {
    const schema = { type: 'object', properties: {} };
    const format = { type: 'json_schema', json_schema: { name: 'x', schema } };
    const { body } = fromChat({ messages: [user()], tools: [functionTool()], response_format: format });
    expect(body['output_config']).toEqual({ format: { type: 'json_schema', schema } });
    expect(body['tools']).toHaveLength(1);
  });

  test('JS-09: a JSON object without a schema is requested by an instruction, and listed', () => {
    const { body, dropped } = fromChat({ messages: [user()], response_format: { type: 'json_object' } });
    expect(body['system']).toMatch(/JSON object/);
    expect(body).not.toHaveProperty('tools');
    expect(dropped).toEqual(['response_format']);
  });

  test.each([
    ['MI-02', { logprobs: true }, 'unsupported_parameter logprobs'],
    ['MI-03', { logit_bias: { '1': 1 } }, 'unsupported_parameter logit_bias'],
    ['C4', { modalities: ['text', 'audio'], audio: { voice: 'a' } }, 'unsupported_parameter modalities'],
    ['C4', { web_search_options: {} }, 'unsupported_parameter web_search_options'],
  ])('%s: %j is refused', (_, more, expected) => {
    expect(refusal(() => fromChat({ messages: [user()], ...more }))).toBe(expected);
  });

  test('C4: hints that only one protocol has are dropped silently, and so is response_format text', () => {
    const hints = { modalities: ['text'], prompt_cache_retention: '24h', safety_identifier: 's', user: 'u' };
    const { body, dropped } = fromChat({ messages: [user()], ...hints, verbosity: 'low', store: true });
    expect(dropped).toEqual([]);
    expect(body).not.toHaveProperty('modalities');
    expect(toChat({ messages: [user()], inference_geo: 'eu' }).dropped).toEqual([]);
  });

  test('C4: unknown fields are dropped and listed, tools of MCP servers are refused', () => {
    expect(toChat({ messages: [user()], foo_bar: 1, toString: 1 }).dropped).toEqual(['foo_bar', 'toString']);
    const servers = [{ type: 'url', url: 'https://mcp.example', name: 's' }];
    expect(refusal(() => toChat({ messages: [user()], mcp_servers: servers }))).toBe(
      'unsupported_parameter mcp_servers',
    );
  });

  test('MI-03: a seed is dropped and listed', () => {
    const { body, dropped } = fromChat({ messages: [user()], seed: 1 });
    expect(body).not.toHaveProperty('seed');
    expect(dropped).toEqual(['seed']);
  });
});

describe('efforts and budgets (docs/interfaces/README.md "Effort and thinking budgets")', () => {
  const effort = (reasoning_effort: string, limit: number, model?: string): EncodedRequest =>
    fromChat({ messages: [user()], reasoning_effort }, { limit, ...(model === undefined ? {} : { model }) });

  test.each([
    ['minimal', 1_024],
    ['low', 1_024],
    ['medium', 4_096],
    ['high', 16_384],
    ['xhigh', 32_768],
  ])('%s is a budget of %i', (name, budget) => {
    expect(effort(name, 100_000).body['thinking']).toEqual({ type: 'enabled', budget_tokens: budget });
  });

  test('EF-04: a budget stays below the output limit; if that leaves none, thinking is off, and that is listed', () => {
    expect(effort('high', 5_000).body['thinking']).toEqual({ type: 'enabled', budget_tokens: 4_999 });
    const { body, dropped } = effort('high', 1_024);
    expect(body).not.toHaveProperty('thinking');
    expect(dropped).toEqual(['reasoning_effort']);
  });

  test('effort none disables thinking; a model that only knows efforts gets one', () => {
    expect(effort('none', 5_000).body['thinking']).toEqual({ type: 'disabled' });
    expect(effort('high', 5_000, 'claude-opus-5').body).toMatchObject({
      thinking: { type: 'adaptive' },
      output_config: { effort: 'high' },
    });
  });
});

describe('Messages to Messages', () => {
  test('unknown members arrive unchanged; model and limit come from the route, and a stream is requested', () => {
    const sent = { messages: [user()], x_new: { a: null }, temperature: 1 };
    expect(same(sent, { limit: 50 }).body).toEqual({
      ...sent,
      model: 'up',
      max_tokens: 50,
      stream: true,
    });
  });

  test('HD-04: the version and the beta headers of the client are sent to the upstream', () => {
    const raw = Buffer.from('{}');
    const body = { model: 'm', max_tokens: 1, messages: [user()] };
    const headers = { 'anthropic-version': '2026-10-21', 'anthropic-beta': 'a,b', 'x-api-key': 'secret' };
    expect(messagesCodec.decodeRequest({ body, raw, headers }).request.source?.headers).toEqual({
      'anthropic-version': '2026-10-21',
      'anthropic-beta': 'a,b',
    });
  });

  test('RE-01: reasoning and signatures are sent back byte for byte, in their order (TR-20)', () => {
    const content = [
      { type: 'thinking', thinking: ' a\n', signature: 'S1==' },
      { type: 'tool_use', id: 't1', name: 'f', input: { a: 1 } },
      { type: 'redacted_thinking', data: 'R' },
      { type: 'text', text: 'x' },
      { type: 'tool_use', id: 't2', name: 'f', input: {} },
    ];
    const results = ['t1', 't2'].map(id => ({ type: 'tool_result', tool_use_id: id }));
    const messages = [user(), { role: 'assistant', content }, user(results)];
    expect(same({ messages }).body['messages']).toEqual(messages);
  });

  test('RE-20: members that only answers have are not sent back', () => {
    const content = [{ type: 'text', text: 'x', citations: null, parsed_output: null }];
    const { body } = same({ messages: [user(), { role: 'assistant', content }, user()] });
    expect((body['messages'] as JsonObject[])[1]).toEqual({
      role: 'assistant',
      content: [{ type: 'text', text: 'x' }],
    });
  });

  test('TR-19, SV-08: blocks of tools that the upstream runs are sent back unchanged', () => {
    const content = [
      { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'x' } },
      {
        type: 'web_search_tool_result',
        tool_use_id: 's',
        content: [{ type: 'web_search_result', encrypted_content: 'E' }],
      },
    ];
    const messages = [user(), { role: 'assistant', content }, user('next')];
    expect(same({ messages }).body['messages']).toEqual(messages);
  });
});

describe('Messages to Chat', () => {
  test('TR-05: a result without content becomes an empty text', () => {
    const content = [{ type: 'tool_use', id: 't', name: 'f', input: {} }];
    const { body } = toChat({
      messages: [user(), { role: 'assistant', content }, user([{ type: 'tool_result', tool_use_id: 't' }])],
    });
    expect(body['messages']).toEqual([
      { role: 'user', content: 'hi' },
      // RO-07
      { role: 'assistant', content: null, tool_calls: [chatCall('t')] },
      { role: 'tool', tool_call_id: 't', content: '' },
    ]);
  });

  test('TR-16: cache_control stays out of other protocols', () => {
    const block = (text: string): JsonObject => ({
      type: 'text',
      text,
      cache_control: { type: 'ephemeral', ttl: '1h' },
    });
    const { body, dropped } = toChat({ system: [block('s')], messages: [user([block('a'), block('b')])] });
    expect(JSON.stringify(body)).not.toContain('cache_control');
    expect(dropped).toEqual([]);
  });

  test('ME-07: documents are files or text', () => {
    const pdf = { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' } };
    const { body } = toChat({ messages: [user([pdf])] });
    expect(body['messages']).toMatchObject([
      { content: [{ type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERi0=' } }] },
    ]);
  });

  test('RO-14: a document in the assistant’s turn is refused, and sources of the user’s text are left out', () => {
    const pdf = { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' } };
    const messages = [user(), { role: 'assistant', content: [pdf, { type: 'text', text: 'x' }] }, user()];
    expect(refusal(() => toChat({ messages }))).toBe('unsupported_parameter messages');
    expect(same({ messages }).body['messages']).toEqual(messages);
    const citation = { type: 'char_location', cited_text: 'a', document_index: 0, document_title: null };
    const cited = user([
      { type: 'text', text: 'a', citations: [{ ...citation, start_char_index: 0, end_char_index: 1 }] },
    ]);
    expect(toChat({ messages: [cited] }).body['messages']).toEqual([user('a')]);
  });

  test('CH-11: tools that only Anthropic runs are refused', () => {
    const tools = [{ type: 'web_search_20250305', name: 'web_search' }];
    expect(refusal(() => toChat({ messages: [user()], tools }))).toBe('unsupported_parameter tools.0');
  });

  test('RE-04: signatures are dropped and listed, the reasoning stays', () => {
    const content = [
      { type: 'thinking', thinking: 'hm', signature: 'S' },
      { type: 'text', text: 'x' },
    ];
    const { body, dropped } = toChat({ messages: [user(), { role: 'assistant', content }, user()] });
    expect((body['messages'] as JsonObject[])[1]).toEqual({ role: 'assistant', content: 'x', reasoning_content: 'hm' });
    expect(dropped).toEqual(['messages.reasoning']);
  });
});

describe('an answer that follows a schema, from models without schemas', () => {
  const schema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] };
  const response_format = { type: 'json_schema', json_schema: { name: 'n', schema } };
  const old = (body: JsonObject): EncodedRequest =>
    fromChat({ messages: [user()], response_format, ...body }, { model: 'claude-3-5-haiku-20241022', limit: 4_000 });

  test('gets the schema as a tool whose call is the answer, with a warning', () => {
    const { body, dropped } = old({});
    expect(body['output_config']).toBeUndefined();
    expect(body['tools']).toMatchObject([{ name: 'tollgate_final_answer', input_schema: schema }]);
    expect(body['tool_choice']).toEqual({ type: 'tool', name: 'tollgate_final_answer' });
    expect(dropped).toEqual(['response_format']);
  });

  test('has it as one of the tools that may be called, together with the client’s tools; with reasoning no call is forced', () => {
    const { body } = old({ tools: [functionTool()] });
    expect(body['tools']).toMatchObject([{ name: 'f' }, { name: 'tollgate_final_answer' }]);
    expect(body['tool_choice']).toEqual({ type: 'any' });
    expect(old({ tools: [functionTool()], tool_choice: 'none' }).body['tools']).toMatchObject([
      { name: 'tollgate_final_answer' },
    ]);
    expect(old({ reasoning_effort: 'low' }).body['tool_choice']).toBeUndefined();
    const forced = old({ tools: [functionTool()], tool_choice: 'required' }).body;
    expect([forced['tools'], forced['tool_choice']]).toMatchObject([[{ name: 'f' }], { type: 'any' }]);
  });

  test.each(['claude-opus-4-1-20250805', 'claude-sonnet-4-5', 'claude-opus-5', 'sim/large'])(
    '%s gets the schema unchanged',
    model => {
      const { body } = fromChat({ messages: [user()], response_format }, { model });
      expect(body['output_config']).toMatchObject({ format: { type: 'json_schema' } });
    },
  );

  test.each(['claude-3-opus-20240229', 'claude-sonnet-4-20250514', 'claude-opus-4-0'])(
    '%s gets it as a tool',
    model => {
      expect(fromChat({ messages: [user()], response_format }, { model }).body['output_config']).toBeUndefined();
    },
  );
});

test('fields that the official client adds to an answer and sends back are not reported as lost', () => {
  const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}', parsed_arguments: {} } };
  const answer = { role: 'assistant', content: '{}', parsed: {}, tool_calls: [call] };
  const result = { role: 'tool', tool_call_id: 'c', content: 'done' };
  expect(fromChat({ messages: [user(), answer, result] }).dropped).toEqual([]);
});
