/** Requests from Chat and Messages to Responses upstreams: the cases of `test/translation/cases.json`, by their ids. */
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/codecs/codec.ts';
import { textIn } from '../../src/codecs/json.ts';
import { toChat, fromChat, fromMessages, user, call, result, refusal } from './responses-translate.ts';

describe('Chat and Messages to Responses', () => {
  test('TR-05: a result without content is an empty text', () => {
    const messages = [
      user(),
      { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'f', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1' }] },
    ];
    expect((fromMessages({ messages }).body['input'] as JsonObject[]).slice(1)).toEqual([call('t1'), result('t1', '')]);
  });

  test('TR-10: ids that a conversation uses twice are made unique', () => {
    const turn = (id: string): JsonObject[] => [
      user(),
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id, type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: id, content: 'x' },
    ];
    const input = fromChat({ messages: [...turn('call_0'), ...turn('call_0')] }).body['input'] as JsonObject[];
    expect(input.map(item => item['call_id'])).toEqual([
      undefined,
      'call_0',
      'call_0',
      undefined,
      'call_0_2',
      'call_0_2',
    ]);
  });

  test('a call id of more than 64 characters is shortened, the same for call and result', () => {
    const id = `call_${'x'.repeat(100)}`;
    const messages = [
      user(),
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id, type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: id, content: 'x' },
    ];
    const [, requests, answered] = fromChat({ messages }).body['input'] as JsonObject[];
    expect(requests?.['call_id']).toMatch(/^call_x+_[0-9a-f]{8}$/);
    expect(textIn(requests?.['call_id'])).toHaveLength(64);
    expect(answered?.['call_id']).toBe(requests?.['call_id']);
  });

  test('a tool name that the protocol does not allow is refused, and the error names the tool', () => {
    const tools = [{ name: 'mcp__'.padEnd(80, 'x'), input_schema: {} }];
    expect(refusal(() => fromMessages({ messages: [user()], tools }))).toBe('unsupported_parameter tools.0.name');
  });

  test('CH-02, CH-08: tools and choices are flat, and strict only if that was requested', () => {
    const { body } = fromChat({
      messages: [user()],
      tools: [
        { type: 'function', function: { name: 'f', parameters: { type: 'object' } } },
        {
          type: 'custom',
          custom: { name: 'c', format: { type: 'grammar', grammar: { syntax: 'regex', definition: 'a+' } } },
        },
      ],
      tool_choice: { type: 'function', function: { name: 'f' } },
      parallel_tool_calls: false,
    });
    expect(body).toMatchObject({
      tools: [
        { type: 'function', name: 'f', parameters: { type: 'object' }, strict: false },
        { type: 'custom', name: 'c', format: { type: 'grammar', syntax: 'regex', definition: 'a+' } },
      ],
      tool_choice: { type: 'function', name: 'f' },
      parallel_tool_calls: false,
    });
    const forced = fromMessages({
      messages: [user()],
      tools: [{ name: 'f', input_schema: { type: 'object' } }],
      tool_choice: { type: 'any', disable_parallel_tool_use: true },
    });
    expect(forced.body).toMatchObject({ tool_choice: 'required', parallel_tool_calls: false });
  });

  test('RE-07: readable reasoning is never sent as encrypted content, and that of other providers is dropped and listed', () => {
    const { body, dropped } = fromChat({
      messages: [user('a'), { role: 'assistant', content: 'b', reasoning_content: 'hm' }, user('c')],
    });
    expect(JSON.stringify(body)).not.toContain('hm');
    expect(dropped).toEqual(['messages.reasoning']);
    const thinking = { type: 'thinking', thinking: 'hm', signature: 'sig' };
    const signed = fromMessages({
      messages: [user('a'), { role: 'assistant', content: [thinking, { type: 'text', text: 'b' }] }, user('c')],
    });
    expect(JSON.stringify(signed.body)).not.toContain('sig');
    expect(signed.dropped).toEqual(['messages.reasoning']);
  });

  test('EF-05: a budget becomes the nearest effort, and visible reasoning is requested', () => {
    const messages = [user()];
    const thinking = { type: 'enabled', budget_tokens: 10_000 };
    expect(fromMessages({ messages, thinking, max_tokens: 20_000 }).body).toMatchObject({
      reasoning: { effort: 'medium', summary: 'auto' },
      include: ['reasoning.encrypted_content'],
      max_output_tokens: 20_000,
    });
    expect(fromMessages({ messages, thinking: { type: 'disabled' } }).body).toMatchObject({
      reasoning: { effort: 'none' },
    });
    expect(fromChat({ messages, reasoning_effort: 'minimal' }).body).toMatchObject({
      reasoning: { effort: 'minimal' },
    });
  });

  test('EF-14, EF-17: fields that the protocol does not have are refused or listed, and never sent', () => {
    const messages = [user()];
    const { body, dropped } = fromChat({ messages, seed: 1, frequency_penalty: 0.5, presence_penalty: 0, stop: ['x'] });
    expect(dropped).toEqual(['frequency_penalty', 'seed']);
    for (const name of ['seed', 'frequency_penalty', 'presence_penalty', 'stop', 'n'])
      expect(body).not.toHaveProperty(name);
    expect(fromMessages({ messages, top_k: 5 }).dropped).toEqual(['top_k']);
    expect(refusal(() => fromChat({ messages, logit_bias: { '1': 5 } }))).toBe('unsupported_parameter logit_bias');
    expect(refusal(() => fromChat({ messages, n: 2 }))).toBe('unsupported_parameter n');
    expect(refusal(() => fromChat({ messages, modalities: ['text', 'audio'], audio: { voice: 'a' } }))).toBe(
      'unsupported_parameter modalities',
    );
    expect(fromChat({ messages, prediction: { type: 'content', content: 'x' } })).toMatchObject({
      dropped: ['prediction'],
    });
  });

  test('log probabilities, formats and verbosity', () => {
    const { body } = fromChat({
      messages: [user()],
      logprobs: true,
      top_logprobs: 2,
      verbosity: 'low',
      response_format: { type: 'json_schema', json_schema: { name: 'r', schema: { type: 'object' }, strict: true } },
    });
    expect(body).toMatchObject({
      include: ['message.output_text.logprobs'],
      top_logprobs: 2,
      text: { format: { type: 'json_schema', name: 'r', schema: { type: 'object' }, strict: true }, verbosity: 'low' },
    });
  });

  test('ME-07: documents', () => {
    const blocks = (...content: JsonObject[]): JsonObject => ({ messages: [{ role: 'user', content }] });
    const pdf = {
      type: 'document',
      title: 'T',
      source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0x' },
    };
    const plain = { type: 'document', title: 'T', source: { type: 'text', media_type: 'text/plain', data: 'words' } };
    const address = { type: 'document', source: { type: 'url', url: 'https://a.test/a.pdf' } };
    expect(fromMessages(blocks(pdf, plain, address)).body['input']).toEqual([
      {
        type: 'message',
        role: 'user',
        content: [
          { type: 'input_file', file_data: 'data:application/pdf;base64,JVBERi0x', filename: 'T' },
          { type: 'input_text', text: 'T\n\nwords' },
          { type: 'input_file', file_url: 'https://a.test/a.pdf' },
        ],
      },
    ]);
  });

  test('a failed result begins with "Error:", and audio is refused', () => {
    const messages = [
      user(),
      { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'f', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'no', is_error: true }] },
    ];
    const { body, dropped } = fromMessages({ messages });
    expect((body['input'] as JsonObject[])[2]).toEqual(result('t', 'Error: no'));
    expect(dropped).toEqual(['is_error']);
    const sound = [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] }];
    expect(refusal(() => fromChat({ messages: sound }))).toBe('unsupported_parameter messages');
  });

  test('a last message of the assistant is accepted between Chat and Responses, and refused from Messages', () => {
    const messages = [user(), { role: 'assistant', content: 'It is' }];
    expect((fromChat({ messages }).body['input'] as JsonObject[])[1]).toEqual({
      type: 'message',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'It is' }],
    });
    expect(toChat({ input: messages }).body['messages']).toEqual(messages);
    expect(refusal(() => fromMessages({ messages }))).toBe('unsupported_parameter messages');
  });

  test('C4: fields that change the answer and can’t be sent are refused, pure hints are dropped silently, the rest is dropped and listed', () => {
    const messages = [user()];
    const refused = [{ modalities: ['text', 'audio'], audio: {} }, { web_search_options: {} }];
    expect(refused.map(members => refusal(() => fromChat({ messages, ...members })))).toEqual([
      'unsupported_parameter modalities',
      'unsupported_parameter web_search_options',
    ]);
    expect(refusal(() => fromMessages({ messages, mcp_servers: [{}] }))).toBe('unsupported_parameter mcp_servers');
    const { dropped } = fromChat({ messages, prompt_cache_retention: '24h', x_other: 1 });
    expect(dropped).toEqual(['x_other']);
  });
});
