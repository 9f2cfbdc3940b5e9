import fc from 'fast-check';
import { expect, test } from 'vitest';
import { GrowingText } from './growing-text.ts';
import { anyCharacters } from './any-text.fixtures.ts';

test('it is the concatenation of its pieces, whenever it is read', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(anyCharacters({ maxLength: 4 }), fc.boolean())), pieces => {
      const text = new GrowingText();
      let plain = '';
      for (const [piece, read] of pieces) {
        text.append(piece);
        plain += piece;
        expect(text.length).toBe(plain.length);
        if (read) expect(`${text}`).toBe(plain);
      }
      expect(`${text}`).toBe(plain);
    }),
  );
});

test('many small pieces are joined correctly, even if a surrogate pair is split between two', () => {
  const text = new GrowingText();
  let plain = '';
  for (let number = 0; number < 20_000; number += 1) {
    const piece = number % 2 === 0 ? '\ud83d' : `\ude00${number}`;
    text.append(piece);
    plain += piece;
  }
  expect(`${text}`).toBe(plain);
});

test('is empty if nothing was added', () => {
  expect([`${new GrowingText()}`, new GrowingText().length]).toEqual(['', 0]);
});
