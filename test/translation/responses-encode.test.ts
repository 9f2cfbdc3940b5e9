/** Requests from Responses to upstreams of all protocols: the cases of `test/translation/cases.json`, by their ids. */
import { describe, expect, test } from 'vitest';
import type { Json, JsonObject } from '../../src/codecs/codec.ts';
import { makeOpaque } from '../../src/codecs/content.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import {
  decoded,
  encoded,
  toChat,
  toMessages,
  same,
  fromChat,
  user,
  call,
  result,
  functionTool,
  png,
  withoutId,
  refusal,
} from './responses-translate.ts';

describe('Responses to Responses', () => {
  test('the client’s fields arrive unchanged, except for state, model and limit, which the gateway sets', () => {
    const input = [
      { type: 'message', role: 'user', content: 'hi', x_item: { a: null } },
      {
        type: 'message',
        id: 'msg_1',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'yes', annotations: [] }],
      },
      { ...call('c1'), id: 'fc_1', namespace: 'n' },
      { ...result('c1', [{ type: 'input_text', text: 'ok', x_part: 1 }]) },
    ];
    const { body, dropped } = same({
      input,
      instructions: 'Be brief.',
      previous_response_id: null,
      store: true,
      background: false,
      stream_options: { include_obfuscation: false },
      max_output_tokens: 50,
      metadata: { a: 'b' },
      x_unknown: { deep: [null, 1] },
      user: null,
    });
    expect(dropped).toEqual([]);
    expect(body).toEqual({
      model: 'up',
      instructions: 'Be brief.',
      input: input.map(withoutId),
      store: false,
      stream: true,
      stream_options: { include_obfuscation: false },
      max_output_tokens: 50,
      metadata: { a: 'b' },
      x_unknown: { deep: [null, 1] },
    });
  });

  test('an input of one string stays a string', () => {
    expect(same({ input: 'hi' }).body['input']).toBe('hi');
  });

  test('items that the gateway adds before the client’s items are built; the client’s items follow unchanged', () => {
    const request = decoded(responsesCodec, { model: 'm', input: [{ ...user('and then?'), x_item: 1 }] });
    const before = decoded(responsesCodec, {
      model: 'm',
      input: [user('first'), { type: 'message', role: 'assistant', content: 'yes' }],
    });
    const { body } = encoded(responsesCodec, { ...request, items: [...before.items, ...request.items] });
    expect(body['input']).toEqual([
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'first' }] },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'yes' }] },
      { role: 'user', content: 'and then?', x_item: 1 },
    ]);
  });

  test('a limit below the protocol’s minimum is raised to it, and the gateway cuts the output', () => {
    expect(same({ input: 'hi', max_output_tokens: 16 }, 7).body['max_output_tokens']).toBe(16);
    expect(fromChat({ messages: [user()] }, 3).body['max_output_tokens']).toBe(16);
    expect(fromChat({ messages: [user()] }).body).not.toHaveProperty('max_output_tokens');
  });

  test('RE-13, RP-11: ids of items that the upstream did not store are left out', () => {
    const { body } = same({
      input: [
        { ...user(), id: 'msg_2' },
        { ...call('c'), id: 'fc_1' },
        { ...result('c'), id: 'fco_1' },
      ],
    });
    expect(body['input']).toEqual([user(), call('c'), result('c')]);
  });

  test('RE-04: reasoning of the same upstream is sent back with the id to which it is bound; reasoning of an unknown upstream is unchanged', () => {
    const reasoning = {
      type: 'reasoning',
      id: 'rs_up',
      summary: [{ type: 'summary_text', text: 'hm' }],
      encrypted_content: 'gAAA',
    };
    expect(same({ input: [reasoning, user()] })).toMatchObject({ body: { input: [reasoning, user()] }, dropped: [] });
    const request = decoded(responsesCodec, {
      model: 'm',
      input: [{ ...reasoning, id: 'rs_ours', encrypted_content: 'tg1.AA' }, user()],
    });
    const [item] = request.items;
    if (item?.content.case !== 'reasoning') throw new Error('no reasoning');
    expect(item.content.value.opaque).toEqual([makeOpaque('tollgate.envelope', 'tg1.AA', 'tollgate')]);
    item.content.value.opaque = [
      makeOpaque('openai.encrypted', 'gAAA', 'acme'),
      makeOpaque('openai.item_id', 'rs_up', 'acme'),
    ];
    expect(encoded(responsesCodec, request).body['input']).toEqual([reasoning, user()]);
    item.content.value.opaque = [makeOpaque('openai.encrypted', 'gBBB', 'other')];
    expect(encoded(responsesCodec, request)).toMatchObject({
      body: { input: [user()] },
      dropped: ['input.reasoning'],
    });
  });

  test('RE-11: each reasoning item stays before the call or text to which it led', () => {
    const reasoning = (id: string): JsonObject => ({
      type: 'reasoning',
      id,
      summary: [],
      encrypted_content: `e-${id}`,
    });
    const said = {
      type: 'message',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'ok', annotations: [] }],
    };
    const input = [user(), reasoning('rs_1'), call('c'), result('c'), reasoning('rs_2'), said, user('next')];
    expect(same({ input }).body['input']).toEqual(input);
  });

  test('reasoning is requested in the form in which it can be sent back', () => {
    expect(same({ input: 'hi', reasoning: { effort: 'low' } }).body['include']).toEqual([
      'reasoning.encrypted_content',
    ]);
    expect(same({ input: 'hi', reasoning: { effort: 'none' } }).body).not.toHaveProperty('include');
    expect(same({ input: 'hi' }).body).not.toHaveProperty('include');
  });

  test('CH-11, SV-06, SV-08: tools that the upstream runs, and their items, are sent unchanged', () => {
    const tools = [{ type: 'web_search', filters: null }, { type: 'tool_search' }];
    const search = { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'q' } };
    const { body } = same({ input: [user(), search], tools, tool_choice: { type: 'web_search' } });
    expect(body).toMatchObject({ input: [user(), search], tools, tool_choice: { type: 'web_search' } });
  });

  test('RO-13: `phase` is kept in both directions', () => {
    const message = { type: 'message', role: 'assistant', content: 'well', phase: 'commentary' };
    expect(same({ input: [message, user()] }).body['input']).toEqual([message, user()]);
    const { items } = decoded(responsesCodec, { model: 'm', input: [message] });
    expect(
      encoded(responsesCodec, { ...decoded(responsesCodec, { model: 'm', input: 'x' }), items }).body['input'],
    ).toEqual([{ ...message, content: [{ type: 'output_text', text: 'well' }] }]);
  });

  test('the tier is the one that the gateway resolved', () => {
    expect(same({ input: 'hi', service_tier: 'flex' }).body['service_tier']).toBe('flex');
    expect(same({ input: 'hi', service_tier: 'auto' }).body['service_tier']).toBe('auto');
  });
});

describe('Responses to Chat and Messages', () => {
  test('TR-08: a call id with invalid characters is mapped, in the same way for call and result', () => {
    const { body } = toMessages({ input: [user(), call('call_1|fc_1'), result('call_1|fc_1')] });
    const messages = body['messages'] as { content: { id?: string; tool_use_id?: string }[] }[];
    const id = messages[1]?.content[0]?.id;
    expect(id).toMatch(/^call_1_fc_1_[0-9a-f]{8}$/);
    expect(messages[2]?.content[0]?.tool_use_id).toBe(id);
  });

  test('TR-14: texts and images of a result', () => {
    const output = [
      { type: 'input_text', text: 'see' },
      { type: 'input_image', image_url: png },
    ];
    const input = [user(), call('a'), result('a', output)];
    expect((toMessages({ input }).body['messages'] as JsonObject[])[2]).toMatchObject({
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: 'a',
          content: [
            { type: 'text', text: 'see' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
          ],
        },
      ],
    });
    expect((toChat({ input }).body['messages'] as JsonObject[]).slice(2)).toMatchObject([
      { role: 'tool', tool_call_id: 'a' },
      { role: 'user', content: [{ type: 'image_url', image_url: { url: png } }] },
    ]);
    const video = [user(), call('a'), result('a', [{ type: 'input_video', video_url: 'https://a.test/v.mp4' }])];
    expect(refusal(() => toMessages({ input: video }))).toBe('unsupported_parameter input');
    expect(refusal(() => toChat({ input: video }))).toBe('unsupported_parameter input');
  });

  test('TR-17: arguments that are not an object are sent as text, and listed', () => {
    const { body, dropped } = toMessages({ input: [user(), call('a', '{"x":'), result('a')] });
    expect((body['messages'] as JsonObject[])[1]).toMatchObject({
      content: [{ type: 'tool_use', input: { _unparsed: '{"x":' } }],
    });
    expect(dropped).toEqual(['arguments']);
    expect(
      (toChat({ input: [user(), call('a', '{"x":'), result('a')] }).body['messages'] as JsonObject[])[1],
    ).toMatchObject({
      tool_calls: [{ function: { arguments: '{"x":' } }],
    });
  });

  test('CH-01, CH-02, CH-04: tool choices', () => {
    const tools = [functionTool(), functionTool({ name: 'g' })];
    const choice = (tool_choice: Json): unknown[] => [
      toMessages({ input: 'hi', tools, tool_choice }).body['tool_choice'],
      toChat({ input: 'hi', tools, tool_choice }).body['tool_choice'],
    ];
    expect(choice('required')).toEqual([{ type: 'any' }, 'required']);
    expect(choice('none')).toEqual([{ type: 'none' }, 'none']);
    expect(choice({ type: 'function', name: 'g' })).toEqual([
      { type: 'tool', name: 'g' },
      { type: 'function', function: { name: 'g' } },
    ]);
    const allowed = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'g' }] };
    expect(choice(allowed)).toEqual([
      { type: 'any' },
      {
        type: 'allowed_tools',
        allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'g' } }] },
      },
    ]);
    expect(toMessages({ input: 'hi', tools, tool_choice: allowed }).body['tools']).toMatchObject([{ name: 'g' }]);
  });

  test('CH-10: a function without parameters gets an empty schema', () => {
    const { body } = toMessages({ input: 'hi', tools: [functionTool({ parameters: null, strict: null })] });
    expect(body['tools']).toEqual([{ name: 'f', input_schema: { type: 'object', properties: {} } }]);
  });

  test('CH-11: a custom tool is a function with one string; a tool that an upstream runs is refused', () => {
    const tools = [
      { type: 'custom', name: 'patch', format: { type: 'grammar', syntax: 'lark', definition: 'start: A' } },
    ];
    const { body, dropped } = toMessages({ input: 'hi', tools });
    expect(body['tools']).toMatchObject([{ name: 'patch', input_schema: { required: ['input'] } }]);
    expect(dropped).toEqual(['tools.0.custom.format']);
    expect(toChat({ input: 'hi', tools }).body['tools']).toEqual([
      {
        type: 'custom',
        custom: { name: 'patch', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: A' } } },
      },
    ]);
    for (const translate of [toChat, toMessages]) {
      expect(refusal(() => translate({ input: 'hi', tools: [{ type: 'web_search' }] }))).toBe(
        'unsupported_parameter tools.0',
      );
    }
  });

  test('SV-05: calls of custom tools and their outputs', () => {
    const input = [
      user(),
      { type: 'custom_tool_call', call_id: 'c', name: 'patch', input: 'do "it"' },
      { type: 'custom_tool_call_output', call_id: 'c', output: 'ok' },
    ];
    expect((toMessages({ input }).body['messages'] as JsonObject[])[1]).toMatchObject({
      content: [{ type: 'tool_use', id: 'c', name: 'patch', input: { input: 'do "it"' } }],
    });
    expect((toChat({ input }).body['messages'] as JsonObject[]).slice(1)).toEqual([
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'custom', custom: { name: 'patch', input: 'do "it"' } }],
      },
      { role: 'tool', tool_call_id: 'c', content: 'ok' },
    ]);
  });

  test('EF-01: an effort becomes a budget below the limit, or an effort if the model takes one', () => {
    const body = { input: 'hi', reasoning: { effort: 'high' }, max_output_tokens: 20_000 };
    expect(toMessages(body).body).toMatchObject({
      thinking: { type: 'enabled', budget_tokens: 16_384 },
      max_tokens: 20_000,
    });
    expect(toChat(body).body).toMatchObject({ reasoning_effort: 'high' });
  });

  test('EF-16: fields that the gateway handles itself and conversations are not sent; templates are refused', () => {
    const { body } = toChat({ input: 'hi', truncation: 'auto', max_tool_calls: 3, background: false });
    for (const name of ['truncation', 'max_tool_calls', 'background']) expect(body).not.toHaveProperty(name);
    expect(toChat({ input: 'hi', conversation: 'conv_1' }).body).not.toHaveProperty('conversation');
    expect(refusal(() => toChat({ input: 'hi', prompt: { id: 'p' } }))).toBe('unsupported_parameter prompt');
  });

  test('RO-04: instructions come first, then system and developer messages in their order', () => {
    const input = [{ role: 'developer', content: 'B' }, { role: 'system', content: 'C' }, user()];
    const { body } = toMessages({ input, instructions: 'A' });
    expect(body['system']).toEqual(['A', 'B', 'C'].map(text => ({ type: 'text', text })));
    expect(toChat({ input, instructions: 'A' }).body['messages']).toEqual([
      { role: 'system', content: 'A' },
      { role: 'system', content: 'B' },
      { role: 'system', content: 'C' },
      { role: 'user', content: 'hi' },
    ]);
  });

  test('one turn of the model is one message: reasoning, text and calls', () => {
    const input = [
      user(),
      { type: 'message', role: 'assistant', content: 'Let me look.' },
      call('a'),
      call('b'),
      result('a'),
      result('b'),
      user('thanks'),
    ];
    const messages = toMessages({ input }).body['messages'] as { role: string; content: { type: string }[] }[];
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
    expect(messages[1]?.content.map(({ type }) => type)).toEqual(['text', 'tool_use', 'tool_use']);
    expect(messages[2]?.content.map(({ type }) => type)).toEqual(['tool_result', 'tool_result', 'text']);
    expect((toChat({ input }).body['messages'] as JsonObject[]).map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'tool',
      'user',
    ]);
  });

  test('RE-04: reasoning of another provider is dropped and listed', () => {
    const reasoning = { type: 'reasoning', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content: 'gAAA' };
    const { body, dropped } = toMessages({
      input: [user('a'), reasoning, { role: 'assistant', content: 'b' }, user('c')],
    });
    expect(JSON.stringify(body)).not.toContain('gAAA');
    expect(dropped).toEqual(['input.reasoning']);
    expect(toChat({ input: [user('a'), reasoning, { role: 'assistant', content: 'b' }, user('c')] }).dropped).toEqual([
      'input.reasoning',
    ]);
  });

  test('RP-20: references and compacted conversations that the gateway did not resolve are refused', () => {
    for (const translate of [toChat, toMessages]) {
      expect(refusal(() => translate({ input: [{ type: 'item_reference', id: 'msg_1' }, user()] }))).toBe(
        'unsupported_parameter input',
      );
      expect(refusal(() => translate({ input: [{ type: 'compaction', encrypted_content: 'x' }, user()] }))).toBe(
        'unsupported_parameter input',
      );
    }
  });

  test('ME-05, ME-08, ME-10: images and files', () => {
    const parts = (...content: JsonObject[]): JsonObject => ({ input: [{ role: 'user', content }] });
    const imagePart = parts({ type: 'input_image', image_url: png, detail: 'high' });
    expect(JSON.stringify(toMessages(imagePart).body)).not.toContain('detail');
    expect(JSON.stringify(toChat(imagePart).body)).toContain('"detail":"high"');
    const text = parts({ type: 'input_file', file_data: 'data:text/csv;base64,YSxi', filename: 'a.csv' });
    expect((toMessages(text).body['messages'] as JsonObject[])[0]).toMatchObject({
      content: [{ type: 'document', title: 'a.csv', source: { type: 'text', data: 'a,b' } }],
    });
    const docx = parts({ type: 'input_file', file_data: 'data:application/docx;base64,UEsDBA==', filename: 'a.docx' });
    expect(refusal(() => toMessages(docx))).toBe('unsupported_parameter input');
    const byId = parts({ type: 'input_file', file_id: 'file_1' });
    expect(refusal(() => toMessages(byId))).toBe('unsupported_parameter input');
    expect(refusal(() => toChat(byId))).toBe('unsupported_parameter input');
    expect((same(byId).body['input'] as JsonObject[])[0]).toEqual({
      role: 'user',
      content: [{ type: 'input_file', file_id: 'file_1' }],
    });
  });

  test('unknown members that can’t be sent are listed', () => {
    const { dropped } = toChat({ input: [{ ...user(), x_item: 1 }], x_top: 1, tools: [functionTool({ x_tool: 1 })] });
    expect(dropped).toEqual(['x_top', 'input.0.x_item', 'tools.0.x_tool']);
  });

  test('members that the official client adds to an answer and sends back are not reported as lost', () => {
    const call = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}', parsed_arguments: {} };
    const text = { type: 'output_text', text: '{}', annotations: [], parsed: {} };
    const input = [user(), { type: 'message', role: 'assistant', content: [text] }, call];
    expect(toChat({ input }).dropped).toEqual([]);
  });

  test('log probabilities are requested if the protocol has them', () => {
    const body = { input: 'hi', include: ['message.output_text.logprobs'], top_logprobs: 4 };
    expect(toChat(body).body).toMatchObject({ logprobs: true, top_logprobs: 4 });
    expect(refusal(() => toMessages(body))).toBe('unsupported_parameter include');
  });
});
