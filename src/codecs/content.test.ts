import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isBase64 } from './content.ts';

const pattern = /^[A-Za-z0-9+/]+={0,2}$/;

test('short and long texts are accepted as base64 by the same rules, wherever a text breaks them', () => {
  const lengths = fc.oneof(
    fc.nat(40),
    fc.integer({ min: 16_380, max: 16_390 }),
    fc.integer({ min: 65_530, max: 200_000 }),
  );
  const odd = fc.constantFrom('', '', 'A', '+', '/', '-', '_', '=', ' ', '\n', '.', '\0', 'é', 'Ł', '\u0141', '😀');
  const padding = fc.constantFrom('', '=', '==', '===');
  fc.assert(
    fc.property(lengths, odd, fc.double({ min: 0, max: 1, noNaN: true }), padding, (length, char, share, end) => {
      const at = Math.floor(share * length);
      const text =
        'aB3/'
          .repeat(length / 4 + 1)
          .slice(0, length)
          .slice(0, at) +
        char +
        'x'.repeat(length - at) +
        end;
      const digits = text.replace(/={1,2}$/, '').length;
      const isWhole = digits % 4 !== 1 && (digits === text.length || text.length % 4 === 0);
      expect(isBase64(text)).toBe(pattern.test(text) && isWhole);
    }),
    { numRuns: 1000 },
  );
});
