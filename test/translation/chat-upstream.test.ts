/**
 * Answers of Chat upstreams, in all the forms in which compatible servers write them. Ids name cases of
 * `test/translation/cases.json`.
 */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { Json, JsonObject } from '../../src/codecs/codec.ts';
import { FinishReason, type Usage } from '../../src/gen/tollgate/v1/event_pb.ts';
import { ServiceTier } from '../../src/gen/tollgate/v1/request_pb.ts';
import { foldEvents } from '../../src/generation/fold.ts';
import { readTier } from '../../src/generation/service-tier.ts';
import {
  base,
  calls,
  chunk,
  done,
  events,
  catchFailure,
  finish,
  frame,
  foldItems,
  short,
  foldShort,
  tool,
} from './chat-chunks.ts';

describe('text', () => {
  test('before and after calls stays in order (TR-20)', () => {
    const stream = [
      chunk({ content: 'a' }),
      calls(tool(0, 'x', 'f', '{}')),
      chunk({ content: 'b' }),
      finish('tool_calls'),
      done,
    ];
    expect(foldShort(...stream)).toEqual(['a', 'x:f({})', 'b']);
  });

  test('in empty deltas makes no item, and neither does a repeated role (TS-20)', () => {
    const stream = [
      chunk({ role: 'assistant', content: '' }),
      chunk({ role: 'assistant', content: '' }),
      chunk({ content: null }),
      chunk({ role: 'assistant', content: 'a' }),
      finish('stop'),
      done,
    ];
    expect(foldShort(...stream)).toEqual(['a']);
  });

  test('may come as a list of parts, reasoning among them', () => {
    const content = [
      { type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] },
      { type: 'text', text: 'a' },
      { type: 'new_kind', x: 1 },
    ];
    expect(
      foldShort(chunk({ content }), chunk({ content: [{ type: 'text', text: 'b' }] }), finish('stop'), done),
    ).toEqual(['[hm]', 'ab']);
  });

  test('and a refusal are parts of one message', () => {
    expect(
      foldShort(
        chunk({ content: 'a' }),
        chunk({ refusal: 'No' }),
        chunk({ refusal: '.' }),
        finish('content_filter'),
        done,
      ),
    ).toEqual(['a|No.']);
  });

  test('may be in a member named message', () => {
    expect(
      foldShort(
        frame({
          ...base,
          choices: [{ index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' }],
        }),
        done,
      ),
    ).toEqual(['a']);
  });

  test('carries log probabilities and citations', () => {
    const logprobs = {
      content: [{ token: 'a', logprob: -0.5, bytes: [97], top_logprobs: [{ token: 'b', logprob: -1, bytes: null }] }],
      refusal: null,
    };
    const annotation = {
      type: 'url_citation',
      url_citation: { url: 'https://a.b', title: 'T', start_index: 0, end_index: 1 },
    };
    const [item] = foldItems(
      chunk({ content: 'a' }, { logprobs }),
      chunk({ annotations: [annotation] }),
      finish('stop'),
      done,
    );
    const part = item?.content.case === 'message' ? item.content.value.parts[0]?.content.value : undefined;
    expect(part).toMatchObject({
      text: 'a',
      logprobs: [
        {
          token: 'a',
          logprob: -0.5,
          utf8: Uint8Array.of(97),
          top: [{ token: 'b', logprob: -1, utf8: new Uint8Array() }],
        },
      ],
      annotations: [
        { annotation: { case: 'urlCitation', value: { url: 'https://a.b', title: 'T', startIndex: 0, endIndex: 1 } } },
      ],
    });
  });

  test('of several choices stays separate; a missing index is the position in the list', () => {
    const both = frame({ ...base, choices: [{ delta: { content: 'a' } }, { delta: { content: 'b' } }] });
    const ends = frame({
      ...base,
      choices: [
        { index: 0, delta: {}, finish_reason: 'stop' },
        { index: 1, delta: {}, finish_reason: 'length' },
      ],
    });
    const { choices } = foldEvents(events(both, ends, done));
    expect(choices.map(({ items }) => short(items))).toEqual([['a'], ['b']]);
    expect(choices.map(({ finished }) => finished?.reason)).toEqual([FinishReason.STOP, FinishReason.LENGTH]);
  });
});

test('chunks without an id, a model or a time are accepted (MI-07)', () => {
  const bare = (choice: JsonObject): string => frame({ choices: [{ index: 0, delta: {}, ...choice }] });
  expect(foldShort(bare({ delta: { content: 'a' } }), bare({ finish_reason: 'stop' }), done)).toEqual(['a']);
});

describe('reasoning', () => {
  test.each(['reasoning_content', 'reasoning', 'reasoning_text'])('in %s is read (RE-25)', name => {
    expect(
      foldShort(
        chunk({ [name]: 'hm', content: null }),
        chunk({ [name]: '!' }),
        chunk({ content: 'a' }),
        finish('stop'),
        done,
      ),
    ).toEqual(['[hm!]', 'a']);
  });

  test('alone is an answer (RE-08)', () => {
    expect(foldShort(chunk({ reasoning_content: 'hm', content: null }), finish('stop'), done)).toEqual(['[hm]']);
  });

  test('that comes twice, as text and as details, is read once', () => {
    const twice = (text: string): string =>
      chunk({ reasoning: text, reasoning_details: [{ type: 'reasoning.text', text, format: 'unknown', index: 0 }] });
    expect(foldShort(twice('h'), twice('m'), chunk({ content: 'a' }), finish('stop'), done)).toEqual(['[hm]', 'a']);
  });

  test('in two blocks stays two items, each with its opaque data and provider (RE-02)', () => {
    const detail = (index: number, more: JsonObject): string =>
      chunk({ reasoning_details: [{ type: 'reasoning.text', format: 'anthropic-claude-v1', index, ...more }] });
    const items = foldItems(
      detail(0, { text: 'One' }),
      detail(0, { signature: 'S1' }),
      detail(1, { text: 'Two' }),
      detail(1, { signature: 'S2' }),
      chunk({ content: 'a' }),
      finish('stop'),
      done,
    );
    expect(short(items)).toEqual(['[One]', '[Two]', 'a']);
    expect(items.map(({ content }) => (content.case === 'reasoning' ? content.value.opaque : []))).toMatchObject([
      [{ provider: 'acme', kind: 'anthropic.signature', data: 'S1' }],
      [{ provider: 'acme', kind: 'anthropic.signature', data: 'S2' }],
      [],
    ]);
  });

  test.each([
    ['anthropic-claude-v1', 'anthropic.redacted', true],
    ['openai-responses-v1', 'openai.encrypted', false],
    ['google-gemini-v1', 'gemini.thought_signature', false],
    ['vendor-v9', 'chat.encrypted', false],
  ])('that is hidden, in the format %s, is opaque data of kind %s', (format, kind, redacted) => {
    const [item] = foldItems(
      chunk({ reasoning_details: [{ type: 'reasoning.encrypted', data: 'XX', format, index: 0 }] }),
      finish('stop'),
      done,
    );
    expect(item?.content.value).toMatchObject({
      parts: [],
      redacted,
      opaque: [{ kind, data: 'XX', provider: 'acme' }],
    });
  });
});

describe('the end', () => {
  test('without [DONE] is accepted if every choice has finished (GE-07)', () => {
    expect(events(chunk({ content: 'a' }), finish('stop')).at(-1)?.event.case).toBe('completed');
  });

  test.each([
    ['nothing at all', []],
    ['[DONE] alone', [done]],
    ['text without a finish', [chunk({ content: 'a' })]],
    ['text without a finish and [DONE]', [chunk({ content: 'a' }), done]],
    ['an empty finish', [chunk({ content: 'a' }, { finish_reason: '' }), done]],
    [
      'one of two choices unfinished',
      [
        chunk({ content: 'a' }),
        frame({ ...base, choices: [{ index: 1, delta: { content: 'b' } }] }),
        finish('stop'),
        done,
      ],
    ],
  ])('%s is reported as truncated, never as finished (FI-06)', (_, frames) => {
    expect(catchFailure(() => events(...frames)).kind).toBe('truncated');
  });

  test('comes once: the last finish reason counts, and what follows an earlier one is part of the answer; what follows [DONE] is not', () => {
    const stream = [
      chunk({ content: 'a' }),
      finish('stop'),
      chunk({ content: 'b' }),
      chunk({ role: 'assistant', content: '' }),
      finish('length'),
      done,
      chunk({ content: 'c' }),
    ];
    expect(foldShort(...stream)).toEqual(['a', 'b']);
    const finishes = events(...stream).flatMap(({ event }) => (event.case === 'finished' ? [event.value.reason] : []));
    expect(finishes).toEqual([FinishReason.LENGTH]);
  });

  test.each([
    ['stop', FinishReason.STOP],
    ['length', FinishReason.LENGTH],
    ['content_filter', FinishReason.CONTENT_FILTER],
    ['eos', FinishReason.OTHER],
    ['max_tokens', FinishReason.OTHER],
  ])('%s keeps the upstream’s word (FI-18)', (native, reason) => {
    const { finished } = foldEvents(events(chunk({ content: 'a' }), finish(native), done)).choices[0] ?? {};
    expect(finished).toMatchObject({ reason, native });
  });

  test('names the stop sequence, if the server does (EF-13)', () => {
    const matched = (more: JsonObject): unknown =>
      foldEvents(events(chunk({ content: 'a' }), finish('stop', more), done)).choices[0]?.finished?.matchedStop;
    expect(matched({ stop_reason: 'END' })).toBe('END');
    expect(matched({ matched_stop: 'END' })).toBe('END');
    expect(matched({ stopping_word: 'END' })).toBe('END');
    expect(matched({ stop_reason: null })).toBeUndefined();
    expect(matched({ stop_reason: 128_001 })).toBeUndefined();
  });

  test('may be in the chunk with the last text', () => {
    expect(foldShort(chunk({ content: 'a' }, { finish_reason: 'stop' }), done)).toEqual(['a']);
  });
});

describe('usage', () => {
  const foldUsage = (...frames: string[]): Usage | undefined =>
    foldEvents(events(chunk({ content: 'a' }), ...frames)).usage;
  const report = (usage: Json, more: JsonObject = {}): string => frame({ ...base, choices: [], usage, ...more });
  const counts = (usage: Json): Partial<Usage> | undefined => {
    const found = foldUsage(finish('stop'), report(usage), done);
    if (found === undefined) return undefined;
    const { $typeName: _, extra: __, unpriced: ___, ...rest } = found;
    return rest;
  };

  test('in the last chunk, which has no choices (US-06, US-12)', () => {
    expect(
      counts({
        prompt_tokens: 125,
        completion_tokens: 9,
        total_tokens: 134,
        prompt_tokens_details: { cached_tokens: 100, cache_write_tokens: 5 },
        completion_tokens_details: { reasoning_tokens: 4 },
      }),
    ).toEqual({
      inputTokens: 20,
      cacheReadTokens: 100,
      cacheWrite5mTokens: 5,
      outputTokens: 9,
      reasoningTokens: 4,
    });
  });

  test('in every chunk is cumulative: the last one counts (US-11)', () => {
    const each = (tokens: number): string =>
      frame({
        ...base,
        choices: [{ index: 0, delta: { content: 'a' } }],
        usage: { prompt_tokens: 5, completion_tokens: tokens },
      });
    expect(foldUsage(each(1), each(2), each(3), finish('stop'), done)).toMatchObject({
      inputTokens: 5,
      outputTokens: 3,
    });
  });

  test.each([
    [
      'x_groq',
      frame({ ...base, choices: [], x_groq: { id: 'req', usage: { prompt_tokens: 5, completion_tokens: 2 } } }),
    ],
    [
      'the choice',
      frame({ ...base, choices: [{ index: 0, delta: {}, usage: { prompt_tokens: 5, completion_tokens: 2 } }] }),
    ],
    [
      'the chunk with the finish',
      frame({
        ...base,
        choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
        usage: { prompt_tokens: 5, completion_tokens: 2 },
      }),
    ],
  ])('in %s', (_, reported) => {
    expect(foldUsage(reported, finish('stop'), done)).toMatchObject({ inputTokens: 5, outputTokens: 2 });
  });

  test('with choices null (B1)', () => {
    expect(
      foldUsage(
        finish('stop'),
        frame({ ...base, choices: null, usage: { prompt_tokens: 5, completion_tokens: 2 } }),
        done,
      ),
    ).toMatchObject({ inputTokens: 5 });
  });

  test('that is absent, null or empty stays absent', () => {
    expect(foldUsage(finish('stop'), done)).toBeUndefined();
    for (const nothing of [null, {}, { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, [], 'x']) {
      expect(counts(nothing)).toBeUndefined();
    }
    const { completed } = foldEvents(events(chunk({ content: 'a' }), finish('stop'), done));
    expect([completed?.usage, completed?.usageSource]).toEqual([undefined, 0]);
  });

  test.each([
    ['negative', { prompt_tokens: -5, completion_tokens: 2 }, { outputTokens: 2 }],
    ['a fraction', { prompt_tokens: 5, completion_tokens: 2.5 }, { inputTokens: 5 }],
    ['a text', { prompt_tokens: '5', completion_tokens: 2 }, { outputTokens: 2 }],
    ['larger than 32 bits', { prompt_tokens: 5e12, completion_tokens: 2 }, { outputTokens: 2 }],
  ])('%s: impossible counts are left out', (_, usage, expected) => {
    expect(counts(usage)).toEqual(expected);
  });

  test('counts reasoning as part of the output, or in addition to it if the total says so (US-18)', () => {
    const details = { completion_tokens_details: { reasoning_tokens: 4 } };
    expect(counts({ prompt_tokens: 5, completion_tokens: 6, total_tokens: 11, ...details })).toMatchObject({
      outputTokens: 6,
      reasoningTokens: 4,
    });
    expect(counts({ prompt_tokens: 5, completion_tokens: 6, total_tokens: 15, ...details })).toMatchObject({
      outputTokens: 10,
      reasoningTokens: 4,
    });
  });

  test('may have cached tokens under another name', () => {
    expect(
      counts({ prompt_tokens: 10, completion_tokens: 1, prompt_cache_hit_tokens: 4, prompt_cache_miss_tokens: 6 }),
    ).toMatchObject({ inputTokens: 6, cacheReadTokens: 4 });
    expect(counts({ prompt_tokens: 10, completion_tokens: 1, cached_tokens: 4 })).toMatchObject({
      inputTokens: 6,
      cacheReadTokens: 4,
    });
  });

  test('keeps unknown members, but not the upstream’s price', () => {
    const found = foldUsage(
      finish('stop'),
      report({ prompt_tokens: 5, completion_tokens: 2, cost: 9, x: 1, prompt_tokens_details: { audio_tokens: 3 } }),
      done,
    );
    expect(JSON.parse(found?.extra?.json ?? '')).toEqual({ x: 1, prompt_tokens_details: { audio_tokens: 3 } });
  });

  test('comes with the tier that was used', () => {
    const toTier = (tier: Json): string | undefined => {
      const sent = [frame({ ...base, service_tier: tier, choices: [] }), chunk({ content: 'a' }), finish('stop'), done];
      const { completed } = foldEvents(events(...sent));
      return completed && readTier(completed);
    };
    const reported = ['flex', 'priority', 'Fast', 'default', 'auto', 'on_demand', 'scale', null, ''];
    expect(reported.map(toTier)).toEqual([
      'flex',
      'priority',
      'priority',
      'default',
      'default',
      'default',
      'scale',
      undefined,
      undefined,
    ]);
  });
});

describe('failures', () => {
  test.each([
    [
      'an error object',
      frame({ error: { message: 'Overloaded', type: 'server_error', code: 529, param: null } }),
      { message: 'Overloaded', status: 529 },
    ],
    ['an error text', frame({ error: 'Overloaded' }), { message: 'Overloaded' }],
    [
      'an object called error',
      frame({ object: 'error', message: 'Overloaded', code: 503 }),
      { message: 'Overloaded', status: 503 },
    ],
    ['an event called error', `event: error\n${frame({ message: 'Overloaded' })}`, { message: 'Overloaded' }],
    ['an event called error without JSON', 'event: error\ndata: Overloaded\n\n', { message: 'Overloaded' }],
    [
      'an error beside choices',
      frame({ ...base, choices: [], error: { message: 'Overloaded' } }),
      { message: 'Overloaded' },
    ],
    [
      'an error in a choice',
      frame({ ...base, choices: [{ index: 0, delta: {}, error: { message: 'Overloaded', code: 502 } }] }),
      { message: 'Overloaded', status: 502 },
    ],
    ['a finish called error', finish('error'), {}],
    [
      'an input that is too long',
      frame({ error: { message: 'x', code: 'context_length_exceeded' } }),
      { message: 'x', meaning: 'too_long', status: 400 },
    ],
  ])('%s is reported with the upstream’s message', (_, reported, facts) => {
    const failure = catchFailure(() => events(chunk({ content: 'a' }), reported, finish('stop'), done));
    expect({ kind: failure.kind, facts: failure.facts }).toEqual({ kind: 'reported', facts });
  });

  test.each([
    ['no JSON', 'data: hello\n\n'],
    ['cut JSON', 'data: {"id":"x\n\n'],
    ['a list', 'data: []\n\n'],
    ['a number', 'data: 5\n\n'],
    ['null', 'data: null\n\n'],
  ])('%s is malformed', (_, strange) => {
    expect(catchFailure(() => events(chunk({ content: 'a' }), strange, finish('stop'), done)).kind).toBe('malformed');
  });

  test('an `error` member that is null is not an error', () => {
    expect(
      foldShort(
        frame({ ...base, error: null, choices: [{ index: 0, delta: { content: 'a' }, error: null }] }),
        finish('stop'),
        done,
      ),
    ).toEqual(['a']);
  });
});

describe('a whole answer', () => {
  const answer = (message: JsonObject, more: JsonObject = {}, choice: JsonObject = {}): JsonObject => ({
    id: 'chatcmpl-up',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: 'stop', ...choice }],
    usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
    ...more,
  });
  const fold = (body: Json): ReturnType<typeof foldEvents> => foldEvents(chatCodec.parseWhole(body, 'acme'));

  test('gives the same events as its stream', () => {
    const body = answer(
      {
        reasoning_content: 'hm',
        content: 'a',
        refusal: null,
        tool_calls: [{ id: 'x', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { system_fingerprint: 'fp_1', service_tier: 'flex', provider: 'P' },
      { finish_reason: 'tool_calls', logprobs: null },
    );
    const { started, choices, usage, completed } = fold(body);
    expect(short(choices[0]?.items ?? [])).toEqual(['[hm]', 'a', 'x:f({})']);
    expect(started?.systemFingerprint).toBe('fp_1');
    expect(usage).toMatchObject({ inputTokens: 5, outputTokens: 2 });
    expect(completed?.serviceTier).toBe(ServiceTier.FLEX);
    expect(choices[0]?.extensions.map(({ extra }) => extra?.json)).toEqual(['{"provider":"P"}']);
  });

  test('numbers its calls by their position, whatever their ids', () => {
    const same = { id: 'x', type: 'function', function: { name: 'f', arguments: '{"a":1}' } };
    expect(short(fold(answer({ content: null, tool_calls: [same, same] })).choices[0]?.items ?? [])).toEqual([
      'x:f({"a":1})',
      'x:f({"a":1})',
    ]);
  });

  test.each([
    ['no object', []],
    ['no choices', { id: 'x' }],
    ['choices that are empty', answer({}, { choices: [] })],
    ['neither finish nor content', answer({ content: '' }, {}, { finish_reason: null })],
  ])('with %s is malformed', (_, body) => {
    expect(catchFailure(() => fold(body)).kind).toBe('malformed');
  });

  test('that is an error is reported', () => {
    expect(catchFailure(() => fold({ error: { message: 'Overloaded' } })).facts).toEqual({ message: 'Overloaded' });
  });
});

describe('an error body', () => {
  test.each([
    [
      'OpenAI’s',
      '{"error":{"message":"Bad","type":"invalid_request_error","param":"messages","code":null}}',
      { message: 'Bad', param: 'messages' },
    ],
    ['a text', '{"error":"Bad"}', { message: 'Bad' }],
    ['a message', '{"message":"Bad","code":400}', { message: 'Bad' }],
    ['FastAPI’s text', '{"detail":"Bad"}', { message: 'Bad' }],
    [
      'FastAPI’s list',
      '{"detail":[{"loc":["body","n"],"msg":"too large"},{"msg":"wrong"}]}',
      { message: 'too large; wrong' },
    ],
    ['Gemini’s list', '[{"error":{"code":400,"message":"Bad","status":"INVALID_ARGUMENT"}}]', { message: 'Bad' }],
    ['plain words', 'Bad', { message: 'Bad' }],
    ['nothing', '', {}],
    ['a web page', '<html><body>502</body></html>', {}],
    ['JSON that says nothing', '5', {}],
    [
      'OpenAI’s length',
      '{"error":{"message":"x","code":"context_length_exceeded"}}',
      { message: 'x', meaning: 'too_long' },
    ],
    [
      'vLLM’s length',
      '{"message":"This model\'s maximum context length is 4096 tokens."}',
      { message: "This model's maximum context length is 4096 tokens.", meaning: 'too_long' },
    ],
    [
      'Anthropic’s length',
      '{"error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}',
      { message: 'prompt is too long: 210000 tokens > 200000 maximum', meaning: 'too_long' },
    ],
    ['another limit', '{"error":{"message":"max_tokens is too large"}}', { message: 'max_tokens is too large' }],
  ])('%s', (_, body, facts) => {
    expect(chatCodec.parseError(400, body)).toEqual(facts);
  });

  test('of any size gives a message of limited length', () => {
    expect(chatCodec.parseError(500, 'x'.repeat(100_000)).message).toHaveLength(2_000);
  });
});
