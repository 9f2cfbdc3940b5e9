/** Requests that real clients send and providers take, although no specification has them; and what providers must not get of them. */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, Json, JsonObject } from '../../src/codecs/codec.ts';
import type { Dialect } from '../../src/codecs/dialect.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { type Item, Protocol } from '../../src/gen/tollgate/v1/content_pb.ts';
import { type GenerateRequest, ToolChoiceMode } from '../../src/gen/tollgate/v1/request_pb.ts';
import { toPortable } from '../../src/generation/portable/portable-request.ts';

const user = { role: 'user', content: 'Hello' };
const fn = { type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object' } } };

function decode(codec: ClientCodec, fields: JsonObject): GenerateRequest {
  const body = { model: 'm', ...fields };
  return codec.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} }).request;
}
const readRequest = (fields: JsonObject): GenerateRequest => decode(chatCodec, { messages: [user], ...fields });
const decodeItems = (...messages: JsonObject[]): readonly Item[] => decode(chatCodec, { messages }).items;

describe('what real clients send and providers take', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } };

  test('an empty list of content beside calls', () => {
    const items = decodeItems(user, { role: 'assistant', content: [], tool_calls: [call] });
    expect(items.map(({ content }) => content.case)).toEqual(['message', 'toolCall']);
    expect(() => decodeItems(user, { role: 'assistant', content: [] })).toThrow(/messages\.1\.content/);
  });

  test('a tool and a choice of a tool without a type', () => {
    const { type: _, ...untyped } = fn;
    const { tools, toolChoice } = readRequest({ tools: [untyped], tool_choice: { function: { name: 'f' } } });
    expect(tools[0]?.tool).toMatchObject({ case: 'function', value: { name: 'f' } });
    expect(toolChoice).toMatchObject({ mode: ToolChoiceMode.NAMED });
    expect(() => readRequest({ tools: [{}] })).toThrow(/tools\.0\.function/);
  });

  test('the address of an image as a text', () => {
    const part = { type: 'image_url', image_url: 'https://a.example/i.png' };
    const [item] = decodeItems({ role: 'user', content: [part] });
    const parts = item?.content.case === 'message' ? item.content.value.parts : [];
    expect(parts[0]?.content).toMatchObject({
      case: 'image',
      value: { source: { source: { case: 'url', value: 'https://a.example/i.png' } } },
    });
  });

  test('the address of a file', () => {
    const url = 'https://a.example/i.pdf';
    const [item] = decodeItems({
      role: 'user',
      content: [{ type: 'file', file: { file_data: url, filename: 'i.pdf' } }],
    });
    const parts = item?.content.case === 'message' ? item.content.value.parts : [];
    expect(parts[0]?.content).toMatchObject({
      case: 'file',
      value: { source: { source: { case: 'url', value: url } }, filename: 'i.pdf' },
    });
    const wrong = { role: 'user', content: [{ type: 'file', file: { file_data: 'ftp://a.example/i.pdf' } }] };
    expect(() => decodeItems(wrong)).toThrow(/messages\.0\.content\.0\.file\.file_data/);
  });

  test('thinking in the content of the assistant, as Mistral writes it', () => {
    const thinking = [
      { type: 'thinking', thinking: [{ type: 'text', text: 'I think.' }] },
      { type: 'text', text: 'Rome' },
    ];
    const items = decodeItems(user, { role: 'assistant', content: thinking }, user);
    expect(items.map(({ content }) => content.case)).toEqual(['message', 'reasoning', 'message', 'message']);
    const reasoning = items[1]?.content.case === 'reasoning' ? items[1].content.value.parts : [];
    expect(reasoning[0]?.content).toMatchObject({ case: 'reasoningText', value: { text: 'I think.' } });
    const messages = [user, { role: 'assistant', content: thinking, tool_calls: [call] }];
    const request = decode(chatCodec, { messages });
    const sentTo = (dialect: Dialect): unknown => {
      const { body } = chatCodec.encodeRequest({ request, model: 'm', maxOutputTokens: 9, stream: false, dialect });
      return (body['messages'] as JsonObject[])[1];
    };
    expect(sentTo({ reasoning: 'parts' })).toEqual(messages[1]);
    expect(sentTo({ reasoning: 'reasoning_content' })).toEqual({
      ...messages[1],
      content: [{ type: 'text', text: 'Rome' }],
      reasoning_content: 'I think.',
    });
  });

  test('a document by its address, and `any` for a call that is demanded', () => {
    const url = 'https://a.example/i.pdf';
    const document = { type: 'document_url', document_url: url, document_name: 'i.pdf' };
    const [item] = decodeItems({ role: 'user', content: [document] });
    const parts = item?.content.case === 'message' ? item.content.value.parts : [];
    expect(parts[0]?.content).toMatchObject({ case: 'file', value: { filename: 'i.pdf' } });
    expect(readRequest({ tools: [fn], tool_choice: 'any' }).toolChoice).toMatchObject({
      mode: ToolChoiceMode.REQUIRED,
    });
  });

  test('a result without an id, if exactly one call is open', () => {
    const assistant = { role: 'assistant', tool_calls: [call] };
    const result = { role: 'tool', content: 'ok' };
    const [, , answered] = decodeItems(user, assistant, result);
    expect(answered?.content).toMatchObject({ case: 'toolResult', value: { callId: 'c1' } });
    const two = { role: 'assistant', tool_calls: [call, { ...call, id: 'c2' }] };
    expect(() => decodeItems(user, two, result)).toThrow(/messages\.2\.tool_call_id/);
    expect(() => decodeItems(user, result)).toThrow(/messages\.1\.tool_call_id/);
  });

  test('but no empty role', () => {
    expect(() => decodeItems({ role: '', content: 'Hello' })).toThrow(/messages\.0\.role/);
  });
});

test.each([
  ['Messages', messagesCodec, { max_tokens: 9, messages: [{ ...user, role: '' }] }],
  ['Responses', responsesCodec, { input: [{ ...user, role: '' }] }],
] as const)('an empty role is refused by %s too', (_, codec, body) => {
  expect(() => decode(codec, body as unknown as JsonObject)).toThrow(/role/);
});

describe('the line of Claude Code that changes with every request', () => {
  const line = 'x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;';
  const ofSystem = (system: unknown): string => {
    const request = decode(messagesCodec, { max_tokens: 9, system, messages: [user] } as JsonObject);
    const { body } = chatCodec.encodeRequest({
      request: toPortable(request, Protocol.CHAT).request,
      model: 'm',
      maxOutputTokens: 9,
      stream: false,
    });
    return JSON.stringify(body['messages']);
  };
  const text = (value: string): JsonObject => ({ type: 'text', text: value });

  test.each([
    ['a block of its own', [text(line), text('You help.')]],
    ['the first line of a text', `${line}\nYou help.`],
  ])('does not reach a Chat provider: %s', (_, system) => {
    expect(ofSystem(system)).not.toContain('cch=');
    expect(ofSystem(system)).toContain('You help.');
  });

  const ofMessages = (model: string, system: unknown): unknown => {
    const request = decode(messagesCodec, { max_tokens: 9, system, messages: [user] } as JsonObject);
    return messagesCodec.encodeRequest({ request, model, maxOutputTokens: 9, stream: false }).body['system'];
  };

  test('does not reach a Messages provider with models of others; Anthropic’s get it', () => {
    const blocks = [text(line), text('You help.')];
    expect(ofMessages('deepseek-chat', blocks)).toEqual([text('You help.')]);
    expect(ofMessages('deepseek-chat', `${line}\nYou help.`)).toBe('You help.');
    expect(ofMessages('deepseek-chat', [{ ...text(`${line}\nYou help.`), cache_control: null }])).toEqual([
      { ...text('You help.'), cache_control: null },
    ]);
    expect(ofMessages('deepseek-chat', line)).toBeUndefined();
    expect(ofMessages('deepseek-chat', [text(line)])).toBeUndefined();
    expect(ofMessages('deepseek-chat', [text('You help.'), text(line)])).toEqual([text('You help.'), text(line)]);
    expect(ofMessages('anthropic.claude-opus-4-6-v1', blocks)).toEqual(blocks);
  });

  test('is all that is removed', () => {
    expect(ofSystem(line)).toBe(JSON.stringify([user]));
    expect(ofSystem([text('You help.'), text(line)])).toContain('cch=');
  });
});

describe('a choice of a tool that another provider runs', () => {
  const hosted = { type: 'code_execution_20250825', name: 'code_execution' };
  const own = { name: 'f', input_schema: { type: 'object' } };
  const sentChoice = (codec: ClientCodec, fields: JsonObject): Json | undefined => {
    const { request } = toPortable(decode(codec, fields), Protocol.CHAT);
    return chatCodec.encodeRequest({ request, model: 'm', maxOutputTokens: 9, stream: false }).body['tool_choice'];
  };
  const ofMessages = { max_tokens: 9, messages: [user], tools: [hosted, own] };
  const ofResponses = {
    input: 'Hello',
    tools: [{ type: 'web_search' }, { type: 'function', name: 'f', parameters: {} }],
  };

  test.each<[string, ClientCodec, JsonObject]>([
    ['Messages', messagesCodec, { ...ofMessages, tool_choice: { type: 'tool', name: 'code_execution' } }],
    ['Responses', responsesCodec, { ...ofResponses, tool_choice: { type: 'web_search' } }],
  ])('is refused, not sent as a choice that names no tool: %s', (_, codec, fields) => {
    expect(() => sentChoice(codec, fields)).toThrow(
      /can’t run the tool (?:code_execution|web_search), which tool_choice demands/,
    );
  });

  test('that may be made is made among the others', () => {
    expect(sentChoice(messagesCodec, { ...ofMessages, tool_choice: { type: 'tool', name: 'f' } })).toEqual({
      type: 'function',
      function: { name: 'f' },
    });
    const allowed = {
      type: 'allowed_tools',
      mode: 'auto',
      tools: [{ type: 'web_search' }, { type: 'function', name: 'f' }],
    };
    expect(sentChoice(responsesCodec, { ...ofResponses, tool_choice: allowed })).toEqual({
      type: 'allowed_tools',
      allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'f' } }] },
    });
  });
});

describe('a history with a call of a tool that its provider ran, sent to another provider', () => {
  const text = { type: 'text', text: 'It is Rome.' };
  const blocks = [
    { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'x' } },
    { type: 'web_search_tool_result', tool_use_id: 's', content: [] },
    text,
  ];
  const outputs = [
    { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'x' } },
    { type: 'code_interpreter_call', id: 'ci_1', status: 'completed', code: '1', container_id: 'c', outputs: [] },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'It is Rome.', annotations: [] }] },
  ];
  const histories: readonly [string, ClientCodec, JsonObject, string[]][] = [
    [
      'Messages',
      messagesCodec,
      { max_tokens: 9, messages: [user, { role: 'assistant', content: blocks }, user] },
      ['server_tool_use', 'web_search_tool_result'],
    ],
    ['Responses', responsesCodec, { input: [user, ...outputs, user] }, ['web_search_call', 'code_interpreter_call']],
  ];

  test.each(histories)('keeps what was said, with a warning for the rest: %s', (_, codec, fields, dropped) => {
    const portable = toPortable(decode(codec, fields), Protocol.CHAT);
    expect(portable.dropped).toEqual(dropped);
    const { body } = chatCodec.encodeRequest({
      request: portable.request,
      model: 'm',
      maxOutputTokens: 9,
      stream: false,
    });
    expect(body['messages']).toEqual([user, { role: 'assistant', content: 'It is Rome.' }, user]);
  });

  test('is unchanged for a provider of its own protocol', () => {
    const [, codec, fields] = histories[0] ?? expect.fail();
    const request = decode(codec, fields);
    expect(toPortable(request, Protocol.MESSAGES)).toMatchObject({ request, dropped: [] });
  });
});

describe('strict of a tool, sent to Anthropic', () => {
  const properties = { city: { type: ['string', 'null'] } };
  const schema = { type: 'object', properties, required: ['city'], additionalProperties: false };
  const sentTools = (model: string, ...schemas: JsonObject[]): [unknown[], readonly string[]] => {
    const tools = schemas.map((parameters, index) => ({
      type: 'function',
      function: { name: `f${index}`, parameters, strict: true },
    }));
    const { body, dropped } = messagesCodec.encodeRequest({
      request: readRequest({ tools }),
      model,
      maxOutputTokens: 9,
      stream: false,
    });
    return [(body['tools'] as JsonObject[]).map(({ strict }) => strict), dropped];
  };

  test('reaches models that take it, with a schema that they take', () => {
    expect(sentTools('claude-sonnet-4-6', schema)).toEqual([[true], []]);
    expect(sentTools('claude-sonnet-4-6', { ...schema, $defs: { part: schema } })).toEqual([[true], []]);
  });

  test.each<[string, string, JsonObject]>([
    ['an older model', 'claude-sonnet-4-20250514', schema],
    ['another model', 'deepseek-chat', schema],
    [
      'a bound that can’t be enforced',
      'claude-sonnet-4-6',
      { ...schema, properties: { n: { type: 'integer', minimum: 1 } } },
    ],
    ['an object with free members inside', 'claude-sonnet-4-6', { ...schema, properties: { o: { type: 'object' } } }],
  ])('is left out with a warning for %s', (_, model, parameters) => {
    expect(sentTools(model, parameters)).toEqual([[undefined], ['tools.0.strict']]);
  });

  test.each<[string, JsonObject]>([
    ['a schema that contains itself', { ...schema, properties: { child: { $ref: '#' } } }],
    [
      'a definition that contains itself',
      { ...schema, $defs: { node: { ...schema, properties: { next: { $ref: '#/$defs/node' } } } } },
    ],
  ])('is left out with a warning for %s', (_, parameters) => {
    expect(sentTools('claude-sonnet-4-6', parameters)).toEqual([[undefined], ['tools.0.strict']]);
  });

  test('reaches at most 20 tools', () => {
    const [strict, dropped] = sentTools('claude-sonnet-4-6', ...Array.from({ length: 21 }, () => schema));
    expect([strict.filter(each => each === true).length, dropped.length]).toEqual([0, 21]);
  });

  test('a property may have the name of a keyword', () => {
    const named = { ...schema, properties: { minimum: { type: 'string' } } };
    expect(sentTools('claude-sonnet-4-6', named)).toEqual([[true], []]);
  });
});

describe('a schema for the answer, sent to Anthropic', () => {
  const ofSchema = (model: string, schema: JsonObject): readonly [JsonObject, readonly string[]] => {
    const response_format = { type: 'json_schema', json_schema: { name: 'place', schema } };
    const request = readRequest({ response_format });
    const { body, dropped } = messagesCodec.encodeRequest({ request, model, maxOutputTokens: 9, stream: false });
    return [body, dropped];
  };
  const schema = {
    type: 'object',
    properties: { age: { type: 'integer', description: 'Years', minimum: 0 }, id: { type: 'string', format: 'uuid' } },
    required: ['age'],
  };

  test('has only rules that it enforces: objects are closed, the others are told to the model, with a warning', () => {
    const [{ output_config }, dropped] = ofSchema('claude-sonnet-4-6', schema);
    const enforced = {
      ...schema,
      properties: { ...schema.properties, age: { type: 'integer', description: 'Years (minimum: 0)' } },
      additionalProperties: false,
    };
    expect(output_config).toEqual({ format: { type: 'json_schema', schema: enforced } });
    expect(dropped).toEqual(['response_format.minimum']);
  });

  test('that can’t be closed is a tool whose arguments are the answer', () => {
    const [body, dropped] = ofSchema('claude-sonnet-4-6', { type: 'object', additionalProperties: { type: 'number' } });
    expect(body).not.toHaveProperty('output_config');
    expect(body['tools']).toMatchObject([{ name: 'tollgate_final_answer' }]);
    expect(dropped).toEqual(['response_format']);
  });

  test('is unchanged for other servers of this protocol', () => {
    const [{ output_config }, dropped] = ofSchema('deepseek-chat', schema);
    expect([output_config, dropped]).toEqual([{ format: { type: 'json_schema', schema } }, []]);
  });
});

test('a value of `include` that the gateway does not know stays beside a known one', () => {
  const include = ['message.output_text.logprobs', 'new.thing'];
  const request = decode(responsesCodec, { input: 'Hello', include });
  const { body } = responsesCodec.encodeRequest({ request, model: 'm', maxOutputTokens: 90, stream: false });
  expect(body['include']).toEqual(expect.arrayContaining(include));
});
