/** What a Responses body may contain, field by field (docs/interfaces/responses.md "Request"). Ids like JS-08 name cases of `test/translation/cases.json`. */
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/codecs/codec.ts';
import {
  decodeContinuingRequest,
  decodeRequest,
  renderItem,
  renderResource,
  type ResponsesRequest,
} from '../../src/codecs/responses/index.ts';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { ItemStatus, Phase, Role, ToolKind } from '../../src/gen/tollgate/v1/content_pb.ts';
import {
  Endpoint,
  ReasoningEffort,
  ServiceTier,
  ToolChoiceMode,
  Truncation,
} from '../../src/gen/tollgate/v1/request_pb.ts';
import { toPortable } from '../../src/generation/portable/portable-request.ts';
import { unknownFields } from '../../src/generation/portable/unknown-fields.ts';

const decode = (body: JsonObject, read = decodeRequest): ResponsesRequest => {
  const whole = { model: 'm', input: 'hi', ...body };
  return read({ body: whole, raw: Buffer.from(JSON.stringify(whole)), headers: {} });
};

function refusal(body: JsonObject, read = decodeRequest): string {
  try {
    decode(body, read);
  } catch (thrown) {
    if (thrown instanceof GatewayError) return `${thrown.code} ${thrown.facts.param ?? ''}: ${thrown.message}`;
    throw thrown;
  }
  return 'none';
}

const item = (more: JsonObject): JsonObject => ({ input: [more] });
const part = (more: JsonObject): JsonObject => item({ role: 'user', content: [more] });

describe('refused as 422, naming the field', () => {
  test.each<[string, JsonObject]>([
    ['model', { model: null }],
    ['model', { model: '' }],
    ['input', { input: null }],
    ['input', { input: 5 }],
    ['input', { input: 'x'.repeat(10_485_761) }],
    ['instructions', { instructions: ['a'] }],
    ['previous_response_id', { previous_response_id: 5 }],
    ['include', { include: 'reasoning.encrypted_content' }],
    ['tools.0.type', { tools: [{ name: 'f' }] }],
    ['tools.0.name', { tools: [{ type: 'function', function: { name: 'f' } }] }],
    ['tools.0.name', { tools: [{ type: 'function', name: 'a b' }] }],
    ['tools.0.name', { tools: [{ type: 'custom' }] }],
    ['tools.0.parameters', { tools: [{ type: 'function', name: 'f', parameters: [] }] }],
    ['tools.0.strict', { tools: [{ type: 'function', name: 'f', strict: 'yes' }] }],
    ['tool_choice.name', { tool_choice: { type: 'function' } }],
    ['tool_choice.tools', { tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [] } }],
    ['text.format.schema', { text: { format: { type: 'json_schema', name: 'n' } } }],
    ['text.format.name', { text: { format: { type: 'json_schema', schema: {} } } }],
    ['temperature', { temperature: 2.01 }],
    ['temperature', { temperature: -0.1 }],
    ['temperature', { temperature: '1' }],
    ['top_p', { top_p: 1.1 }],
    ['presence_penalty', { presence_penalty: 2.1 }],
    ['frequency_penalty', { frequency_penalty: -2.1 }],
    ['parallel_tool_calls', { parallel_tool_calls: 'no' }],
    ['stream', { stream: 'yes' }],
    ['background', { background: 1 }],
    ['store', { store: 'no' }],
    ['max_output_tokens', { max_output_tokens: 15 }],
    ['max_output_tokens', { max_output_tokens: 16.5 }],
    ['max_tool_calls', { max_tool_calls: 0 }],
    ['prompt_cache_key', { prompt_cache_key: 'k'.repeat(65) }],
    ['safety_identifier', { safety_identifier: 'k'.repeat(65) }],
    ['top_logprobs', { top_logprobs: 21 }],
    ['top_logprobs', { top_logprobs: -1 }],
    ['metadata', { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`k${index}`, 'v'])) }],
    ['metadata.a', { metadata: { a: 'v'.repeat(513) } }],
    ['input.0.content', item({ role: 'user' })],
    ['input.0.content.0.text', part({ type: 'input_text' })],
    ['input.0.content.0.image_url', part({ type: 'input_image' })],
    ['input.0.content.0.image_url', part({ type: 'input_image', image_url: 'ftp://a' })],
    ['input.0.content.0.image_url', part({ type: 'input_image', image_url: 'data:image/png;base64,!!' })],
    ['input.0.content.0.file_data', part({ type: 'input_file' })],
    ['input.0.content.0.file_data', part({ type: 'input_file', file_data: '!!' })],
    ['input.0.content.0.file_url', part({ type: 'input_file', file_url: 'nowhere' })],
    ['input.0.id', item({ type: 'item_reference' })],
    ['input.0.summary', item({ type: 'reasoning' })],
    ['input.0.encrypted_content', item({ type: 'compaction' })],
    ['input.0.call_id', item({ type: 'function_call', name: 'f', arguments: '{}' })],
    ['input.0.call_id', item({ type: 'function_call', call_id: 'c'.repeat(65), name: 'f', arguments: '{}' })],
    ['input.0.arguments', item({ type: 'function_call', call_id: 'c', name: 'f', arguments: {} })],
    ['input.0.output', item({ type: 'function_call_output', call_id: 'c' })],
  ])('%s', (param, body) => {
    const said = refusal(body);
    expect(said).toMatch(/^validation_error /);
    expect(said.slice('validation_error '.length).split(':')[0]).toBe(param);
  });
});

describe('values that the gateway does not know', () => {
  test.each<[string, JsonObject]>([
    ['tool_choice', { tool_choice: 'any' }],
    [
      'tool_choice.mode',
      { tool_choice: { type: 'allowed_tools', mode: 'any', tools: [{ type: 'function', name: 'f' }] } },
    ],
    ['text.format.type', { text: { format: { type: 'xml' } } }],
    ['input.0.role', item({ role: 'tool', content: 'x' })],
    ['input.0.content.0.type', part({ type: 'output_text', text: 'x' })],
    ['input.0.content.0.type', item({ role: 'assistant', content: [{ type: 'input_text', text: 'x' }] })],
    [
      'input.0.content.0.type',
      item({ role: 'system', content: [{ type: 'input_image', image_url: 'https://a.test/x' }] }),
    ],
    ['input.0.type', item({ type: 'thought' })],
    [
      'input.0.output.0.type',
      item({ type: 'function_call_output', call_id: 'c', output: [{ type: 'text', text: 'x' }] }),
    ],
  ])('%s is refused for upstreams of other protocols, with OpenAI’s message', (param, body) => {
    expect(refusal(body)).toBe('none');
    expect(() => toPortable(decode(body).request)).toThrow(
      expect.objectContaining({
        code: 'unsupported_feature',
        facts: expect.objectContaining({ param }) as object,
        message: expect.stringMatching(/^Invalid value: '.+'\. Supported values are: '.+\.$/) as string,
      }),
    );
  });

  test.each<[string, JsonObject]>([
    ['include.0', { include: ['everything'] }],
    ['text.verbosity', { text: { verbosity: 'loud' } }],
    ['reasoning.effort', { reasoning: { effort: 'huge' } }],
    ['reasoning.summary', { reasoning: { summary: 'long' } }],
    ['truncation', { truncation: 'oldest' }],
    ['input.0.content.0.detail', part({ type: 'input_image', image_url: 'https://a.test/x', detail: 'some' })],
    ['input.0.phase', item({ role: 'assistant', content: 'x', phase: 'middle' })],
  ])('%s is left out for upstreams of other protocols, and listed', (param, body) => {
    const { request } = decode(body);
    expect(unknownFields(request.source)).toEqual([param]);
    expect(toPortable(request).dropped).toEqual([]);
  });
});

test('a prompt template of the provider is refused with 400; a conversation is one of the gateway', () => {
  expect(refusal({ conversation: { id: 'conv_1' } })).toBe('none');
  expect(refusal({ conversation: 7 })).toMatch(/^validation_error conversation:/);
  expect(refusal({ prompt: { id: 'p' } })).toMatch(/^unsupported_parameter prompt:/);
  expect(refusal({ conversation: null, prompt: null })).toBe('none');
});

test('null in an optional field counts as absent, at any depth', () => {
  const names =
    'instructions previous_response_id include tools tool_choice text temperature top_p presence_penalty frequency_penalty ' +
    'parallel_tool_calls stream stream_options background max_output_tokens max_tool_calls reasoning prompt_cache_key ' +
    'safety_identifier user metadata truncation store service_tier top_logprobs';
  const plain = decode({});
  const nulled = decode(Object.fromEntries(names.split(' ').map(name => [name, null])));
  delete plain.request.source;
  expect(nulled.request.source?.unknownFields).toEqual([]);
  delete nulled.request.source;
  expect(nulled).toEqual(plain);
  const deep = decode({
    text: { format: null, verbosity: null },
    reasoning: { effort: null, summary: null },
    tools: [{ type: 'function', name: 'f', description: null, parameters: null, strict: null }],
    input: [
      {
        type: null,
        id: null,
        status: null,
        role: 'assistant',
        phase: null,
        content: [{ type: 'output_text', text: 'x', annotations: null, logprobs: null }],
      },
    ],
  }).request;
  expect(deep.outputFormat).toBeUndefined();
  expect(deep.reasoning).toMatchObject({ effort: ReasoningEffort.UNSPECIFIED });
  expect(deep.tools[0]?.tool.value).toMatchObject({ description: undefined, parametersJson: '', strict: undefined });
});

test('decodes every kind of input item', () => {
  const { request } = decode({
    input: [
      { id: 'msg_1' },
      { type: 'item_reference', id: 'msg_2' },
      {
        type: 'reasoning',
        id: 'rs_1',
        summary: [{ type: 'summary_text', text: 's' }],
        content: null,
        encrypted_content: 'gA',
      },
      { type: 'compaction', id: 'cmp_1', encrypted_content: 'tg1.x' },
      { role: 'user', content: 'u' },
      { role: 'system', content: 's' },
      { role: 'developer', content: [{ type: 'input_text', text: 'd' }] },
      { role: 'assistant', content: 'a', phase: 'final_answer', status: 'incomplete' },
      { type: 'function_call', id: 'fc_1', call_id: 'c', name: 'f', arguments: '{' },
      { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: 'o' }] },
      { type: 'custom_tool_call', call_id: 'd', name: 'g', input: 'i' },
      { type: 'custom_tool_call_output', call_id: 'd', output: 'o' },
      { type: 'web_search_call', id: 'ws_1', status: 'completed', action: null },
    ],
  });
  const { items } = request;
  expect(items.map(({ content }) => content.case).join(' ')).toBe(
    'reference reference reasoning compaction message message message message toolCall toolResult toolCall toolResult serverTool',
  );
  const at = (index: number): unknown => items[index]?.content.value;
  expect(at(0)).toMatchObject({ id: 'msg_1' });
  expect(at(2)).toMatchObject({ opaque: [{ provider: '', kind: 'openai.encrypted', data: 'gA' }] });
  expect(at(3)).toMatchObject({ opaque: { provider: 'tollgate', kind: 'tollgate.envelope', data: 'tg1.x' } });
  expect([at(4), at(5), at(6), at(7)]).toMatchObject([
    { role: Role.USER },
    { role: Role.SYSTEM },
    { role: Role.DEVELOPER },
    { role: Role.ASSISTANT, phase: Phase.FINAL_ANSWER },
  ]);
  expect(items[7]?.status).toBe(ItemStatus.INCOMPLETE);
  expect([at(8), at(9), at(10), at(11)]).toMatchObject([
    { callId: 'c', arguments: '{', kind: ToolKind.FUNCTION },
    { callId: 'c', plain: false },
    { callId: 'd', arguments: 'i', kind: ToolKind.CUSTOM },
    { callId: 'd', plain: true, kind: ToolKind.CUSTOM },
  ]);
  expect(JSON.parse((at(12) as { json: string }).json)).toEqual({
    type: 'web_search_call',
    id: 'ws_1',
    status: 'completed',
    action: null,
  });
});

test('every setting', () => {
  const decoded = decode({
    previous_response_id: 'resp_1',
    background: true,
    stream: true,
    instructions: 'i',
    tool_choice: { type: 'allowed_tools', tools: [{ type: 'function', name: 'f' }] },
    max_tool_calls: 3,
    max_output_tokens: 2 ** 40,
    reasoning: { effort: 'max', summary: 'concise' },
    service_tier: 'auto',
    truncation: 'auto',
    include: ['message.output_text.logprobs', 'reasoning.encrypted_content'],
    top_logprobs: 5,
    metadata: { a: 'b' },
    user: 'u',
  });
  expect(decoded).toMatchObject({ previousResponseId: 'resp_1', background: true, stream: true, store: true });
  expect(decoded.request).toMatchObject({
    endpoint: Endpoint.RESPONSES,
    instructions: 'i',
    toolChoice: { mode: ToolChoiceMode.AUTO, restricted: true, tools: [{ name: 'f' }] },
    maxToolCalls: 3,
    maxOutputTokens: 2 ** 32 - 1,
    reasoning: { effort: ReasoningEffort.MAX, summary: 'concise' },
    serviceTier: ServiceTier.DEFAULT,
    truncation: Truncation.AUTO,
    sampling: { logprobs: true, topLogprobs: 5 },
    metadata: { a: 'b' },
    user: 'u',
  });
  expect(decode({ store: false }).store).toBe(false);
});

test('the input may be missing only in a request that continues a response, to count or compact it', () => {
  const read = decodeContinuingRequest;
  expect(refusal({ input: null }, read)).toMatch(/^validation_error input:/);
  expect(decode({ input: null, previous_response_id: 'resp_1' }, read).request.items).toEqual([]);
  expect(refusal({ input: null, previous_response_id: 'resp_1' })).toMatch(/^validation_error input:/);
});

test('unknown fields are kept, and their paths listed, in the body, items, parts and tools', () => {
  const { request } = decode({
    x_top: 1,
    reasoning: { effort: 'low', x_deep: 1 },
    tools: [{ type: 'function', name: 'f', x_tool: 1 }],
    input: [{ role: 'user', x_item: 1, content: [{ type: 'input_text', text: 'hi', x_part: null, y_part: 2 }] }],
  });
  expect(request.source?.unknownFields.toSorted()).toEqual(
    ['input.0.content.0.y_part', 'input.0.x_item', 'reasoning.x_deep', 'tools.0.x_tool', 'x_top'].toSorted(),
  );
  expect(request.items[0]?.extra?.json).toBe('{"x_item":1}');
});

describe('the requested settings are in the response', () => {
  const echo = (body: JsonObject): JsonObject => {
    const { request, store, background, previousResponseId } = decode(body);
    const facts = {
      id: 'resp_1',
      model: 'acme/large',
      createdAtMs: 1_999,
      request,
      store,
      background,
      previousResponseId,
    };
    return renderResource(facts, { status: 'queued', items: [] });
  };

  test('with its defaults', () => {
    expect(echo({})).toEqual({
      id: 'resp_1',
      object: 'response',
      created_at: 1,
      completed_at: null,
      status: 'queued',
      incomplete_details: null,
      error: null,
      model: 'acme/large',
      output: [],
      previous_response_id: null,
      conversation: null,
      instructions: null,
      tools: [],
      tool_choice: 'auto',
      parallel_tool_calls: true,
      max_tool_calls: null,
      max_output_tokens: null,
      truncation: 'disabled',
      text: { format: { type: 'text' }, verbosity: 'medium' },
      reasoning: null,
      temperature: 1,
      top_p: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      top_logprobs: 0,
      store: true,
      background: false,
      metadata: {},
      safety_identifier: null,
      prompt_cache_key: null,
      service_tier: 'default',
      usage: null,
    });
  });

  test('JS-08, RP-17: schemas, tools and choices with all their fields', () => {
    const schema = { type: 'object', properties: { a: { type: 'string' } } };
    const custom = { type: 'custom', name: 'g', format: { type: 'grammar', syntax: 'lark', definition: 'x' } };
    const hosted = { type: 'web_search', filters: null };
    expect(
      echo({
        text: { format: { type: 'json_schema', name: 'n', schema } },
        tools: [{ type: 'function', name: 'f' }, custom, hosted],
        tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'custom', name: 'g' }] },
        reasoning: { effort: 'minimal' },
        service_tier: 'priority',
      }),
    ).toMatchObject({
      text: { format: { type: 'json_schema', name: 'n', description: null, schema, strict: false } },
      tools: [
        { type: 'function', name: 'f', description: null, parameters: null, strict: false },
        { ...custom, description: null },
        hosted,
      ],
      tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'custom', name: 'g' }] },
      reasoning: { effort: 'minimal', summary: null },
      service_tier: 'priority',
    });
  });

  test('items of the input, with all their fields', () => {
    const { request } = decode({
      input: [
        {
          id: 'msg_1',
          role: 'user',
          content: [
            { type: 'input_image', image_url: 'https://a.test/x.png' },
            { type: 'input_file', file_id: 'file_1' },
          ],
        },
        { type: 'function_call', id: 'fc_1', call_id: 'c', name: 'f', arguments: '{}' },
        { type: 'function_call_output', id: 'fco_1', call_id: 'c', output: 'done' },
      ],
    });
    expect(request.items.map(renderItem)).toEqual([
      {
        id: 'msg_1',
        type: 'message',
        status: 'completed',
        role: 'user',
        content: [
          { type: 'input_image', image_url: 'https://a.test/x.png', detail: 'auto' },
          { type: 'input_file', file_id: 'file_1' },
        ],
      },
      { id: 'fc_1', type: 'function_call', status: 'completed', call_id: 'c', name: 'f', arguments: '{}' },
      { id: 'fco_1', type: 'function_call_output', status: 'completed', call_id: 'c', output: 'done' },
    ]);
  });
});
