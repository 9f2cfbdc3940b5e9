/** Requests to Chat upstreams that support less than the protocol: the changes for a provider's quirks, for a Chat client and for others. */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, JsonObject, UpstreamQuirk } from '../../src/codecs/codec.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';

const messages = [{ role: 'user', content: 'hi' }];

function sent(from: ClientCodec, fields: JsonObject, quirks: readonly UpstreamQuirk[]): JsonObject {
  const body = { model: 'm', messages, ...fields };
  const { request } = from.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} });
  const { maxOutputTokens } = request;
  return chatCodec.encodeRequest({ request, model: 'up', maxOutputTokens, stream: true, quirks }).body;
}

describe('EF-10: the one name of the output limit', () => {
  test.each<[string, ClientCodec, JsonObject]>([
    ['of a Chat client that says max_completion_tokens', chatCodec, { max_completion_tokens: 9 }],
    ['of a Chat client that says max_tokens', chatCodec, { max_tokens: 9 }],
    ['of a Messages client', messagesCodec, { max_tokens: 9 }],
  ])('%s is max_tokens where the upstream knows no other', (_, from, fields) => {
    const body = sent(from, fields, ['max_tokens']);
    expect([body['max_tokens'], body['max_completion_tokens']]).toEqual([9, undefined]);
  });

  test('of a Messages client is max_completion_tokens elsewhere', () => {
    const body = sent(messagesCodec, { max_tokens: 9 }, []);
    expect([body['max_tokens'], body['max_completion_tokens']]).toEqual([undefined, 9]);
  });
});

test.each([chatCodec, messagesCodec])('an upstream that refuses stream_options is sent none (%#)', from => {
  const fields = from === chatCodec ? { stream: true, stream_options: { include_usage: true } } : { max_tokens: 9 };
  expect(sent(from, fields, ['no_stream_options'])).not.toHaveProperty('stream_options');
  expect(sent(from, fields, [])).toMatchObject({ stream_options: { include_usage: true } });
});
