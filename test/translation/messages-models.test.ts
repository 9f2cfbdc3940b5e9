/**
 * Requests to Messages upstreams depend on what the model accepts. Ids name cases of
 * `test/translation/cases.json`.
 */
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/codecs/codec.ts';
import { textIn } from '../../src/codecs/json.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { calling, chatCall, fromChat, functionTool, result, same, user } from './messages-translate.ts';

const adaptive = 'claude-opus-5';
const alwaysThinking = 'claude-opus-5-5';

describe('thinking', () => {
  const encoded = (reasoning_effort: string, model: string): ReturnType<typeof fromChat> =>
    fromChat({ messages: [user()], reasoning_effort }, { model, limit: 2_000 });

  test.each([
    'claude-opus-4-7',
    'claude-opus-4-8',
    'claude-sonnet-5',
    'claude-opus-5',
    'claude-opus-5-5',
    'claude-fable-5-1',
  ])('EF-01: %s gets an effort, never a budget', model => {
    const { thinking, output_config: config } = encoded('high', model).body;
    expect([thinking, config]).toEqual([{ type: 'adaptive' }, { effort: 'high' }]);
  });

  test.each(['claude-3-7-sonnet-20250219', 'claude-opus-4-1', 'claude-sonnet-4-6', 'claude-haiku-4-5-20251001'])(
    'EF-01: %s gets a budget, never an effort',
    model => {
      const { thinking, output_config: config } = encoded('low', model).body;
      expect([thinking, config]).toEqual([{ type: 'enabled', budget_tokens: 1_024 }, undefined]);
    },
  );

  test('EF-02: minimal is the smallest budget, the lowest effort that exists, or none if that is possible', () => {
    expect(encoded('minimal', 'claude-sonnet-4-5').body['thinking']).toEqual({ type: 'enabled', budget_tokens: 1_024 });
    expect(encoded('minimal', adaptive).body).toMatchObject({
      thinking: { type: 'adaptive' },
      output_config: { effort: 'low' },
    });
    expect(encoded('none', adaptive)).toMatchObject({ body: { thinking: { type: 'disabled' } }, dropped: [] });
    const { body, dropped } = encoded('none', alwaysThinking);
    expect([body['thinking'], dropped]).toEqual([undefined, ['reasoning_effort']]);
  });

  test.each([1_000, 1_024])(
    'EF-04: a limit of %i leaves no room for the smallest budget: thinking is off, and listed',
    limit => {
      const { body, dropped } = fromChat({ messages: [user()], reasoning_effort: 'high', max_tokens: limit });
      expect([body['max_tokens'], body['thinking'], dropped]).toEqual([limit, undefined, ['reasoning_effort']]);
    },
  );

  test('EF-04: a limit of 1025 leaves room for the smallest budget', () => {
    const { body, dropped } = fromChat({ messages: [user()], reasoning_effort: 'high', max_tokens: 1_025 });
    expect([body['thinking'], dropped]).toEqual([{ type: 'enabled', budget_tokens: 1_024 }, []]);
  });

  test('JS-05: a schema together with thinking and tools is sent in the native format, and no call is forced', () => {
    const schema = { type: 'object', properties: {} };
    const { body, dropped } = fromChat(
      {
        messages: [user()],
        tools: [functionTool()],
        reasoning_effort: 'low',
        response_format: { type: 'json_schema', json_schema: { name: 'n', schema } },
      },
      { model: alwaysThinking, limit: 4_000 },
    );
    expect(body).toMatchObject({ thinking: { type: 'adaptive' } });
    expect(body['output_config']).toEqual({ effort: 'low', format: { type: 'json_schema', schema } });
    expect([(body['tools'] as JsonObject[]).length, body['tool_choice'], dropped]).toEqual([1, undefined, []]);
  });
});

describe('reasoning in a loop of calls, for models with a thinking budget', () => {
  const details = [{ type: 'reasoning.text', text: 'hm', signature: 'S', format: 'anthropic-claude-v1', index: 0 }];
  const loop = (hasReasoning: boolean, more: JsonObject = {}): ReturnType<typeof fromChat> => {
    const call = { ...calling(chatCall('a')), ...(hasReasoning ? { reasoning_details: details } : {}) };
    const body = { messages: [user(), call, result('a')], tools: [functionTool()], ...more };
    return fromChat(body, { model: 'claude-sonnet-4-5', limit: 8_000 });
  };
  const block = { type: 'thinking', thinking: 'hm', signature: 'S' };
  const use = { type: 'tool_use', id: 'a', name: 'f', input: {} };
  const readContent = ({ body }: ReturnType<typeof fromChat>): unknown =>
    (body['messages'] as JsonObject[])[1]?.['content'];

  test('is sent back if the client sent it back', () => {
    const encoded = loop(true, { reasoning_effort: 'low' });
    expect([readContent(encoded), encoded.body['thinking'], encoded.dropped]).toEqual([
      [block, use],
      { type: 'enabled', budget_tokens: 1_024 },
      [],
    ]);
  });

  test('is sent back only if its format is that of this protocol (RE-04)', () => {
    for (const format of [null, 'google-gemini-v1', 'openai-responses-v1']) {
      const detail = { ...details[0], format };
      const call = { ...calling(chatCall('a')), reasoning_details: [detail] };
      const { body, dropped } = fromChat({ messages: [user(), call, result('a')] }, { model: adaptive, limit: 8_000 });
      expect([(body['messages'] as JsonObject[])[1]?.['content'], dropped]).toEqual([[use], ['messages.reasoning']]);
    }
  });

  test('that is missing disables thinking, because the upstream would refuse the request, and that is listed', () => {
    const encoded = loop(false, { reasoning_effort: 'low' });
    expect([readContent(encoded), encoded.body['thinking'], encoded.dropped]).toEqual([
      [use],
      undefined,
      ['reasoning_effort'],
    ]);
  });

  test('is left out, and listed, if no thinking is requested', () => {
    for (const more of [{}, { reasoning_effort: 'none' }]) {
      const encoded = loop(true, more);
      expect([readContent(encoded), encoded.dropped]).toEqual([[use], ['messages.reasoning']]);
    }
  });

  test('is not needed after a new message of the user, nor by models with adaptive thinking', () => {
    const spoken = [user(), calling(chatCall('a')), result('a'), { role: 'assistant', content: 'So.' }, user('next')];
    const later = fromChat({ messages: spoken, reasoning_effort: 'low' }, { model: 'claude-sonnet-4-5', limit: 8_000 });
    expect([later.body['thinking'], later.dropped]).toEqual([{ type: 'enabled', budget_tokens: 1_024 }, []]);
    const body = { messages: spoken.slice(0, 3), reasoning_effort: 'low' };
    expect(fromChat(body, { model: adaptive, limit: 8_000 })).toMatchObject({
      body: { thinking: { type: 'adaptive' } },
      dropped: [],
    });
  });
});

describe('EF-08: sampling', () => {
  test.each([
    ['of a model that takes none', { temperature: 0.2, top_p: 0.5 }, adaptive, {}, ['temperature', 'top_p']],
    ['beside thinking', { temperature: 0.2, reasoning_effort: 'low' }, 'claude-sonnet-4-5', {}, ['temperature']],
    ['above the range', { temperature: 1.5 }, 'claude-sonnet-4-5', { temperature: 1 }, ['temperature']],
    ['in the range', { temperature: 0.2, top_p: 0.5 }, 'claude-sonnet-4', { temperature: 0.2, top_p: 0.5 }, []],
    [
      'a pair that the model refuses',
      { temperature: 0.2, top_p: 0.5 },
      'claude-haiku-4-5',
      { temperature: 0.2 },
      ['top_p'],
    ],
    ['one of that pair', { top_p: 0.5 }, 'claude-haiku-4-5', { top_p: 0.5 }, []],
  ])('%s', (...[, sampling, model, sent, listed]) => {
    const { body, dropped } = fromChat({ messages: [user()], ...sampling }, { model, limit: 4_000 });
    const { temperature, top_p } = body;
    expect([{ temperature, top_p }, dropped]).toEqual([{ temperature: undefined, top_p: undefined, ...sent }, listed]);
  });
});

describe('US-14: of more than four cache hints', () => {
  const cache_control = { type: 'ephemeral' };
  const text = (at: number): JsonObject => ({ type: 'text', text: `${at}`, cache_control });
  const hinted = (body: JsonObject): string[] => {
    const blocks = [body['tools'], body['system'], ...(body['messages'] as JsonObject[]).map(({ content }) => content)];
    const all = blocks.flatMap(list => (Array.isArray(list) ? (list as JsonObject[]) : []));
    return all.filter(each => 'cache_control' in each).map(({ name, text: said }) => textIn(name) + textIn(said));
  };
  const messages = [{ role: 'system', content: [text(0)] }, ...[1, 2, 3, 4].map(at => user([text(at)]))];

  test('the first and the last three stay, without a warning', () => {
    const { body, dropped } = fromChat({ messages });
    expect([hinted(body), dropped]).toEqual([['0', '2', '3', '4'], []]);
    const tool = { ...functionTool(), cache_control };
    expect(hinted(fromChat({ tools: [tool], messages }).body)).toEqual(['f', '2', '3', '4']);
  });

  test('four are unchanged', () => {
    expect(hinted(fromChat({ messages: messages.slice(1) }).body)).toEqual(['1', '2', '3', '4']);
  });

  test('those of a Messages client are sent unchanged: the upstream decides', () => {
    const own = { messages: [user([0, 1, 2, 3, 4].map(text))] };
    expect(same(own).body['messages']).toEqual(own.messages);
  });
});

test('RE-05: the same conversation gives the same bytes, and a longer one begins with them', () => {
  const turns = [
    [{ role: 'system', content: 'Be brief.' }, user('one')],
    [
      calling(chatCall('functions.f:0', '{"b":1,"a":2}'), chatCall('call_0')),
      result('functions.f:0'),
      result('call_0'),
    ],
    [{ role: 'assistant', content: 'So.' }, { role: 'system', content: 'Be brief still.' }, user('two')],
    [calling(chatCall('call_0')), result('call_0')],
    [{ role: 'assistant', content: 'Done.' }, user('three')],
  ];
  const sent = turns.map((_, last) => {
    const body = { messages: turns.slice(0, last + 1).flat(), tools: [functionTool()] };
    const bytes = JSON.stringify(fromChat(body).body);
    expect(JSON.stringify(fromChat(body).body)).toBe(bytes);
    return bytes;
  });
  for (const [index, bytes] of sent.slice(1).entries()) {
    const before = sent[index]?.split('],"tools":')[0] ?? '';
    expect(before).toContain('"messages":[');
    expect(bytes.slice(0, before.length)).toBe(before);
  }
});

describe('a forced call together with thinking, which the protocol refuses', () => {
  const tools = [functionTool()];

  test.each([
    ['claude-sonnet-4-5', undefined],
    ['claude-opus-5', { type: 'disabled' }],
    ['acme/unknown', undefined],
  ])('is sent to %s without thinking, and that is listed', (model, thinking) => {
    for (const tool_choice of ['required', { type: 'function', function: { name: 'f' } }]) {
      const body = { messages: [user()], tools, tool_choice, reasoning_effort: 'low' };
      const encoded = fromChat(body, { model, limit: 4_000 });
      expect([encoded.body['thinking'], encoded.dropped]).toEqual([thinking, ['reasoning_effort']]);
      expect(encoded.body['tool_choice']).toMatchObject({ type: expect.stringMatching(/^(any|tool)$/) as string });
    }
  });

  test('reasoning stays enabled if no call is forced', () => {
    const body = { messages: [user()], tools, tool_choice: 'auto', reasoning_effort: 'low' };
    const encoded = fromChat(body, { model: 'claude-sonnet-4-5', limit: 4_000 });
    expect([encoded.body['thinking'], encoded.dropped]).toEqual([{ type: 'enabled', budget_tokens: 1_024 }, []]);
  });
});

describe('settings of a Messages client for a Claude model', () => {
  const own = (more: JsonObject, model: string): { body: JsonObject; dropped: readonly string[] } => {
    const whole = { model: 'm', max_tokens: 4_000, messages: [{ role: 'user', content: 'Hi' }], ...more };
    const raw = Buffer.from(JSON.stringify(whole));
    const { request } = messagesCodec.decodeRequest({ body: whole, raw, headers: {} });
    return messagesCodec.encodeRequest({ request, model, maxOutputTokens: 4_000, stream: false });
  };
  const tools = [{ name: 'f', input_schema: { type: 'object' } }];

  test('top_p is left out if the model refuses it together with temperature', () => {
    const pair = { temperature: 0.5, top_p: 0.9 };
    expect(own(pair, 'claude-sonnet-4-5')).toMatchObject({ body: { temperature: 0.5 }, dropped: ['top_p'] });
    expect(own(pair, 'claude-sonnet-4-5').body['top_p']).toBeUndefined();
    expect(own(pair, 'claude-3-opus')).toMatchObject({ body: pair, dropped: [] });
    expect(own(pair, 'acme/unknown')).toMatchObject({ body: pair, dropped: [] });
  });

  test('thinking is left out if the model refuses it together with a forced call', () => {
    const forced = { tools, tool_choice: { type: 'any' }, thinking: { type: 'enabled', budget_tokens: 1_024 } };
    const { body, dropped } = own(forced, 'claude-sonnet-4-5');
    expect([body['thinking'], body['tool_choice'], dropped]).toEqual([undefined, { type: 'any' }, ['thinking']]);
    expect(own(forced, 'acme/unknown')).toMatchObject({ body: forced, dropped: [] });
  });

  test.each(['claude-opus-4-6', 'claude-opus-5', 'claude-sonnet-4-5'])(
    'adaptive thinking stays beside a forced call: %s',
    model => {
      const forced = { tools, tool_choice: { type: 'any' }, thinking: { type: 'adaptive' } };
      expect(own(forced, model)).toMatchObject({ body: forced, dropped: [] });
    },
  );

  test('output_format is the older name of output_config.format', () => {
    const format = { type: 'json_schema', schema: { type: 'object' } };
    const { body } = own({ output_format: format, output_config: { effort: 'low' } }, 'claude-opus-5');
    expect([body['output_format'], body['output_config']]).toEqual([undefined, { effort: 'low', format }]);
  });
});
