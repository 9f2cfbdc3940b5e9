/** Requests to Chat servers that deviate from the protocol, by the quirks of their presets. */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, JsonObject } from '../../src/codecs/codec.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';
import { responsesCodec } from '../../src/codecs/responses/index.ts';
import { presets } from '../../src/config/presets.ts';

/** Returns the body that the preset's server gets for a request with an output limit of 7. */
function sent(preset: string, codec: ClientCodec, body: JsonObject): JsonObject {
  const { quirks } = presets.find(({ name }) => name === preset) ?? expect.fail(preset);
  const decoded = codec.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} });
  const encoded = chatCodec.encodeRequest({
    request: decoded.request,
    model: 'm',
    maxOutputTokens: 7,
    stream: true,
    provider: preset,
    ...(quirks === undefined ? {} : { quirks }),
  });
  return encoded.body;
}

const messages = [{ role: 'user', content: 'hi' }];
const requested: Readonly<Record<string, readonly [ClientCodec, JsonObject]>> = {
  'Chat, the new name': [chatCodec, { model: 'x', messages, max_completion_tokens: 9 }],
  'Chat, the old name': [chatCodec, { model: 'x', messages, max_tokens: 9 }],
  'Chat, none': [chatCodec, { model: 'x', messages }],
  'Chat, a stream': [chatCodec, { model: 'x', messages, stream: true, stream_options: { include_usage: false } }],
  Messages: [messagesCodec, { model: 'x', messages, max_tokens: 9 }],
  Responses: [responsesCodec, { model: 'x', input: 'hi', max_output_tokens: 16 }],
};
const limits = ({ max_tokens: old, max_completion_tokens: current }: JsonObject): unknown => [old, current];

describe.each(Object.entries(requested))('%s', (_, [codec, body]) => {
  test.each(['mistral', 'deepseek', 'together', 'fireworks', 'ollama', 'llama-cpp', 'lm-studio'])(
    '%s gets the output limit under the only name that it knows',
    preset => {
      expect(limits(sent(preset, codec, body))).toEqual([7, undefined]);
    },
  );

  test('OpenAI gets the output limit under one name: the client’s or the current one', () => {
    const expected = body['max_tokens'] !== undefined && codec === chatCodec ? [7, undefined] : [undefined, 7];
    expect(limits(sent('openai', codec, body))).toEqual(expected);
  });

  test('usage is requested, except from Mistral, which refuses the field', () => {
    expect(sent('mistral', codec, body)['stream_options']).toBeUndefined();
    expect(sent('groq', codec, body)['stream_options']).toEqual({ include_usage: true });
  });
});
