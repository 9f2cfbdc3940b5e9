/** Counts that a provider reports outside of its totals are charged: cached tokens and reasoning beside them, and written tokens that overlap with cached ones. */
import { describe, expect, test } from 'vitest';
import type { Usage } from '../gen/tollgate/v1/event_pb.ts';
import { ServiceTier } from '../gen/tollgate/v1/request_pb.ts';
import type { JsonObject } from './codec.ts';
import { parseEmbedAnswer } from './embeddings/parse-answer.ts';
import { usage as chat } from './chat/usage.ts';
import { usage as completions } from './completions/extras.ts';
import { parseUsage as gemini } from './gemini/usage.ts';
import { parseUsage as messages, renderCounts } from './messages/usage.ts';
import { parseUsage as responses } from './responses/usage.ts';

/** [input, cache read, cache write 5m, cache write 1h, output, reasoning]; undefined: not reported. */
const counts = (usage: Usage | undefined) => [
  usage?.inputTokens,
  usage?.cacheReadTokens,
  usage?.cacheWrite5mTokens,
  usage?.cacheWrite1hTokens,
  usage?.outputTokens,
  usage?.reasoningTokens,
];

/** Counts in the words of Chat; those of Responses have the same members under other names. */
const openAiCases: readonly (readonly [string, JsonObject, ReturnType<typeof counts>])[] = [
  [
    'cached tokens beside the prompt',
    { prompt_tokens: 23, completion_tokens: 9, total_tokens: 32, prompt_tokens_details: { cached_tokens: 158 } },
    [23, 158, undefined, undefined, 9, undefined],
  ],
  [
    'written tokens that overlap with cached ones',
    { prompt_tokens: 100, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 70 } },
    [0, 60, 40, undefined, 1, undefined],
  ],
  [
    'written tokens beyond the input, half of them for an hour',
    {
      prompt_tokens: 10,
      completion_tokens: 1,
      prompt_tokens_details: { cached_tokens: 20, cache_write_tokens: 30, cache_write_1h_tokens: 5 },
    },
    [0, 20, 5, 5, 1, undefined],
  ],
  [
    'reasoning above the output, without a total',
    { prompt_tokens: 5, completion_tokens: 100, completion_tokens_details: { reasoning_tokens: 118 } },
    [5, undefined, undefined, undefined, 218, 118],
  ],
  [
    'reasoning beside the output, as the total says',
    {
      prompt_tokens: 5,
      completion_tokens: 100,
      total_tokens: 123,
      completion_tokens_details: { reasoning_tokens: 18 },
    },
    [5, undefined, undefined, undefined, 118, 18],
  ],
  [
    'reasoning and cached tokens beside, as the total says',
    {
      prompt_tokens: 5,
      completion_tokens: 7,
      total_tokens: 32,
      prompt_tokens_details: { cached_tokens: 9 },
      completion_tokens_details: { reasoning_tokens: 11 },
    },
    [5, 9, undefined, undefined, 18, 11],
  ],
  [
    'reasoning above the output that the total does not contain: capped',
    {
      prompt_tokens: 5,
      completion_tokens: 100,
      total_tokens: 105,
      completion_tokens_details: { reasoning_tokens: 118 },
    },
    [5, undefined, undefined, undefined, 100, 100],
  ],
  [
    'reasoning that only the total contains',
    { prompt_tokens: 35, completion_tokens: 12, total_tokens: 109 },
    [35, undefined, undefined, undefined, 74, 62],
  ],
];

const responsesNames: Readonly<Record<string, string>> = {
  prompt_tokens: 'input_tokens',
  completion_tokens: 'output_tokens',
  prompt_tokens_details: 'input_tokens_details',
  completion_tokens_details: 'output_tokens_details',
};
const asResponses = (usage: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(usage).map(([name, value]) => [responsesNames[name] ?? name, value]));

describe.each(openAiCases)('%s', (_, usage, expected) => {
  test('in Chat, Completions and Responses', () => {
    expect(counts(chat.parse(usage))).toStrictEqual(expected);
    expect(counts(completions.parse(usage))).toStrictEqual(expected);
    expect(counts(responses(asResponses(usage)))).toStrictEqual(expected);
  });
});

test('Gemini: more cached tokens than input are beside it', () => {
  const usage = gemini({ promptTokenCount: 23, cachedContentTokenCount: 158, candidatesTokenCount: 4 });
  expect(counts(usage)).toStrictEqual([23, 158, undefined, undefined, 4, undefined]);
});

test('Messages: more reasoning than output is beside it', () => {
  const usage = messages({ input_tokens: 5, output_tokens: 100, output_tokens_details: { thinking_tokens: 118 } });
  expect(counts(usage)).toStrictEqual([5, undefined, undefined, undefined, 218, 118]);
});

test('embeddings: a total above the prompt is the input', () => {
  const answer = { data: [{ embedding: [1] }], usage: { prompt_tokens: 5, total_tokens: 9 } };
  expect(parseEmbedAnswer(JSON.stringify(answer)).inputTokens).toBe(9);
});

test('Messages: the passes of an answer are summed, and only its own clients see what the provider showed beside them', () => {
  const pass = (type: string, input: number, written: number, output: number) => ({
    type,
    input_tokens: input,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: 7,
    cache_creation: { ephemeral_5m_input_tokens: written - 1, ephemeral_1h_input_tokens: 1 },
    output_tokens: output,
  });
  const iterations = [pass('compaction', 0, 55_096, 131), pass('message', 229, 3, 5)];
  const reported = { input_tokens: 229, output_tokens: 5, iterations };
  const usage = messages(reported);
  expect(counts(usage)).toStrictEqual([229, 14, 55_097, 2, 136, undefined]);
  expect(renderCounts(usage, { serviceTier: ServiceTier.DEFAULT })).toMatchObject(reported);
  expect(counts(messages({ input_tokens: 229, output_tokens: 5, iterations: [] }))).toStrictEqual([
    229,
    undefined,
    undefined,
    undefined,
    5,
    undefined,
  ]);
});

test('counters of tokens that are not known are named, in every protocol; what they cost, how long they took and known parts are not', () => {
  const details = { prompt_tokens_details: { text_tokens: 4, foo_tokens: 2, audio_tokens: 1 }, foo_tokens: 3 };
  const more = {
    zero_tokens: 0,
    tokens_per_second: 80,
    input_tokens_cost: 2,
    completion_tokens_details: { text_tokens: 3 },
  };
  const openai = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13, ...details, ...more };
  const named = [
    'usage.prompt_tokens_details.foo_tokens',
    'usage.prompt_tokens_details.audio_tokens',
    'usage.foo_tokens',
  ];
  expect(chat.parse(openai)?.unpriced).toEqual(named);
  expect(completions.parse(openai)?.unpriced).toEqual(named);
  expect(responses({ input_tokens: 9, output_tokens: 4, total_tokens: 13, foo_tokens: 3 })?.unpriced).toEqual([
    'usage.foo_tokens',
  ]);
  expect(
    gemini({ promptTokenCount: 9, candidatesTokenCount: 4, fooTokenCount: 3, totalTokenCount: 13 })?.unpriced,
  ).toEqual(['usage.fooTokenCount']);
  const pass = { type: 'advisor_message', model: 'other', input_tokens: 5, output_tokens: 5, foo_tokens: 1 };
  const reported = {
    input_tokens: 9,
    output_tokens: 4,
    cache_creation: { foo_input_tokens: 2 },
    iterations: [pass, pass],
  };
  expect(messages(reported)?.unpriced).toEqual([
    'usage.cache_creation.foo_input_tokens',
    'usage.iterations',
    'usage.iterations.foo_tokens',
  ]);
  expect(
    messages({ input_tokens: 9, output_tokens: 4, iterations: [{ input_tokens: 9, output_tokens: 4 }] })?.unpriced,
  ).toEqual([]);
});
