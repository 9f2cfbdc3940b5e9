/** What a Chat client may send and how it is decoded. Ids name cases of `test/translation/cases.json`. */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { DecodedRequest, JsonObject } from '../../src/codecs/codec.ts';
import { CacheLifetime, type Item, Role, ToolKind } from '../../src/gen/tollgate/v1/content_pb.ts';
import {
  Delivery,
  Endpoint,
  type GenerateRequest,
  OutputFormatType,
  ReasoningEffort,
  ServiceTier,
  ToolChoiceMode,
} from '../../src/gen/tollgate/v1/request_pb.ts';
import { checkRequest } from '../../src/generation/check/check-request.ts';

const user = { role: 'user', content: 'Hello' };
const fn = { type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object' } } };

/** Decodes JSON text as the edge does. */
function decodeText(json: string): DecodedRequest {
  const raw = Buffer.from(json);
  const decoded = chatCodec.decodeRequest({ body: JSON.parse(json) as unknown, raw, headers: {} });
  checkRequest(decoded.request);
  return decoded;
}
const decode = (fields: JsonObject): DecodedRequest =>
  decodeText(JSON.stringify({ model: 'm', messages: [user], ...fields }));
const readRequest = (fields: JsonObject): GenerateRequest => decode(fields).request;
const listUnknown = (fields: JsonObject): string[] => readRequest(fields).source?.unknownFields ?? [];
const decodeItems = (...messages: JsonObject[]): readonly Item[] => {
  const json = JSON.stringify({ model: 'm', messages });
  return chatCodec.decodeRequest({ body: JSON.parse(json) as unknown, raw: Buffer.from(json), headers: {} }).request
    .items;
};
const decodeValues = (...messages: JsonObject[]): unknown[] =>
  decodeItems(...messages).map(({ content }) => content.value);

describe('parameters', () => {
  test('are all decoded', () => {
    const request = readRequest({
      stream: true,
      max_completion_tokens: 10,
      temperature: 0,
      top_p: 1,
      frequency_penalty: -2,
      presence_penalty: 2,
      stop: ['a', 'b', 'c', 'd'],
      n: 3,
      seed: -7,
      logprobs: true,
      top_logprobs: 20,
      logit_bias: { 50256: -100 },
      reasoning_effort: 'xhigh',
      verbosity: 'low',
      parallel_tool_calls: false,
      service_tier: 'flex',
      prompt_cache_key: 'k'.repeat(64),
      metadata: { a: 'b' },
      user: 'u',
      safety_identifier: 's',
      store: true,
    });
    expect(request).toMatchObject({
      model: 'm',
      endpoint: Endpoint.CHAT_COMPLETIONS,
      delivery: Delivery.STREAMED,
      maxOutputTokens: 10,
      stop: ['a', 'b', 'c', 'd'],
      candidates: 3,
      reasoning: { effort: ReasoningEffort.XHIGH },
      verbosity: 'low',
      parallelToolCalls: false,
      serviceTier: ServiceTier.FLEX,
      promptCacheKey: 'k'.repeat(64),
      metadata: { a: 'b' },
      user: 'u',
      safetyIdentifier: 's',
      store: true,
      sampling: {
        temperature: 0,
        topP: 1,
        frequencyPenalty: -2,
        presencePenalty: 2,
        seed: -7n,
        logprobs: true,
        topLogprobs: 20,
        logitBias: { 50256: -100 },
      },
    });
    expect(request.source?.unknownFields).toEqual([]);
  });

  test('are all absent if the client sent none', () => {
    const { request, stream, includeUsage } = decode({});
    delete request.source;
    expect({ stream, includeUsage }).toEqual({ stream: false, includeUsage: false });
    expect(Object.keys(request).toSorted()).toEqual([
      '$typeName',
      'delivery',
      'endpoint',
      'include',
      'items',
      'metadata',
      'model',
      'serviceTier',
      'stop',
      'strict',
      'tools',
      'truncation',
    ]);
    expect(request).toMatchObject({
      delivery: Delivery.WHOLE,
      serviceTier: ServiceTier.UNSPECIFIED,
      tools: [],
      stop: [],
    });
  });

  test('count as absent if they are null', () => {
    const names =
      'max_completion_tokens max_tokens temperature top_p frequency_penalty presence_penalty stop n seed logprobs top_logprobs logit_bias ' +
      'response_format reasoning_effort verbosity tools tool_choice parallel_tool_calls functions function_call stream stream_options ' +
      'service_tier prompt_cache_key metadata user safety_identifier store audio prediction anything_else';
    const { request } = decode(Object.fromEntries(names.split(' ').map(name => [name, null])));
    const plain = decode({}).request;
    expect(request.source?.unknownFields).toEqual([]);
    delete request.source;
    delete plain.source;
    expect(request).toEqual(plain);
  });

  test('null also counts as absent inside tools, formats, parts and messages, but is data inside schemas', () => {
    const request = readRequest({
      messages: [
        { ...user, name: null },
        {
          role: 'assistant',
          content: 'x',
          refusal: null,
          tool_calls: null,
          function_call: null,
          audio: null,
          reasoning_content: null,
        },
        {
          role: 'user',
          content: [{ type: 'image_url', image_url: { url: 'https://a.b/c', detail: null }, cache_control: null }],
        },
      ],
      tools: [
        {
          type: 'function',
          function: {
            name: 'f',
            description: null,
            strict: null,
            parameters: { properties: { a: { default: null } } },
          },
        },
      ],
      response_format: { type: 'json_schema', json_schema: { name: 's', strict: null, schema: { enum: [null] } } },
      stream_options: { include_usage: null },
    });
    expect(request.source?.unknownFields).toEqual([]);
    expect(request.tools[0]?.tool.value).toEqual({
      $typeName: 'tollgate.v1.FunctionTool',
      name: 'f',
      parametersJson: '{"properties":{"a":{"default":null}}}',
    });
    expect(request.outputFormat).toEqual({
      $typeName: 'tollgate.v1.OutputFormat',
      type: OutputFormatType.JSON_SCHEMA,
      name: 's',
      schemaJson: '{"enum":[null]}',
    });
    expect(request.items.map(({ content }) => content.case)).toEqual(['message', 'message', 'message']);
  });

  test.each([
    [{ max_tokens: 5 }, 5],
    [{ max_completion_tokens: 5 }, 5],
    [{ max_tokens: 5, max_completion_tokens: 5 }, 5],
    [{ max_tokens: 5, max_completion_tokens: null }, 5],
    [{ max_tokens: 1e12 }, 2 ** 32 - 1],
    [{ max_tokens: 5.0 }, 5],
  ])('%j limits the output to %i tokens', (fields, limit) => {
    expect(readRequest(fields).maxOutputTokens).toBe(limit);
  });

  test.each([
    ['a', ['a']],
    [['a'], ['a']],
    [[], []],
  ])('stop %j is %j', (stop, texts) => {
    expect(readRequest({ stop }).stop).toEqual(texts);
  });

  test.each([
    ['auto', ServiceTier.DEFAULT],
    ['default', ServiceTier.DEFAULT],
    ['flex', ServiceTier.FLEX],
    ['priority', ServiceTier.PRIORITY],
  ])('service_tier %s', (name, tier) => {
    expect(readRequest({ service_tier: name }).serviceTier).toBe(tier);
  });

  test.each([
    ['0', 0n],
    ['9007199254740991', 9_007_199_254_740_991n],
    ['9223372036854775807', 2n ** 63n - 1n],
    ['-9223372036854775808', -(2n ** 63n)],
    ['1e3', 1_000n],
  ])('seed %s fits 64 bits', (seed, value) => {
    expect(
      decodeText(`{"model":"m","messages":[{"role":"user","content":"x"}],"seed":${seed}}`).request.sampling?.seed,
    ).toBe(value);
  });

  test('usage is in the stream only if the client requests it (US-06)', () => {
    expect(decode({ stream: true, stream_options: { include_usage: true } }).includeUsage).toBe(true);
    expect(decode({ stream: true, stream_options: { include_usage: false } }).includeUsage).toBe(false);
    expect(decode({ stream: true, stream_options: {} }).includeUsage).toBe(false);
    expect(decode({ stream: true }).includeUsage).toBe(false);
  });

  test('decoding 100 messages takes about 100 times as long as one', () => {
    const body = (size: number): [unknown, Buffer] => {
      const messages = Array.from({ length: size }, () => user);
      return [{ model: 'm', messages }, Buffer.from('{}')];
    };
    const time = (size: number): number => {
      const [value, raw] = body(size);
      const start = performance.now();
      for (let run = 0; run < 20_000 / size; run += 1) chatCodec.decodeRequest({ body: value, raw, headers: {} });
      return performance.now() - start;
    };
    time(10);
    // Both measurements decode the same number of messages. A decoder that is not linear would take many times as long for the long body.
    expect(time(1_000)).toBeLessThan(Math.max(50, 5 * time(10)));
  });
});

describe('unknown members', () => {
  test('are accepted at any depth, and their paths are kept', () => {
    expect(
      listUnknown({
        top_k: 5,
        modalities: ['text', 'audio'],
        stream_options: { include_obfuscation: false, foo: 1 },
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'x', bar: 1 },
              { type: 'image_url', image_url: { url: 'https://a.b/c', baz: 1 } },
            ],
            qux: 1,
          },
        ],
        tools: [{ type: 'function', function: { name: 'f', extra: 1 }, kind: 1 }],
        response_format: { type: 'json_schema', json_schema: { name: 's', more: 1 }, other: 1 },
      }),
    ).toEqual([
      'top_k',
      'modalities',
      'stream_options.foo',
      'messages.0.qux',
      'messages.0.content.0.bar',
      'messages.0.content.1.image_url.baz',
      'tools.0.kind',
      'tools.0.function.extra',
      'response_format.other',
      'response_format.json_schema.more',
    ]);
  });

  test('of messages, parts, calls and tools are kept with them', () => {
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' }, y: 2 };
    const [first, second, third] = decodeItems(
      { role: 'user', content: [{ type: 'text', text: 'x', part: 1 }], message: 1 },
      { role: 'assistant', content: 'a', x: 1, tool_calls: [call] },
    );
    expect(first?.extra?.json).toBe('{"message":1}');
    expect(first?.content.case === 'message' ? first.content.value.parts[0]?.extra?.json : undefined).toBe(
      '{"part":1}',
    );
    expect([second?.extra?.json, third?.extra?.json]).toEqual(['{"x":1}', '{"y":2}']);
    expect(readRequest({ tools: [{ ...fn, kind: 1 }] }).tools[0]?.extra?.json).toBe('{"kind":1}');
  });

  test('called __proto__ are data and do not change prototypes', () => {
    const { request } = decodeText(
      '{"model":"m","messages":[{"role":"user","content":"x","__proto__":{"polluted":1}}],"__proto__":{"polluted":2},"tools":[{"type":"function","function":{"name":"f","parameters":{"__proto__":{"polluted":3}}}}]}',
    );
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
    expect(request.tools[0]?.tool.value).toMatchObject({ parametersJson: '{"__proto__":{"polluted":3}}' });
  });
});

describe('messages', () => {
  test('keep roles, names and order', () => {
    expect(
      decodeValues(
        { role: 'system', content: 'a' },
        { role: 'developer', content: [{ type: 'text', text: 'b' }] },
        { role: 'user', content: 'c', name: 'ann' },
        { role: 'assistant', content: 'd' },
      ),
    ).toMatchObject([
      { role: Role.SYSTEM, name: '', parts: [{ content: { case: 'text', value: { text: 'a' } } }] },
      { role: Role.DEVELOPER, parts: [{ content: { value: { text: 'b' } } }] },
      { role: Role.USER, name: 'ann', parts: [{ content: { value: { text: 'c' } } }] },
      { role: Role.ASSISTANT, parts: [{ content: { value: { text: 'd' } } }] },
    ]);
  });

  test('of the assistant become one item each for reasoning, text and calls, of one turn', () => {
    const items = decodeItems(user, {
      role: 'assistant',
      content: 'a',
      reasoning_content: 'hm',
      tool_calls: [
        { id: 'c1', type: 'function', index: 0, function: { name: 'f', arguments: '{"a": 1}' } },
        { id: 'c2', type: 'custom', custom: { name: 'g', input: 'raw' } },
      ],
    });
    expect(items.map(({ content, turn }) => [content.case, turn])).toEqual([
      ['message', 0],
      ['reasoning', 2],
      ['message', 2],
      ['toolCall', 2],
      ['toolCall', 2],
    ]);
    expect(items.slice(3).map(({ content }) => content.value)).toMatchObject([
      { callId: 'c1', name: 'f', kind: ToolKind.FUNCTION, arguments: '{"a": 1}' },
      { callId: 'c2', name: 'g', kind: ToolKind.CUSTOM, arguments: 'raw' },
    ]);
  });

  test('carry arguments byte for byte, also if they are cut or invalid (TR-17)', () => {
    for (const text of ['', '{"a":', '[]', '{ "b":1,"a":2 }', '{"a":"\\ud83d"}']) {
      const call = { id: 'c', type: 'function', function: { name: 'f', arguments: text } };
      expect(decodeValues(user, { role: 'assistant', content: null, tool_calls: [call] })[1]).toMatchObject({
        arguments: text,
      });
    }
  });

  test('with calls and content null or empty have no text', () => {
    const calls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }];
    for (const content of [null, '']) {
      expect(decodeItems({ role: 'assistant', content, tool_calls: calls }).map(item => item.content.case)).toEqual([
        'toolCall',
      ]);
    }
    expect(decodeValues({ role: 'assistant', content: '' })).toMatchObject([{ role: Role.ASSISTANT, parts: [] }]);
  });

  test('with a refusal keep it, as a member or a part', () => {
    const parts = [{ content: { case: 'refusal', value: { text: 'No' } } }];
    expect(decodeValues({ role: 'assistant', content: null, refusal: 'No' })).toMatchObject([{ parts }]);
    expect(decodeValues({ role: 'assistant', content: [{ type: 'refusal', refusal: 'No' }] })).toMatchObject([
      { parts },
    ]);
  });

  test('of tools carry text, as a string or in parts (TR-05)', () => {
    const calls = ['a', 'b'].map(id => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } }));
    expect(
      decodeValues(
        user,
        { role: 'assistant', tool_calls: calls },
        { role: 'tool', tool_call_id: 'a', content: '' },
        {
          role: 'tool',
          tool_call_id: 'b',
          content: [
            { type: 'text', text: 'x' },
            { type: 'text', text: 'y' },
          ],
        },
      ).slice(3),
    ).toMatchObject([
      { callId: 'a', plain: true, parts: [{ content: { value: { text: '' } } }] },
      {
        callId: 'b',
        plain: false,
        parts: [{ content: { value: { text: 'x' } } }, { content: { value: { text: 'y' } } }],
      },
    ]);
  });

  test('carry images, audio and files', () => {
    const parts = (...content: JsonObject[]): unknown =>
      (decodeValues({ role: 'user', content })[0] as { parts: { content: { value: unknown } }[] }).parts.map(
        part => part.content.value,
      );
    expect(
      parts(
        { type: 'image_url', image_url: { url: 'data:image/PNG;base64,AAAA', detail: 'low' } },
        { type: 'image_url', image_url: { url: 'HTTPS://example.com/a.png' } },
        { type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } },
        { type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA', filename: 'a.pdf' } },
        { type: 'file', file: { file_data: 'AAAA' } },
        { type: 'file', file: { file_id: 'file-1' } },
      ),
    ).toMatchObject([
      { source: { source: { case: 'base64', value: 'AAAA' }, mediaType: 'image/png' }, detail: 'low' },
      { source: { source: { case: 'url', value: 'HTTPS://example.com/a.png' }, mediaType: '' }, detail: '' },
      { source: { source: { case: 'base64', value: 'AAAA' }, mediaType: 'audio/mp3' }, format: 'mp3' },
      { source: { source: { case: 'base64', value: 'AAAA' }, mediaType: 'application/pdf' }, filename: 'a.pdf' },
      { source: { source: { case: 'base64', value: 'AAAA' }, mediaType: '' }, filename: '' },
      { source: { source: { case: 'fileId', value: 'file-1' } } },
    ]);
  });

  test('have cache hints under both names (US-15)', () => {
    const [item] = decodeItems({
      role: 'user',
      content: [
        { type: 'text', text: 'a', cache_control: { type: 'ephemeral', ttl: '1h' } },
        { type: 'text', text: 'b', cache_control: { type: 'ephemeral' } },
        { type: 'text', text: 'c', prompt_cache_breakpoint: { mode: 'explicit' } },
        { type: 'text', text: 'd' },
      ],
    });
    const hints = item?.content.case === 'message' ? item.content.value.parts.map(part => part.cache?.lifetime) : [];
    expect(hints).toEqual([
      CacheLifetime.CACHE_LIFETIME_1H,
      CacheLifetime.CACHE_LIFETIME_UNSPECIFIED,
      CacheLifetime.CACHE_LIFETIME_UNSPECIFIED,
      undefined,
    ]);
    expect(
      readRequest({ tools: [{ ...fn, cache_control: { type: 'ephemeral', ttl: '5m' } }] }).tools[0]?.cache?.lifetime,
    ).toBe(CacheLifetime.CACHE_LIFETIME_5M);
  });

  test('can contain earlier reasoning: as text, or as blocks that a client assembled from a stream (RE-02)', () => {
    expect(decodeValues({ role: 'assistant', content: 'a', reasoning: 'hm' })).toMatchObject([
      { parts: [{ content: { case: 'reasoningText', value: { text: 'hm' } } }] },
      {},
    ]);
    const pieces = [
      { type: 'reasoning.text', text: 'Thin', index: 0 },
      { type: 'reasoning.text', text: 'king', index: 0 },
      { type: 'reasoning.text', signature: 'SIG', format: 'anthropic-claude-v1', index: 0 },
      { type: 'reasoning.encrypted', data: 'XX', format: 'openai-responses-v1', id: 'rs_1', index: 1 },
    ];
    const items = decodeItems({
      role: 'assistant',
      content: 'a',
      reasoning_content: 'Thinking',
      reasoning_details: pieces,
    });
    expect(items.map(({ content }) => content.case)).toEqual(['reasoning', 'reasoning', 'message']);
    expect(items.map(({ content }) => content.value)).toMatchObject([
      {
        parts: [{ content: { value: { text: 'Thinking' } } }],
        opaque: [{ kind: 'anthropic.signature', data: 'SIG', provider: '' }],
      },
      { parts: [], opaque: [{ kind: 'openai.encrypted', data: 'XX' }] },
      {},
    ]);
    expect(items[1]?.extra?.json).toBe('{"id":"rs_1"}');
  });

  test('carry Gemini’s signatures on the call (RE-23)', () => {
    const call = {
      id: 'c',
      type: 'function',
      function: { name: 'f', arguments: '{}' },
      extra_content: { google: { thought_signature: 'SIG' } },
    };
    const [item] = decodeItems({ role: 'assistant', tool_calls: [call] });
    expect(item?.content.value).toMatchObject({ signature: { kind: 'gemini.thought_signature', data: 'SIG' } });
    expect(item?.extra).toBeUndefined();
  });
});

describe('tools', () => {
  test('keep name, description, schema and strictness', () => {
    const { tools } = readRequest({
      tools: [
        { type: 'function', function: { name: 'f', description: 'd', parameters: { b: 1, a: [null] }, strict: true } },
        { type: 'function', function: { name: 'g' } },
        {
          type: 'custom',
          custom: { name: 'h', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'x' } } },
        },
      ],
    });
    expect(tools.map(({ tool }) => tool)).toEqual([
      {
        case: 'function',
        value: {
          $typeName: 'tollgate.v1.FunctionTool',
          name: 'f',
          description: 'd',
          parametersJson: '{"b":1,"a":[null]}',
          strict: true,
        },
      },
      { case: 'function', value: { $typeName: 'tollgate.v1.FunctionTool', name: 'g', parametersJson: '' } },
      {
        case: 'custom',
        value: {
          $typeName: 'tollgate.v1.CustomTool',
          name: 'h',
          formatJson: '{"type":"grammar","grammar":{"syntax":"lark","definition":"x"}}',
        },
      },
    ]);
  });

  test.each([
    ['none', { mode: ToolChoiceMode.NONE, tools: [], restricted: false }],
    ['auto', { mode: ToolChoiceMode.AUTO, tools: [], restricted: false }],
    ['required', { mode: ToolChoiceMode.REQUIRED, tools: [], restricted: false }],
    [
      { type: 'function', function: { name: 'f' } },
      { mode: ToolChoiceMode.NAMED, tools: [{ name: 'f', kind: ToolKind.FUNCTION }], restricted: false },
    ],
    [
      { type: 'custom', custom: { name: 'h' } },
      { mode: ToolChoiceMode.NAMED, tools: [{ name: 'h', kind: ToolKind.CUSTOM }], restricted: false },
    ],
    [
      {
        type: 'allowed_tools',
        allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'f' } }] },
      },
      { mode: ToolChoiceMode.REQUIRED, tools: [{ name: 'f', kind: ToolKind.FUNCTION }], restricted: true },
    ],
  ])('tool_choice %j (CH-04)', (choice, expected) => {
    expect(
      readRequest({ tools: [fn, { type: 'custom', custom: { name: 'h' } }], tool_choice: choice }).toolChoice,
    ).toMatchObject(expected);
  });

  test('of the deprecated form (functions) are decoded like tools, with their calls and results, and the answer uses that form too', () => {
    const decoded = decode({
      messages: [
        user,
        { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
        { role: 'function', name: 'f', content: 'ok' },
      ],
      functions: [{ name: 'f', parameters: { type: 'object' } }],
      function_call: { name: 'f' },
    });
    const { request } = decoded;
    expect(decoded.legacyFunctions).toBe(true);
    expect(request.tools[0]?.tool.value).toMatchObject({ name: 'f', parametersJson: '{"type":"object"}' });
    expect(request.toolChoice).toMatchObject({ mode: ToolChoiceMode.NAMED, tools: [{ name: 'f' }] });
    expect(request.items.slice(1).map(({ content }) => content.value)).toMatchObject([
      { callId: 'call_2', name: 'f' },
      { callId: 'call_2', plain: true },
    ]);
    expect(decode({ tools: [fn] }).legacyFunctions).toBeUndefined();
  });
});

describe('formats', () => {
  test.each([
    [{ type: 'text' }, { type: OutputFormatType.TEXT }],
    [{ type: 'json_object' }, { type: OutputFormatType.JSON_OBJECT }],
    [
      { type: 'json_schema', json_schema: { name: 's', description: 'd', schema: { type: 'object' }, strict: true } },
      {
        type: OutputFormatType.JSON_SCHEMA,
        name: 's',
        description: 'd',
        schemaJson: '{"type":"object"}',
        strict: true,
      },
    ],
  ])('%j', (format, expected) => {
    expect(readRequest({ response_format: format }).outputFormat).toMatchObject(expected);
  });
});
