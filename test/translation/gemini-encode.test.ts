/** Requests from Chat and Messages to Gemini upstreams: the cases of `test/translation/cases.json`, by their ids. */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, EncodedRequest, JsonObject } from '../../src/codecs/codec.ts';
import { geminiCodec } from '../../src/codecs/gemini/index.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { toSignature } from '../../src/codecs/messages/reasoning-blobs.ts';
import { makeOpaque } from '../../src/codecs/content.ts';
import { GatewayError } from '../../src/errors/gateway-error.ts';

function translate(from: ClientCodec, body: JsonObject, model = 'gemini-2.5-flash'): EncodedRequest {
  const raw = Buffer.from(JSON.stringify(body));
  const { request } = from.decodeRequest({ body, raw, headers: {} });
  const { maxOutputTokens } = request;
  return geminiCodec.encodeRequest({ request, model, maxOutputTokens, stream: true, provider: 'google' });
}
const fromChat = (body: JsonObject, model?: string): EncodedRequest =>
  translate(chatCodec, { model: 'm', messages: [user()], ...body }, model);
const fromMessages = (body: JsonObject, model?: string): EncodedRequest =>
  translate(messagesCodec, { model: 'm', max_tokens: 2_000, messages: [user()], ...body }, model);
const config = ({ body }: EncodedRequest): unknown => body['generationConfig'];

const user = (content: JsonObject['content'] = 'hi'): JsonObject => ({ role: 'user', content: content ?? '' });
const call = (id: string, args = '{}', more: JsonObject = {}): JsonObject => ({
  id,
  type: 'function',
  function: { name: 'f', arguments: args },
  ...more,
});
const calling = (...calls: JsonObject[]): JsonObject => ({ role: 'assistant', content: null, tool_calls: calls });
const result = (id: string, content = 'done'): JsonObject => ({ role: 'tool', tool_call_id: id, content });
const tool = (more: JsonObject = {}): JsonObject => ({ type: 'function', function: { name: 'f', ...more } });
const contents = (messages: JsonObject[], model?: string): unknown => fromChat({ messages }, model).body['contents'];

function refusal(act: () => unknown): string {
  try {
    act();
  } catch (thrown) {
    if (thrown instanceof GatewayError) return `${thrown.code} ${thrown.facts.param ?? ''}`;
    throw thrown;
  }
  return 'none';
}

describe('conversations', () => {
  test('GE-05: leading instructions become the system instruction, later ones a user text, with a warning', () => {
    const { body, dropped } = fromChat({
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'developer', content: 'Be kind.' },
        user(),
        { role: 'system', content: 'Now in French.' },
      ],
    });
    expect(body).toEqual({
      systemInstruction: { parts: [{ text: 'Be brief.' }, { text: 'Be kind.' }] },
      contents: [
        { role: 'user', parts: [{ text: 'hi' }] },
        { role: 'user', parts: [{ text: '<system-reminder>\nNow in French.\n</system-reminder>' }] },
      ],
    });
    expect(dropped).toEqual(['messages']);
  });

  test('GE-01, GE-02: the calls are in one content and their results in another, with the name and the id from the upstream', () => {
    const made = `call_tg${'0'.repeat(20)}`;
    expect(
      contents([
        user(),
        { ...calling(call('up-1', '{"a":1}'), call(made)), content: 'Let me see.' },
        result('up-1', '{"temperature":20}'),
        result(made, 'ok'),
        user('thanks'),
      ]),
    ).toEqual([
      { role: 'user', parts: [{ text: 'hi' }] },
      {
        role: 'model',
        parts: [
          { text: 'Let me see.' },
          { functionCall: { id: 'up-1', name: 'f', args: { a: 1 } } },
          { functionCall: { name: 'f', args: {} } },
        ],
      },
      {
        role: 'user',
        parts: [
          { functionResponse: { id: 'up-1', name: 'f', response: { temperature: 20 } } },
          { functionResponse: { name: 'f', response: { output: 'ok' } } },
        ],
      },
      { role: 'user', parts: [{ text: 'thanks' }] },
    ]);
  });

  test('a failed tool result is an error; its images are inside the result if the model accepts them there', () => {
    const messages: JsonObject[] = [
      user(),
      { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: {} }] },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'a',
            is_error: true,
            content: [
              { type: 'text', text: 'no' },
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgoA' } },
            ],
          },
        ],
      },
    ];
    const inlineData = { mimeType: 'image/png', data: 'iVBORw0KGgoA' };
    const response = { id: 'a', name: 'f', response: { error: 'no' } };
    const last = (model: string): unknown => (fromMessages({ messages }, model).body['contents'] as unknown[]).at(-1);
    expect(last('gemini-2.5-flash')).toEqual({ role: 'user', parts: [{ functionResponse: response }, { inlineData }] });
    expect(last('gemini-3-flash')).toEqual({
      role: 'user',
      parts: [{ functionResponse: { ...response, parts: [{ inlineData }] } }],
    });
  });

  test('TR-17: arguments that are not an object are sent as text, with a warning', () => {
    const { body, dropped } = fromChat({
      messages: [user(), calling(call('a', '{"a":'), call('b', '')), result('a'), result('b')],
    });
    expect((body['contents'] as JsonObject[])[1]).toEqual({
      role: 'model',
      parts: [
        { functionCall: { id: 'a', name: 'f', args: { _unparsed: '{"a":' } } },
        { functionCall: { id: 'b', name: 'f', args: {} } },
      ],
    });
    expect(dropped).toEqual(['arguments']);
  });

  test('a last message of the assistant is refused', () => {
    expect(refusal(() => fromChat({ messages: [user(), { role: 'assistant', content: 'So' }] }))).toBe(
      'unsupported_parameter messages',
    );
  });

  test('images are sent as bytes, URLs unchanged, audio inline (ME-01, ME-04, ME-05, ME-11)', () => {
    const image = (url: string): JsonObject => ({ type: 'image_url', image_url: { url, detail: 'high' } });
    const { body, dropped } = fromChat({
      messages: [
        user([
          image('data:image/png;base64,/9j/4AAQ'),
          image('https://example.com/a.webp?x=1'),
          { type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } },
          { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERi0=', filename: 'a.pdf' } },
        ]),
      ],
    });
    expect(body['contents']).toMatchObject([
      {
        parts: [
          { inlineData: { mimeType: 'image/jpeg', data: '/9j/4AAQ' } },
          { fileData: { fileUri: 'https://example.com/a.webp?x=1', mimeType: 'image/webp' } },
          { inlineData: { data: 'AAAA' } },
          { inlineData: { mimeType: 'application/pdf', data: 'JVBERi0=' } },
        ],
      },
    ]);
    expect(dropped).toEqual([]);
  });
});

describe('signatures (RE-22)', () => {
  const signed = (id: string, data: string): JsonObject =>
    call(id, '{}', { extra_content: { google: { thought_signature: data } } });
  const readCalls = (messages: JsonObject[], model: string): unknown =>
    (contents(messages, model) as { parts: JsonObject[] }[])
      .flatMap(({ parts }) => parts)
      .filter(part => part['functionCall'] !== undefined)
      .map(part => part['thoughtSignature'] ?? '-');

  test('are sent back with the calls to which they belong', () => {
    const messages = [
      user(),
      calling(signed('a', 'S1'), call('b')),
      result('a'),
      result('b'),
      calling(signed('c', 'S2')),
      result('c'),
    ];
    expect(readCalls(messages, 'gemini-3-pro-preview')).toEqual(['S1', '-', 'S2']);
    expect(readCalls(messages, 'gemini-2.5-pro')).toEqual(['S1', '-', 'S2']);
  });

  test('are not invented for calls of another model: models that check signatures are told to skip the check', () => {
    const messages = [user(), calling(call('a'), call('b')), result('a'), result('b')];
    expect(readCalls(messages, 'gemini-3-pro-preview')).toEqual(['skip_thought_signature_validator', '-']);
    expect(readCalls(messages, 'gemini-2.5-pro')).toEqual(['-', '-']);
  });

  const thinking = (signature: string): JsonObject[] => [
    user(),
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: '', signature },
        { type: 'tool_use', id: 'a', name: 'f', input: {} },
      ],
    },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'ok' }] },
  ];

  test('that a Messages client kept as reasoning are sent with the call that follows it', () => {
    const own = toSignature([makeOpaque('gemini.thought_signature', 'S1', 'google', '')]);
    const { body, dropped } = fromMessages({ messages: thinking(own) }, 'gemini-3-flash');
    expect((body['contents'] as JsonObject[])[1]).toEqual({
      role: 'model',
      parts: [{ functionCall: { id: 'a', name: 'f', args: {} }, thoughtSignature: 'S1' }],
    });
    expect(dropped).toEqual([]);
  });

  test.each([
    ['another provider’s', toSignature([makeOpaque('gemini.thought_signature', 'S1', 'other', '')])],
    ['another protocol’s', 'EqQBCgIYAhIM'],
  ])('%s is dropped with a warning', (_, signature) => {
    const { body, dropped } = fromMessages({ messages: thinking(signature) });
    expect((body['contents'] as JsonObject[])[1]).toEqual({
      role: 'model',
      parts: [{ functionCall: { id: 'a', name: 'f', args: {} } }],
    });
    expect(dropped).toEqual(['messages.reasoning']);
  });
});

describe('tools', () => {
  test('are declared with the client’s JSON Schema', () => {
    const { body, dropped } = fromChat({
      tools: [
        tool({
          description: 'D',
          strict: true,
          parameters: {
            type: 'object',
            properties: { a: { type: ['string', 'null'], pattern: '^a', default: null, enum: ['a', null] } },
            $schema: 'x',
          },
        }),
        { type: 'function', function: { name: 'g' } },
      ],
    });
    expect(body['tools']).toEqual([
      {
        functionDeclarations: [
          {
            name: 'f',
            description: 'D',
            parametersJsonSchema: {
              type: 'object',
              properties: { a: { type: ['string', 'null'], pattern: '^a', default: null, enum: ['a', null] } },
              $schema: 'x',
            },
          },
          { name: 'g' },
        ],
      },
    ]);
    expect(dropped).toEqual(['tools.0.strict']);
  });

  test.each<[JsonObject['tool_choice'], unknown]>([
    ['auto', undefined],
    ['none', { mode: 'NONE' }],
    ['required', { mode: 'ANY' }],
    [
      { type: 'function', function: { name: 'f' } },
      { mode: 'ANY', allowedFunctionNames: ['f'] },
    ],
  ])('CH-01, CH-02: the tool choice %j', (choice, expected) => {
    const { body } = fromChat({ tools: [tool()], tool_choice: choice ?? null });
    expect(body['toolConfig']).toEqual(expected && { functionCallingConfig: expected });
  });

  test('CH-04: with allowed tools, the other tools are not sent', () => {
    const allowed = { mode: 'required', tools: [{ type: 'function', function: { name: 'f' } }] };
    const { body } = fromChat({
      tools: [tool(), { type: 'function', function: { name: 'g' } }],
      tool_choice: { type: 'allowed_tools', allowed_tools: allowed },
    });
    expect(body['tools']).toEqual([{ functionDeclarations: [{ name: 'f' }] }]);
    expect(body['toolConfig']).toEqual({ functionCallingConfig: { mode: 'ANY' } });
  });

  test('custom tools get one string parameter; hosted tools and names that begin with a digit are refused', () => {
    const { body, dropped } = fromChat({
      tools: [
        {
          type: 'custom',
          custom: { name: 'sh', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'x' } } },
        },
      ],
    });
    expect(body['tools']).toEqual([
      {
        functionDeclarations: [
          {
            name: 'sh',
            parametersJsonSchema: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] },
          },
        ],
      },
    ]);
    expect(dropped).toEqual(['tools.0.custom.format']);
    expect(refusal(() => fromChat({ tools: [{ type: 'function', function: { name: '1f' } }] }))).toBe(
      'unsupported_parameter tools.0.name',
    );
    expect(refusal(() => fromMessages({ tools: [{ type: 'web_search_20250305', name: 'web_search' }] }))).toBe(
      'unsupported_parameter tools.0',
    );
  });
});

describe('settings', () => {
  test('sampling, limit and stop sequences are sent in their own members', () => {
    const encoded = fromChat({
      temperature: 1.5,
      top_p: 0.5,
      frequency_penalty: 1,
      presence_penalty: -1,
      seed: 7,
      max_tokens: 50,
      stop: ['a', 'b'],
      n: 2,
      logprobs: true,
      top_logprobs: 3,
      service_tier: 'flex',
      user: 'u',
    });
    expect(config(encoded)).toEqual({
      temperature: 1.5,
      topP: 0.5,
      frequencyPenalty: 1,
      presencePenalty: -1,
      seed: 7,
      responseLogprobs: true,
      logprobs: 3,
      maxOutputTokens: 50,
      stopSequences: ['a', 'b'],
      candidateCount: 2,
    });
    expect(encoded.dropped).toEqual([]);
    expect(config(fromMessages({ top_k: 5 }))).toEqual({ topK: 5, maxOutputTokens: 2_000 });
  });

  test('logit_bias is refused; a seed beyond 32 bits is dropped with a warning', () => {
    expect(refusal(() => fromChat({ logit_bias: { 1: 2 } }))).toBe('unsupported_parameter logit_bias');
    expect(fromChat({ seed: 2 ** 40 }).dropped).toEqual(['seed']);
  });

  test('JSON by a schema is requested; together with tools only from models that accept both', () => {
    const response_format = { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object', not: {} } } };
    const encoded = fromChat({ response_format });
    expect(config(encoded)).toEqual({
      responseMimeType: 'application/json',
      responseJsonSchema: { type: 'object', description: '(not: {})' },
    });
    expect(encoded.dropped).toEqual(['response_format.not']);
    expect(config(fromChat({ response_format: { type: 'json_object' } }))).toEqual({
      responseMimeType: 'application/json',
    });
    const both = fromChat({ response_format, tools: [tool()] });
    expect(config(both)).toBeUndefined();
    expect(JSON.stringify(both.body['systemInstruction'])).toContain('It follows this JSON Schema');
    expect(both.dropped).toEqual(['response_format']);
    expect(config(fromChat({ response_format, tools: [tool()] }, 'gemini-3-pro'))).toMatchObject({
      responseMimeType: 'application/json',
    });
  });

  test.each<[JsonObject, string, unknown, string[]]>([
    [{ reasoning_effort: 'low' }, 'gemini-2.5-flash', { thinkingBudget: 1_024, includeThoughts: true }, []],
    [{ reasoning_effort: 'minimal' }, 'gemini-2.5-flash', { thinkingBudget: 1_024, includeThoughts: true }, []],
    [{ reasoning_effort: 'xhigh' }, 'gemini-2.5-pro', { thinkingBudget: 32_768, includeThoughts: true }, []],
    [{ reasoning_effort: 'none' }, 'gemini-2.5-flash', { thinkingBudget: 0 }, []],
    [{ reasoning_effort: 'none' }, 'gemini-2.5-pro', { thinkingBudget: 128 }, ['reasoning_effort']],
    [{ reasoning_effort: 'none' }, 'gemini-2.0-flash', undefined, []],
    [{ reasoning_effort: 'low' }, 'gemini-2.0-flash', undefined, ['reasoning_effort']],
    [{ reasoning_effort: 'medium' }, 'gemini-3-pro', { thinkingLevel: 'HIGH', includeThoughts: true }, []],
    [{ reasoning_effort: 'medium' }, 'gemini-3.1-pro', { thinkingLevel: 'MEDIUM', includeThoughts: true }, []],
    [{ reasoning_effort: 'none' }, 'gemini-3-flash', { thinkingLevel: 'MINIMAL' }, ['reasoning_effort']],
    [
      { reasoning_effort: 'high', max_tokens: 900 },
      'gemini-2.5-flash',
      { thinkingBudget: 899, includeThoughts: true },
      [],
    ],
    [
      { reasoning_effort: 'high', max_tokens: 100 },
      'gemini-2.5-flash-lite',
      { thinkingBudget: 0 },
      ['reasoning_effort'],
    ],
  ])('%j of %s', (requests, model, expected, dropped) => {
    const encoded = fromChat(requests, model);
    expect((config(encoded) as JsonObject | undefined)?.['thinkingConfig']).toEqual(expected);
    expect(encoded.dropped).toEqual(dropped);
  });

  test.each<[JsonObject, string, unknown]>([
    [{ type: 'enabled', budget_tokens: 1_500 }, 'gemini-2.5-flash', { thinkingBudget: 1_500, includeThoughts: true }],
    [{ type: 'enabled', budget_tokens: 1_500 }, 'gemini-3-flash', { thinkingLevel: 'LOW', includeThoughts: true }],
    [{ type: 'adaptive' }, 'gemini-2.5-flash', { thinkingBudget: -1, includeThoughts: true }],
    [{ type: 'adaptive' }, 'gemini-3-flash', { includeThoughts: true }],
    [{ type: 'adaptive', display: 'omitted' }, 'gemini-2.5-flash', { thinkingBudget: -1 }],
    [{ type: 'disabled' }, 'gemini-2.5-flash', { thinkingBudget: 0 }],
  ])('thinking %j of %s', (thinking, model, expected) => {
    expect(config(fromMessages({ thinking }, model))).toMatchObject({ thinkingConfig: expected });
  });

  test('fields unknown to the client’s interface are dropped and listed', () => {
    expect(fromChat({ acme: 1 }).dropped).toEqual(['acme']);
  });
});
