import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JsonObject } from '../codecs/codec.ts';
import { parseExact } from '../lib/exact-json.ts';
import { LargeJson } from '../lib/large-json.ts';
import { outgoingBody, outgoingJson } from './outgoing-json.ts';
import { anyCharacters } from '../lib/any-text.fixtures.ts';

const read = (body: JsonObject): unknown => JSON.parse(outgoingJson(body).toString('utf8'));

test('half a surrogate pair becomes U+FFFD everywhere, also in names', () => {
  expect(read({ messages: [{ role: 'user', content: 'a\ud83d' }], ['x\udc00']: { deep: ['\udfff!', '😀'] } })).toEqual({
    messages: [{ role: 'user', content: 'a\ufffd' }],
    'x\ufffd': { deep: ['\ufffd!', '😀'] },
  });
});

test('signed and encrypted content is sent back unchanged', () => {
  const signed = { type: 'thinking', thinking: 'half \ud83d', signature: 's' };
  const sealed = { type: 'reasoning', summary: [{ type: 'summary_text', text: '\udc00' }], encrypted_content: 'e' };
  expect(read({ content: [signed, sealed, { type: 'text', text: '\ud83d' }] })).toEqual({
    content: [signed, sealed, { type: 'text', text: '\ufffd' }],
  });
});

test('a text that only looks like an escape is unchanged', () => {
  const body = { text: 'in code: \\ud83d and \\\\ud83d', emoji: '😀' };
  expect(outgoingJson(body).toString('utf8')).toBe(JSON.stringify(body));
});

test('numbers and members that were marked when the JSON was read are restored', () => {
  const text = '{"a":12345678901234567890,"b":1,"2":2}';
  expect(outgoingJson(parseExact(text).value as JsonObject).toString()).toBe(text);
});

/** Writes a large body twice, as for two keys. Expects the measured length, and the same bytes both times; returns them. */
async function writtenInSlices(body: JsonObject): Promise<Buffer> {
  const measured = await outgoingBody(body);
  if (!(measured instanceof LargeJson)) throw new Error('the body is not large');
  const written = Buffer.concat(await Array.fromAsync(measured.slices()));
  expect(measured.length).toBe(written.length);
  expect(Buffer.concat(await Array.fromAsync(measured.slices())).equals(written)).toBe(true);
  return written;
}

test('a large body is written in several turns, as the same bytes as in one', async () => {
  const member = fc.oneof(
    fc.jsonValue(),
    anyCharacters(),
    fc.constantFrom('\ud83d', '\udc00 half', 'quote " and \\ and \n'),
    fc.record({
      text: fc.string({ unit: fc.constantFrom('a', '\ud83d', '\udc00', '😀', '"') }),
      signature: fc.constantFrom('', 's'),
    }),
  );
  // Texts that are longer than a slice, with surrogate pairs and halves of pairs at its end.
  const long = fc
    .tuple(fc.integer({ min: 262_140, max: 262_146 }), fc.constantFrom('😀', '\ud83d', '\udc00', '"', '\\ud83d'))
    .map(([length, end]) => `${'x'.repeat(length)}${end}${'y'.repeat(1_000_000)}`);
  await fc.assert(
    fc.asyncProperty(fc.dictionary(anyCharacters(), member), long, fc.boolean(), async (members, text, isSigned) => {
      const body = { ...members, long: { text, ...(isSigned ? { signature: 's' } : {}) }, [text]: [] } as JsonObject;
      expect((await writtenInSlices(body)).equals(outgoingJson(body))).toBe(true);
    }),
    { numRuns: 40 },
  );
});

test('what was marked when the JSON was read is restored in a large body, too', async () => {
  const text = `{"a":12345678901234567890,"b":"${'x'.repeat(2 ** 21)}","2":[1${'0'.repeat(300_000)}],"__proto__":2}`;
  expect((await writtenInSlices(parseExact(text).value as JsonObject)).toString()).toBe(text);
});
