/**
 * Answers of all protocols that are complete but have no finish reason, as Snowflake (always), OpenRouter (Grok 4, DeepSeek R1), LiteLLM and
 * Perplexity send them (recorded 2024-10 to 2026-07).
 */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { Json, JsonObject, UpstreamCodec } from '../../src/codecs/codec.ts';
import { completionsCodec } from '../../src/codecs/completions/index.ts';
import { geminiCodec } from '../../src/codecs/gemini/index.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { makeRequest } from '../../src/codecs/content.ts';
import { FinishReason } from '../../src/gen/tollgate/v1/event_pb.ts';
import { foldEvents } from '../../src/generation/fold.ts';
import { Guard } from '../../src/generation/guard/guard.ts';
import { catchFailure, base, chunk, done, events, frame, short } from './chat-chunks.ts';

const usage = { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 };
const call = { id: 'x', type: 'function', function: { name: 'f', arguments: '{"a":1}' } };
const chat = (message: JsonObject, choice: JsonObject = {}): JsonObject => ({
  id: '',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', ...message }, ...choice }],
  usage,
});

/** Returns the finish reason and the items of a whole answer, as a client with an output limit gets them. */
function read(codec: UpstreamCodec, body: Json, limit = Infinity): [FinishReason | undefined, ...string[]] {
  const guard = new Guard(makeRequest({ model: 'm' }), { limit });
  const [choice] = foldEvents(guard.push(codec.parseWhole(body, 'acme'))).choices;
  guard.end();
  return [choice?.finished?.reason, ...short(choice?.items ?? [])];
}

describe('a whole answer without a finish reason', () => {
  test.each([
    ['null', { finish_reason: null }],
    ['empty', { finish_reason: '' }],
    ['absent', {}],
  ])('of Chat (%s) is an answer: it stopped, called, or reached the limit', (_, choice) => {
    expect(read(chatCodec, chat({ content: 'Rome' }, choice))).toEqual([FinishReason.STOP, 'Rome']);
    expect(read(chatCodec, chat({ tool_calls: [call] }, choice))).toEqual([FinishReason.TOOL_CALLS, 'x:f({"a":1})']);
    expect(read(chatCodec, chat({ content: 'Rome' }, choice), 5)).toEqual([FinishReason.LENGTH, 'Rome']);
    expect(read(chatCodec, chat({ content: 'Rome' }, choice), 6)).toEqual([FinishReason.STOP, 'Rome']);
  });

  test('of Completions is an answer', () => {
    const body = { id: '', object: 'text_completion', choices: [{ index: 0, text: 'Rome' }], usage };
    expect(read(completionsCodec, body)).toEqual([FinishReason.STOP, 'Rome']);
  });

  test('of Messages is an answer', () => {
    const text = { type: 'text', text: 'Rome' };
    const tool = { type: 'tool_use', id: 'x', name: 'f', input: { a: 1 } };
    const message = (content: Json): Json => ({ type: 'message', role: 'assistant', content, stop_reason: null });
    expect(read(messagesCodec, message([text]))).toEqual([FinishReason.STOP, 'Rome']);
    expect(read(messagesCodec, message([text, tool]))).toEqual([FinishReason.TOOL_CALLS, 'Rome', 'x:f({"a":1})']);
  });

  test('of Responses (no status) is an answer, but one that still runs is none', () => {
    const output = [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Rome' }] }];
    expect(read(responsesCodec, { object: 'response', output })).toEqual([FinishReason.STOP, 'Rome']);
    const queued = { object: 'response', status: 'queued', output };
    expect(catchFailure(() => read(responsesCodec, queued)).kind).toBe('malformed');
  });

  test('of Gemini is an answer', () => {
    const content = { role: 'model', parts: [{ text: 'Rome' }] };
    expect(read(geminiCodec, { candidates: [{ content }] })).toEqual([FinishReason.STOP, 'Rome']);
    const call = { role: 'model', parts: [{ functionCall: { id: 'x', name: 'f', args: { a: 1 } } }] };
    expect(read(geminiCodec, { candidates: [{ content: call }] })).toEqual([FinishReason.TOOL_CALLS, 'x:f({"a":1})']);
  });

  test.each<[string, UpstreamCodec, Json]>([
    ['Chat', chatCodec, { choices: [{ index: 0, message: { role: 'assistant', content: '' }, finish_reason: null }] }],
    ['Messages', messagesCodec, { type: 'message', role: 'assistant', content: [], stop_reason: null }],
    ['Gemini', geminiCodec, { candidates: [{ content: { role: 'model' } }] }],
    ['Responses', responsesCodec, { object: 'response' }],
  ])('and without content is malformed: %s', (_, codec, body) => {
    expect(catchFailure(() => read(codec, body)).kind).toBe('malformed');
  });
});

describe('a stream without a finish reason', () => {
  const counted = frame({ ...base, choices: [], usage });

  test('that ends with usage and [DONE] is an answer', () => {
    const { choices } = foldEvents(events(chunk({ content: 'Rome' }), counted, done));
    expect(choices.map(({ finished, items }) => [finished?.reason, ...short(items)])).toEqual([
      [FinishReason.STOP, 'Rome'],
    ]);
  });

  test('of which one choice has one is an answer', () => {
    const second = frame({ ...base, choices: [{ index: 1, delta: { content: 'Oslo' } }] });
    const end = chunk({}, { finish_reason: 'length' });
    const { choices } = foldEvents(events(chunk({ content: 'Rome' }), second, end, counted, done));
    expect(choices.map(({ finished }) => finished?.reason)).toEqual([FinishReason.LENGTH, FinishReason.STOP]);
  });

  test('that ends with only one of them is truncated', () => {
    expect(catchFailure(() => events(chunk({ content: 'Rome' }), done)).kind).toBe('truncated');
    expect(catchFailure(() => events(chunk({ content: 'Rome' }), counted)).kind).toBe('truncated');
  });
});

describe('empty members beside the real ones', () => {
  test('are no call and no other kind of call', () => {
    const empty = { function_call: { arguments: '', name: '' }, refusal: '', audio: { id: '', data: '' } };
    expect(read(chatCodec, chat({ content: 'Rome', tool_calls: null, ...empty }))).toEqual([FinishReason.STOP, 'Rome']);
    const both = { ...call, custom: { input: '', name: '' } };
    expect(read(chatCodec, chat({ content: '', tool_calls: [both], ...empty }))).toEqual([
      FinishReason.TOOL_CALLS,
      'x:f({"a":1})',
    ]);
  });

  test('a message counts, not the empty delta beside it; in a stream the deltas count', () => {
    const message = { role: 'assistant', content: 'It is Rome.' };
    const choice = { finish_reason: 'stop', delta: { role: 'assistant', content: '' } };
    expect(read(chatCodec, chat(message, choice))).toEqual([FinishReason.STOP, 'It is Rome.']);
    const twice = (delta: Json, content: string, finish_reason: string | null = null): string =>
      frame({ ...base, choices: [{ index: 0, delta, message: { role: 'assistant', content }, finish_reason }] });
    const { choices } = foldEvents(
      events(
        twice({ content: 'It ' }, 'It '),
        twice({ content: 'is Rome.' }, 'It is Rome.'),
        twice({ content: '' }, 'It is Rome.'),
        twice(null, 'It is Rome.', 'stop'),
        done,
      ),
    );
    expect(short(choices[0]?.items ?? [])).toEqual(['It is Rome.']);
  });

  test('a call whose arguments follow an empty object has those', () => {
    const doubled = { ...call, function: { name: 'f', arguments: '{}{"a":1}' } };
    expect(read(chatCodec, chat({ tool_calls: [doubled] }, { finish_reason: 'tool_calls' }))).toEqual([
      FinishReason.TOOL_CALLS,
      'x:f({"a":1})',
    ]);
  });
});
