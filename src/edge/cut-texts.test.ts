import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type CutBody, cutTexts, fillPlaces, type MovedText, readTexts, TextTaker } from './cut-texts.ts';
import { anyCharacters } from '../lib/any-text.fixtures.ts';

const mark = '\uf8ffsecret';
const long = 70_000;

/** Returns what is read of a body in all: cut, parsed, taken apart and put together again. */
async function readBody(json: string): Promise<{ value: unknown; cut: CutBody; moved: readonly MovedText[] }> {
  const bytes = Buffer.from(json);
  const cut = cutTexts(bytes, mark);
  const taker = new TextTaker(cut, mark);
  const { value, places } = taker.take(JSON.parse(cut.json));
  const moved = taker.bytes();
  const texts = await readTexts(bytes, { ranges: cut.texts, moved });
  return { value: fillPlaces(value, places, texts), cut, moved };
}

test('a body that was taken apart is the same again, with its members in the same order', async () => {
  const text = fc.oneof(
    anyCharacters(),
    // Lone halves of pairs are only written as escapes.
    fc.constantFrom('"', '\\', '\\"', '\n', '\ud83d', '\u007f', `${mark}@`, '').map(each => each.repeat(3)),
    fc
      .tuple(fc.constantFrom('A', 'é', '中', '😀', '\n', '"', '\\', '\u007f'), fc.integer({ min: 0, max: 3 }))
      .map(([end, at]) => `${'A'.repeat(long)}${end}${'x'.repeat(at)}`),
  );
  const { value } = fc.letrec(tie => ({
    value: fc.oneof(
      { maxDepth: 4 },
      text,
      fc.integer(),
      fc.constant(null),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.oneof(text, fc.constantFrom('__proto__', '1', 'constructor')), tie('value'), { maxKeys: 4 }),
    ),
  }));
  await fc.assert(
    fc.asyncProperty(value, fc.constantFrom(undefined, 1), async (sent, indent) => {
      const json = JSON.stringify(sent, undefined, indent);
      expect(JSON.stringify((await readBody(json)).value)).toBe(JSON.stringify(JSON.parse(json)));
    }),
    { numRuns: 200 },
  );
});

test('long plain texts are not parsed, and others are moved as one or two bytes for each character', async () => {
  const plain = 'A'.repeat(long);
  const [escaped, emoji] = [`${plain}\n`, `😀${plain}`];
  const body = { plain, list: ['short', plain, escaped, { emoji, again: emoji }], [plain]: 1 };
  const { value, cut, moved } = await readBody(JSON.stringify(body));
  expect(value).toEqual(body);
  expect(cut.texts).toHaveLength(2);
  expect(cut.json.length).toBeLessThan(5 * long);
  expect(moved.map(({ encoding }) => encoding)).toEqual(['latin1', 'utf16le']);
  // Their memory is freed once they are read.
  expect(moved.map(({ bytes }) => bytes.length)).toEqual([0, 0]);
});

test('a body that is one text, and one whose name occurs twice, are read as JSON.parse reads them', async () => {
  const plain = 'A'.repeat(long);
  expect((await readBody(JSON.stringify(plain))).value).toBe(plain);
  expect((await readBody(`{"a":"${plain}","b":1,"a":"${plain}B"}`)).value).toEqual({ a: `${plain}B`, b: 1 });
});

test('in a body that is not JSON, a text without an end is not cut', () => {
  const { json, texts } = cutTexts(Buffer.from(`{"a":"${'A'.repeat(long)}`), mark);
  expect(texts).toEqual([]);
  expect(json).toHaveLength(long + 6);
  expect(cutTexts(Buffer.from(`{"a":"${'A'.repeat(long)}\\"`), mark).texts).toEqual([]);
});

test('a text with a control character is not cut, so that it is refused', () => {
  const { json } = cutTexts(Buffer.from(`["${'A'.repeat(long)}\u0001"]`), mark);
  expect(() => JSON.parse(json) as unknown).toThrow(SyntaxError);
});
