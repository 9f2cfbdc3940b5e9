import { parseExact } from '../lib/exact-json.ts';
import { expect, test } from 'vitest';
import type { JsonObject } from '../codecs/codec.ts';
import { outgoingJson } from './outgoing-json.ts';

const read = (body: JsonObject): unknown => JSON.parse(outgoingJson(body).toString('utf8'));

test('half a surrogate pair becomes U+FFFD at every place, in names too', () => {
  expect(read({ messages: [{ role: 'user', content: 'a\ud83d' }], ['x\udc00']: { deep: ['\udfff!', '😀'] } })).toEqual({
    messages: [{ role: 'user', content: 'a\ufffd' }],
    'x\ufffd': { deep: ['\ufffd!', '😀'] },
  });
});

test('signed and sealed values are sent back unchanged', () => {
  const signed = { type: 'thinking', thinking: 'half \ud83d', signature: 's' };
  const sealed = { type: 'reasoning', summary: [{ type: 'summary_text', text: '\udc00' }], encrypted_content: 'e' };
  expect(read({ content: [signed, sealed, { type: 'text', text: '\ud83d' }] })).toEqual({
    content: [signed, sealed, { type: 'text', text: '\ufffd' }],
  });
});

test('a text that only looks like an escape is left alone', () => {
  const body = { text: 'in code: \\ud83d and \\\\ud83d', emoji: '😀' };
  expect(outgoingJson(body).toString('utf8')).toBe(JSON.stringify(body));
});

test('what was marked when it was read is put back', () => {
  const text = '{"a":12345678901234567890,"b":1,"2":2}';
  expect(outgoingJson(parseExact(text).value as JsonObject).toString()).toBe(text);
});
