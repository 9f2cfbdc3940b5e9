import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SurrogateGate } from './surrogates.ts';

function pieces(...texts: string[]): string[] {
  const gate = new SurrogateGate();
  return [...texts.map(text => gate.push(text)), gate.end()];
}

test('half a character waits for its other half (case UN-04)', () => {
  expect(pieces('a\ud83d', '\ude00b')).toEqual(['a', '😀b', '']);
  expect(pieces('\ud83d', '', '\ude00')).toEqual(['', '', '😀', '']);
});

test('half a character without its other half becomes U+FFFD', () => {
  expect(pieces('a\ud83d')).toEqual(['a', '\ufffd']);
  expect(pieces('a\ud83d', 'b')).toEqual(['a', '\ufffdb', '']);
  expect(pieces('\ude00a')).toEqual(['\ufffda', '']);
});

/** Texts of characters and surrogates in any order. */
const halves = fc.array(fc.constantFrom('a', 'é', '\ud83d', '\ude00', '\udbff', '\udc00')).map(units => units.join(''));

test('any text in any pieces is returned in well-formed pieces that together are the well-formed text', () => {
  fc.assert(
    fc.property(halves, fc.array(fc.nat(20), { maxLength: 6 }), (text, cuts) => {
      const ends = [...cuts.map(cut => Math.min(cut, text.length)), text.length].sort((a, b) => a - b);
      const sent = pieces(...ends.map((end, index) => text.slice(ends[index - 1] ?? 0, end)));
      expect(sent.every(piece => piece.isWellFormed())).toBe(true);
      expect(sent.join('')).toBe(text.toWellFormed());
    }),
  );
});
