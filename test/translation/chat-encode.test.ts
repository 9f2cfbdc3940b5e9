/** The request for a Chat upstream: a Chat client's JSON with changes, or built from the `GenerateRequest`. Ids name cases of `test/translation/cases.json`. */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { EncodedRequest, EncodeInput, Json, JsonObject } from '../../src/codecs/codec.ts';
import { objectsIn } from '../../src/codecs/json.ts';
import {
  toExtra,
  imageContent,
  makeItem,
  mediaSource,
  messageContent,
  makeOpaque,
  makePart,
  reasoningContent,
  reasoningTextContent,
  refusalContent,
  makeRequest,
  makeSampling,
  summaryTextContent,
  textContent,
  toolCallContent,
  toolResultContent,
} from '../../src/codecs/content.ts';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { CacheLifetime, type Item, type Part, Protocol, Role, ToolKind } from '../../src/gen/tollgate/v1/content_pb.ts';
import {
  Endpoint,
  type GenerateRequest,
  ReasoningEffort,
  ServiceTier,
  ThinkingMode,
  ToolChoiceMode,
} from '../../src/gen/tollgate/v1/request_pb.ts';

type Fields = Parameters<typeof makeRequest>[0];

const text = (value: string): Part => makePart(textContent(value));
const user = makeItem(messageContent(Role.USER, [text('Hello')]), 0);
const imagePart = makePart(imageContent(mediaSource({ case: 'base64', value: 'AAAA' }, 'image/png')));

/** Returns a request of another protocol's client, which the encoder has to build. */
function foreign(
  fields: Fields,
  protocol: Protocol = Protocol.MESSAGES,
  unknownFields: string[] = [],
): GenerateRequest {
  const source = {
    $typeName: 'tollgate.v1.SourceRequest' as const,
    protocol,
    body: new Uint8Array(),
    unknownFields,
    unknownValues: [],
    pricedFields: [],
    unknownLength: 9,
    headers: {},
  };
  const endpoint = protocol === Protocol.RESPONSES ? Endpoint.RESPONSES : Endpoint.MESSAGES;
  return makeRequest({ model: 'acme/large', endpoint, items: [user], source, ...fields });
}

const encode = (request: GenerateRequest, more: Partial<EncodeInput> = {}): EncodedRequest =>
  chatCodec.encodeRequest({ request, model: 'up-1', maxOutputTokens: request.maxOutputTokens, stream: false, ...more });
const built = (fields: Fields, more: Partial<EncodeInput> = {}): JsonObject => encode(foreign(fields), more).body;
const messages = (...items: Item[]): Json[] => built({ items })['messages'] as Json[];

function patched(body: JsonObject, more: Partial<EncodeInput> = {}): JsonObject {
  const raw = Buffer.from(
    JSON.stringify({ model: 'acme/large', messages: [{ role: 'user', content: 'Hello' }], ...body }),
  );
  const { request } = chatCodec.decodeRequest({ body: JSON.parse(raw.toString()) as unknown, raw, headers: {} });
  const { dropped, body: encoded } = encode(request, more);
  expect(dropped).toEqual([]);
  return encoded;
}

function catchRefusal(act: () => unknown): { code: string; param: string | undefined } {
  try {
    act();
  } catch (thrown) {
    if (thrown instanceof GatewayError) return { code: thrown.code, param: thrown.facts.param };
    throw thrown;
  }
  throw new Error('it was accepted');
}

const fromUser = (...parts: Part[]): Item => makeItem(messageContent(Role.USER, parts), 0);
/** A refusal that names the client's field. */
const unsupported = (param: string): object => ({ code: 'unsupported_parameter', param });

describe('a Chat client’s request', () => {
  const sent = {
    messages: [
      { role: 'developer', content: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }], unknown: 1 },
      { role: 'user', content: 'Hello', name: null },
      {
        role: 'assistant',
        content: '',
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":' } }],
      },
      { role: 'tool', tool_call_id: 'c', content: 'ok' },
    ],
    tools: [{ type: 'function', function: { name: 'f', parameters: { b: 1, a: null } } }],
    temperature: 0.5,
    top_k: 7,
    user: null,
  };

  test('arrives unchanged, byte for byte, except for the model (TR-17)', () => {
    expect(JSON.stringify(patched(sent))).toBe(JSON.stringify({ model: 'up-1', ...sent }));
  });

  test('becomes a request for a stream with usage, whatever the client requested', () => {
    expect(
      patched({ ...sent, stream_options: { include_usage: false, include_obfuscation: false } }, { stream: true }),
    ).toEqual({
      model: 'up-1',
      ...sent,
      stream: true,
      stream_options: { include_usage: true, include_obfuscation: false },
    });
    expect(patched({ stream: true, stream_options: { include_usage: true } })).not.toHaveProperty('stream');
  });

  test.each<[JsonObject, number | undefined, JsonObject]>([
    [{ max_tokens: 9 }, 9, { max_tokens: 9 }],
    [{ max_tokens: 9 }, 5, { max_tokens: 5 }],
    [{ max_completion_tokens: 9 }, 5, { max_completion_tokens: 5 }],
    [{ max_tokens: 9, max_completion_tokens: 9 }, 5, { max_tokens: 5, max_completion_tokens: 5 }],
    [{}, 5, { max_completion_tokens: 5 }],
    [{}, undefined, {}],
    [{ max_tokens: 9 }, undefined, {}],
  ])('from %j and a limit of %s has %j (EF-10)', (fields, maxOutputTokens, expected) => {
    const { model: _, messages: __, ...rest } = patched(fields, { maxOutputTokens });
    expect(rest).toEqual(expected);
  });

  test('has the tier that the core chose, and the number of answers', () => {
    const raw = Buffer.from(
      JSON.stringify({ model: 'acme/large:flex', messages: [{ role: 'user', content: 'x' }], n: 3 }),
    );
    const { request } = chatCodec.decodeRequest({ body: JSON.parse(raw.toString()) as unknown, raw, headers: {} });
    expect(encode({ ...request, serviceTier: ServiceTier.FLEX }).body['service_tier']).toBe('flex');
    expect(encode({ ...request, serviceTier: ServiceTier.DEFAULT }).body).not.toHaveProperty('service_tier');
    expect(encode({ ...request, candidates: 1 }).body['n']).toBe(1);
  });
});

describe('a built request', () => {
  test('has no member that no one requested', () => {
    expect(built({})).toEqual({ model: 'up-1', messages: [{ role: 'user', content: 'Hello' }] });
    expect(built({}, { stream: true })).toEqual({
      model: 'up-1',
      messages: [{ role: 'user', content: 'Hello' }],
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  test('has every setting that Chat has', () => {
    const sampling = makeSampling({
      temperature: 1,
      topP: 0.5,
      frequencyPenalty: 1,
      presencePenalty: -1,
      seed: 7n,
      logprobs: true,
      topLogprobs: 3,
      logitBias: { 1: 2 },
    });
    const fields: Fields = {
      sampling,
      maxOutputTokens: 100,
      stop: ['a', 'b', 'c', 'd', 'e'],
      candidates: 2,
      serviceTier: ServiceTier.PRIORITY,
      promptCacheKey: 'k',
      user: 'u',
      safetyIdentifier: 's',
      verbosity: 'low',
    };
    const { model: _, messages: __, ...rest } = built(fields);
    expect(rest).toEqual({
      temperature: 1,
      top_p: 0.5,
      frequency_penalty: 1,
      presence_penalty: -1,
      seed: 7,
      logprobs: true,
      top_logprobs: 3,
      logit_bias: { 1: 2 },
      max_completion_tokens: 100,
      stop: ['a', 'b', 'c', 'd'],
      n: 2,
      service_tier: 'priority',
      prompt_cache_key: 'k',
      user: 'u',
      safety_identifier: 's',
      verbosity: 'low',
    });
  });

  test('drops top_k and the client’s unknown fields, and lists them (EF-14)', () => {
    const { body, dropped } = encode(
      foreign({ sampling: makeSampling({ topK: 5 }) }, Protocol.MESSAGES, ['container', 'x']),
    );
    expect(dropped).toEqual(['top_k', 'container', 'x']);
    expect(body).not.toHaveProperty('top_k');
  });

  test('never asks the upstream to store anything, and does not have the client’s metadata', () => {
    expect(built({ store: true, metadata: { a: 'b' } })).toEqual({
      model: 'up-1',
      messages: [{ role: 'user', content: 'Hello' }],
    });
  });

  test('requests logprobs if a Responses client includes them', () => {
    expect(encode(foreign({ include: ['message.output_text.logprobs'] }, Protocol.RESPONSES)).body['logprobs']).toBe(
      true,
    );
  });

  test.each([
    [ReasoningEffort.NONE, 'none'],
    [ReasoningEffort.MINIMAL, 'minimal'],
    [ReasoningEffort.XHIGH, 'xhigh'],
    [ReasoningEffort.MAX, 'max'],
  ])('has the effort %s as %s', (effort, name) => {
    expect(
      built({ reasoning: { $typeName: 'tollgate.v1.ReasoningConfig', effort, thinking: ThinkingMode.UNSPECIFIED } })[
        'reasoning_effort'
      ],
    ).toBe(name);
  });

  test.each([
    [ThinkingMode.DISABLED, undefined, 'none'],
    [ThinkingMode.ADAPTIVE, undefined, undefined],
    [ThinkingMode.ENABLED, 10_000, 'medium'],
  ])('thinking %s with a budget of %s is the effort %s (EF-05)', (thinking, budgetTokens, name) => {
    const reasoning = {
      $typeName: 'tollgate.v1.ReasoningConfig' as const,
      effort: ReasoningEffort.UNSPECIFIED,
      thinking,
      budgetTokens,
    };
    expect(built({ reasoning })['reasoning_effort']).toBe(name);
  });

  test('keeps the detail of images (ME-05)', () => {
    const close = makePart(imageContent(mediaSource({ case: 'url', value: 'https://a.b/c' }), 'high'));
    expect(messages(makeItem(messageContent(Role.USER, [close]), 0))).toEqual([
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a.b/c', detail: 'high' } }] },
    ]);
  });

  test('drops cache hints silently (US-15, TR-16)', () => {
    const hinted = {
      ...text('a'),
      cache: { $typeName: 'tollgate.v1.CacheHint' as const, lifetime: CacheLifetime.CACHE_LIFETIME_1H },
    };
    const { body, dropped } = encode(foreign({ items: [makeItem(messageContent(Role.USER, [hinted, text('b')]), 0)] }));
    expect(dropped).toEqual([]);
    expect(body['messages']).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
    ]);
  });
});

describe('built tools', () => {
  const functionTool = (name: string): GenerateRequest['tools'][number] => ({
    $typeName: 'tollgate.v1.Tool',
    tool: {
      case: 'function',
      value: { $typeName: 'tollgate.v1.FunctionTool', name, parametersJson: '{"type":"object"}' },
    },
  });
  const hosted = (protocol: Protocol): GenerateRequest['tools'][number] => ({
    $typeName: 'tollgate.v1.Tool',
    tool: {
      case: 'hosted',
      value: { $typeName: 'tollgate.v1.HostedTool', protocol, type: 'web_search', json: '{"type":"web_search"}' },
    },
  });
  const choice = (
    mode: ToolChoiceMode,
    names: readonly string[],
    restricted = false,
  ): GenerateRequest['toolChoice'] => ({
    $typeName: 'tollgate.v1.ToolChoice',
    mode,
    tools: names.map(name => ({ $typeName: 'tollgate.v1.ToolName', name, kind: ToolKind.FUNCTION })),
    restricted,
  });
  const named = (name: string): JsonObject => ({ type: 'function', function: { name } });

  test.each<[GenerateRequest['toolChoice'], Json | undefined]>([
    [undefined, undefined],
    [choice(ToolChoiceMode.AUTO, []), 'auto'],
    [choice(ToolChoiceMode.REQUIRED, []), 'required'],
    [choice(ToolChoiceMode.NONE, []), 'none'],
    [choice(ToolChoiceMode.NAMED, ['f']), named('f')],
    [
      choice(ToolChoiceMode.AUTO, ['f'], true),
      { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [named('f')] } },
    ],
    [choice(ToolChoiceMode.NONE, ['f'], true), 'none'],
  ])('a tool choice is expressed in Chat’s form (CH-02, CH-04): %#', (toolChoice, expected) => {
    expect(
      built({ tools: [functionTool('f')], ...(toolChoice === undefined ? {} : { toolChoice }) })['tool_choice'],
    ).toEqual(expected);
  });

  test('without any: tool_choice is not sent, because upstreams refuse it', () => {
    expect(built({ toolChoice: choice(ToolChoiceMode.AUTO, []) ?? {}, parallelToolCalls: false } as Fields)).toEqual({
      model: 'up-1',
      messages: [{ role: 'user', content: 'Hello' }],
    });
  });

  test('that upstreams of another protocol run are refused, and the error has their path (CH-11)', () => {
    expect(catchRefusal(() => built({ tools: [functionTool('f'), hosted(Protocol.RESPONSES)] }))).toEqual({
      code: 'unsupported_parameter',
      param: 'tools.1',
    });
    expect(built({ tools: [hosted(Protocol.CHAT)] })['tools']).toEqual([{ type: 'web_search' }]);
  });

  test('with names that Chat does not take are refused', () => {
    expect(catchRefusal(() => built({ tools: [functionTool('n'.repeat(65))] }))).toEqual({
      code: 'unsupported_parameter',
      param: 'tools.0.name',
    });
  });
});

describe('built messages', () => {
  const call = (callId: string, turn = 0): Item =>
    makeItem(toolCallContent({ callId, name: 'f', arguments: '{"a":' }), turn);
  const callJson = (id: string): JsonObject => ({ id, type: 'function', function: { name: 'f', arguments: '{"a":' } });
  const result = (callId: string, parts: Part[], more: object = {}): Item =>
    makeItem(toolResultContent({ callId, parts, ...more }), 0);
  const said = (words: string, turn = 0): Item => makeItem(messageContent(Role.ASSISTANT, [text(words)]), turn);

  test('begin with the instructions, then system and developer messages in their order (RO-04)', () => {
    const items = [
      makeItem(messageContent(Role.DEVELOPER, [text('b')]), 0),
      user,
      makeItem(messageContent(Role.SYSTEM, [text('c')]), 0),
    ];
    expect(built({ instructions: 'a', items })['messages']).toEqual([
      { role: 'system', content: 'a' },
      { role: 'system', content: 'b' },
      { role: 'user', content: 'Hello' },
      { role: 'system', content: 'c' },
    ]);
  });

  test('shorten a call id of more than 64 characters, in the same way for call and result', () => {
    const id = `call_${'x'.repeat(80)}`;
    const [, called, answered] = objectsIn(messages(user, call(id), result(id, [text('1')])));
    const short = objectsIn(called?.['tool_calls'])[0]?.['id'];
    expect(short).toMatch(/^call_x{50}_[0-9a-f]{8}$/);
    expect(answered?.['tool_call_id']).toBe(short);
  });

  test('of one turn are one message: calls after the text, and content null without text (RO-07)', () => {
    expect(
      messages(user, said('a', 1), call('x', 1), call('y', 1), result('x', [text('1')]), result('y', [text('2')])),
    ).toEqual([
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: 'a', tool_calls: [callJson('x'), callJson('y')] },
      { role: 'tool', tool_call_id: 'x', content: '1' },
      { role: 'tool', tool_call_id: 'y', content: '2' },
    ]);
    expect(messages(user, call('x'), call('y'))[1]).toEqual({
      role: 'assistant',
      content: null,
      tool_calls: [callJson('x'), callJson('y')],
    });
  });

  test('of two turns stay two messages', () => {
    expect(messages(user, said('a', 1), said('b', 2), user)).toEqual([
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: 'a' },
      { role: 'assistant', content: 'b' },
      { role: 'user', content: 'Hello' },
    ]);
  });

  test('join several texts of one turn, because Chat has one place for them', () => {
    expect(messages(user, said('a', 1), call('x', 1), said('b', 1), result('x', []))[1]).toEqual({
      role: 'assistant',
      content: 'ab',
      tool_calls: [callJson('x')],
    });
  });

  test('have a refusal in its own member', () => {
    expect(
      messages(user, makeItem(messageContent(Role.ASSISTANT, [makePart(refusalContent('No'))]), 1), user)[1],
    ).toEqual({
      role: 'assistant',
      content: null,
      refusal: 'No',
    });
  });

  test('of tools are text; an absent result is an empty text (TR-05)', () => {
    expect(messages(user, call('x'), result('x', []))[2]).toEqual({ role: 'tool', tool_call_id: 'x', content: '' });
    expect(messages(user, call('x'), result('x', [text('a'), text('b')]))[2]).toEqual({
      role: 'tool',
      tool_call_id: 'x',
      content: [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
    });
  });

  test('of tools have their images in a separate message after the last of them (TR-13, TR-14)', () => {
    const shown = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
    expect(
      messages(
        user,
        call('x', 1),
        call('y', 1),
        result('x', [text('see'), imagePart]),
        result('y', [imagePart]),
        user,
      ).slice(2),
    ).toEqual([
      {
        role: 'tool',
        tool_call_id: 'x',
        content: [
          { type: 'text', text: 'see' },
          { type: 'text', text: '[image 1 of tool call x follows]' },
        ],
      },
      { role: 'tool', tool_call_id: 'y', content: '[image 2 of tool call y follows]' },
      { role: 'user', content: [shown, shown] },
      { role: 'user', content: 'Hello' },
    ]);
  });

  test('of tools that failed begin with "Error:", and `is_error` is listed as dropped', () => {
    const { body, dropped } = encode(
      foreign({ items: [user, call('x'), result('x', [text('no such city')], { isError: true })] }),
    );
    expect((body['messages'] as Json[])[2]).toEqual({
      role: 'tool',
      tool_call_id: 'x',
      content: 'Error: no such city',
    });
    expect(dropped).toEqual(['is_error']);
  });

  test('carry reasoning as text (RE-10)', () => {
    const reasoning = makeItem(
      reasoningContent({ parts: [makePart(summaryTextContent('One')), makePart(reasoningTextContent('Two'))] }),
      1,
    );
    expect(messages(user, reasoning, call('x', 1))[1]).toEqual({
      role: 'assistant',
      content: null,
      reasoning_content: 'OneTwo',
      tool_calls: [callJson('x')],
    });
  });

  test('carry opaque reasoning back only to the provider that made it, and list what is dropped (RE-04)', () => {
    const opaque = [makeOpaque('anthropic.signature', 'SIG', 'router')];
    const items = [
      user,
      makeItem(reasoningContent({ parts: [makePart(reasoningTextContent('hm'))], opaque }), 1),
      said('a', 1),
      user,
    ];
    const own = encode(foreign({ items }), { provider: 'router' });
    expect((own.body['messages'] as JsonObject[])[1]).toEqual({
      role: 'assistant',
      content: 'a',
      reasoning_content: 'hm',
      reasoning_details: [
        { type: 'reasoning.text', text: 'hm', signature: 'SIG', format: 'anthropic-claude-v1', index: 0 },
      ],
    });
    expect(own.dropped).toEqual([]);
    for (const provider of ['other', undefined]) {
      const other = encode(foreign({ items }), provider === undefined ? {} : { provider });
      expect((other.body['messages'] as JsonObject[])[1]).toEqual({
        role: 'assistant',
        content: 'a',
        reasoning_content: 'hm',
      });
      expect(other.dropped).toEqual(['messages.reasoning']);
    }
  });

  test('carry documents as files, texts as text with their title (ME-07)', () => {
    const file = (source: Parameters<typeof mediaSource>[0], type: string, more: object = {}): Part =>
      makePart({
        case: 'file',
        value: {
          $typeName: 'tollgate.v1.FilePart',
          source: mediaSource(source, type),
          filename: '',
          title: '',
          context: '',
          ...more,
        },
      });
    expect(
      messages(
        makeItem(
          messageContent(Role.USER, [
            file({ case: 'base64', value: 'AAAA' }, 'application/pdf', { title: 'T.pdf' }),
            file({ case: 'text', value: 'body' }, 'text/plain', { title: 'T', context: 'C' }),
            makePart({
              case: 'searchResult',
              value: {
                $typeName: 'tollgate.v1.SearchResultPart',
                json: '{"type":"search_result","title":"T","source":"S","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}',
              },
            }),
          ]),
          0,
        ),
      ),
    ).toEqual([
      {
        role: 'user',
        content: [
          { type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA', filename: 'T.pdf' } },
          { type: 'text', text: 'T\n\nC\n\nbody' },
          { type: 'text', text: 'T\n\nS\n\nx\n\ny' },
        ],
      },
    ]);
    for (const source of [
      { case: 'url' as const, value: 'https://a.b/c.pdf' },
      { case: 'fileId' as const, value: 'file-1' },
    ]) {
      const items = [makeItem(messageContent(Role.USER, [file(source, '')]), 0)];
      expect(catchRefusal(() => built({ items }))).toEqual(unsupported('messages'));
    }
  });

  test.each<[string, Item]>([
    ['a compaction', { ...user, content: { case: 'compaction', value: { $typeName: 'tollgate.v1.Compaction' } } }],
    [
      'a reference',
      { ...user, content: { case: 'reference', value: { $typeName: 'tollgate.v1.ItemReference', id: 'msg_1' } } },
    ],
    [
      'a server tool',
      {
        ...user,
        content: {
          case: 'serverTool',
          value: { $typeName: 'tollgate.v1.ServerTool', protocol: Protocol.MESSAGES, json: '{}' },
        },
      },
    ],
    ['a video', fromUser(makePart({ case: 'video', value: { $typeName: 'tollgate.v1.VideoPart' } }))],
    ['an image by id', fromUser(makePart(imageContent(mediaSource({ case: 'fileId', value: 'x' }))))],
    ['an image of the assistant', makeItem(messageContent(Role.ASSISTANT, [imagePart]), 0)],
  ])('with %s are refused, naming the client’s field (C4, SV-03)', (_, item) => {
    expect(catchRefusal(() => encode(foreign({ items: [item] }, Protocol.RESPONSES)))).toEqual(unsupported('input'));
  });

  test('that end with the assistant are refused from Messages and passed on from Responses (RO-08)', () => {
    const items = [user, said('Once upon')];
    expect(catchRefusal(() => encode(foreign({ items }, Protocol.MESSAGES)))).toEqual(unsupported('messages'));
    expect((encode(foreign({ items }, Protocol.RESPONSES)).body['messages'] as Json[])[1]).toEqual({
      role: 'assistant',
      content: 'Once upon',
    });
  });

  test('carry Chat’s own unknown members if the request is rebuilt', () => {
    const item = makeItem(messageContent(Role.USER, [text('a')]), 0, toExtra(Protocol.CHAT, '{"x":1}'));
    const other = makeItem(messageContent(Role.USER, [text('a')]), 0, toExtra(Protocol.MESSAGES, '{"y":1}'));
    expect(messages(item, other)).toEqual([
      { role: 'user', content: 'a', x: 1 },
      { role: 'user', content: 'a' },
    ]);
  });
});
