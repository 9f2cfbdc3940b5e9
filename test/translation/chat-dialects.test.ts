/** Requests to Chat upstreams that do not support the whole protocol: what a server's dialect changes, for Chat clients and for others. Ids like EF-10 name cases of `test/translation/cases.json`. */
import { describe, expect, test } from 'vitest';
import { chatCodec } from '../../src/codecs/chat/index.ts';
import type { ClientCodec, JsonObject } from '../../src/codecs/codec.ts';
import type { Dialect } from '../../src/codecs/dialect.ts';
import { messagesCodec } from '../../src/codecs/messages/index.ts';

const messages = [{ role: 'user', content: 'hi' }];

function sent(from: ClientCodec, fields: JsonObject, dialect: Dialect): JsonObject {
  const body = { model: 'm', messages, ...fields };
  const { request } = from.decodeRequest({ body, raw: Buffer.from(JSON.stringify(body)), headers: {} });
  const { maxOutputTokens } = request;
  return chatCodec.encodeRequest({ request, model: 'up', maxOutputTokens, stream: true, dialect }).body;
}

describe('EF-10: the output limit, which has only one name', () => {
  test.each<[string, ClientCodec, JsonObject]>([
    ['of a Chat client that says max_completion_tokens', chatCodec, { max_completion_tokens: 9 }],
    ['of a Chat client that says max_tokens', chatCodec, { max_tokens: 9 }],
    ['of a Messages client', messagesCodec, { max_tokens: 9 }],
  ])('%s is sent as max_tokens if the upstream knows no other name', (_, from, fields) => {
    const body = sent(from, fields, { limitName: 'max_tokens' });
    expect([body['max_tokens'], body['max_completion_tokens']]).toEqual([9, undefined]);
  });

  test('of a Messages client is sent as max_completion_tokens to other upstreams', () => {
    const body = sent(messagesCodec, { max_tokens: 9 }, {});
    expect([body['max_tokens'], body['max_completion_tokens']]).toEqual([undefined, 9]);
  });
});

test.each([chatCodec, messagesCodec])('an upstream that refuses stream_options does not get them (%#)', from => {
  const fields = from === chatCodec ? { stream: true, stream_options: { include_usage: true } } : { max_tokens: 9 };
  expect(sent(from, fields, { streamOptions: 'refused' })).not.toHaveProperty('stream_options');
  expect(sent(from, fields, {})).toMatchObject({ stream_options: { include_usage: true } });
});
