import fc from 'fast-check';
import { expect, test } from 'vitest';
import { untilStop } from './stop.ts';

function run(chunks: readonly string[], stops: readonly string[]): { text: string; matched: string | undefined } {
  const steps = untilStop(chunks, stops);
  let text = '';
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return { text, matched: value };
    text += value;
  }
}

const letters = fc.string({ unit: fc.constantFrom('a', 'b', ' '), maxLength: 8 });

test('a text ends before the earliest stop sequence, however it is split into chunks', () => {
  fc.assert(
    fc.property(fc.array(letters, { maxLength: 12 }), fc.array(letters, { maxLength: 3 }), (chunks, stops) => {
      const whole = chunks.join('');
      const places = stops
        .filter(stop => stop !== '')
        .map(stop => whole.indexOf(stop))
        .filter(at => at >= 0);
      const { text, matched } = run(chunks, stops);
      if (places.length === 0) {
        expect({ text, matched }).toEqual({ text: whole, matched: undefined });
        return;
      }
      const at = Math.min(...places);
      expect(text).toBe(whole.slice(0, at));
      expect(whole.startsWith(matched ?? '-', at)).toBe(true);
    }),
    { numRuns: 2_000 },
  );
});
