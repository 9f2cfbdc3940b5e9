/** Calls that a limit cut, answers that are incomplete for no known reason, and failures in fields of their own. */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { JsonObject, UpstreamCodec } from '../../src/codecs/codec.ts';
import { makeRequest } from '../../src/codecs/content.ts';
import { geminiCodec } from '../../src/codecs/gemini/index.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { Guard } from '../../src/generation/guard/guard.ts';
import { parseChunks } from '../contracts/codec-suite.ts';
import { catchFailure } from './chat-chunks.ts';

const decoded = { request: makeRequest({ model: 'm' }), stream: false, includeUsage: true };
const guarded = (from: UpstreamCodec, body: JsonObject): ReturnType<Guard['push']> =>
  new Guard(decoded.request, { limit: Infinity }).push(from.parseWhole(body, 'acme'));

test('a Messages client does not get a call of which only the beginning came, and could run it', () => {
  const call = { id: 'x', type: 'function', function: { name: 'f', arguments: '{"city": "Ro' } };
  const message = { role: 'assistant', content: 'Let me see.', tool_calls: [call] };
  const events = guarded(chatCodec, { choices: [{ index: 0, message, finish_reason: 'length' }] });
  expect(messagesCodec.renderWhole(events, decoded)).toMatchObject({
    content: [{ type: 'text', text: 'Let me see.' }],
    stop_reason: 'max_tokens',
  });
});

test.each([
  [null, null],
  [{ reason: 'max_output_tokens' }, { reason: 'max_output_tokens' }],
  [{ reason: 'acme_quota' }, { reason: 'acme_quota' }],
])('an incomplete response with the details %j keeps them', (incomplete_details, shown) => {
  const output = [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Rome' }] }];
  const events = guarded(responsesCodec, { object: 'response', status: 'incomplete', incomplete_details, output });
  expect(responsesCodec.renderWhole(events, decoded)).toMatchObject({
    status: 'incomplete',
    incomplete_details: shown,
  });
});

describe('a failure in a field of its own, as llama.cpp sends it', () => {
  test.each([
    ['Chat', chatCodec],
    ['Messages', messagesCodec],
    ['Responses', responsesCodec],
    ['Gemini', geminiCodec],
  ])('is reported with its message: %s', (_, codec) => {
    const text = 'error: {"code":500,"message":"Failed to parse","type":"server_error"}\n\n';
    const failure = catchFailure(() => parseChunks(codec, 'acme', [Buffer.from(text)]));
    expect([failure.kind, failure.facts.message]).toEqual(['reported', 'Failed to parse']);
  });
});
