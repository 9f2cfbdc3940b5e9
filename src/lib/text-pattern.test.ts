import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compilePattern, compilePatterns, countStars } from './text-pattern.ts';

/** Says what a pattern means, slowly: `*` takes nothing, or one more character. */
function matchesSlowly(pattern: string, text: string): boolean {
  if (pattern === '') return text === '';
  if (pattern[0] !== '*')
    return pattern[0] === text[0] && text !== '' && matchesSlowly(pattern.slice(1), text.slice(1));
  return matchesSlowly(pattern.slice(1), text) || (text !== '' && matchesSlowly(pattern, text.slice(1)));
}

describe('a pattern of names', () => {
  it('means what the definition of * says, for all short patterns and texts', () => {
    const letters = (...of: string[]) => fc.string({ unit: fc.constantFrom(...of), maxLength: 7 });
    fc.assert(
      fc.property(letters('a', 'b', '*'), letters('a', 'b'), (pattern, text) => {
        expect(compilePattern(pattern)(text)).toBe(matchesSlowly(pattern, text));
      }),
      { numRuns: 2_000 },
    );
  });

  it('takes characters that mean something in regular expressions as they are', () => {
    expect(compilePattern('a.b(*)[x]\n*')('a.b(1)[x]\nrest')).toBe(true);
    expect(compilePattern('a.b*')('axb1')).toBe(false);
  });

  it('does not match the same characters for both ends', () => {
    expect(compilePattern('aba*aba')('aba')).toBe(false);
    expect(compilePattern('aba*aba')('abaaba')).toBe(true);
  });

  it('reads a text once, whatever the pattern: each part is looked up from where the one before ended', () => {
    // As a regular expression, 30 `.*` in a row did not end within the life of the process.
    expect(compilePattern(`${'*'.repeat(30)}X`)('a'.repeat(10_000))).toBe(false);
    expect(compilePattern(`${'a*'.repeat(1_000)}X`)('a'.repeat(10_000))).toBe(false);
  });

  it('is one of several, beside names', () => {
    const matches = compilePatterns(['openai/*', 'acme/small']);
    expect(['openai/gpt', 'acme/small', 'acme/smaller', 'x/openai/gpt'].map(matches)).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  it('counts several * in a row as one', () => {
    expect([countStars('a'), countStars('a*'), countStars('**a***b*')]).toEqual([0, 1, 3]);
  });
});
