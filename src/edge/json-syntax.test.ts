import fc from 'fast-check';
import { expect, test } from 'vitest';
import { findSyntaxProblem } from './json-syntax.ts';

test.each([
  ['', 1, 1, 'a value'],
  ['{', 1, 2, 'a double-quoted member name or “}”'],
  ["{'a':1}", 1, 2, 'a double-quoted member name or “}”'],
  ['{"a" 1}', 1, 6, '“:”'],
  ['{"a":}', 1, 6, 'a value'],
  ['{"a":1,}', 1, 8, 'a double-quoted member name'],
  ['[1,]', 1, 4, 'a value'],
  ['[1 2]', 1, 4, '“,” or the end of the object or array'],
  ['{"a":1]', 1, 7, '“,” or the end of the object or array'],
  ['[\n  tru\n]', 2, 3, 'a value or “]”'],
  ['{"a":\n tru}', 2, 2, 'a value'],
  ['-x', 1, 2, 'a digit'],
  ['[1.]', 1, 4, 'a digit'],
  ['1e+', 1, 4, 'a digit'],
  ['01', 1, 2, 'the end of the body'],
  ['"a\nb"', 1, 3, 'no raw control character in a string (escape it)'],
  ['"\\x"', 1, 3, 'a valid escape'],
  ['"\\u12g4"', 1, 6, 'a valid escape'],
  ['\uFEFF{}', 1, 1, 'a value'],
])('%j breaks at line %i, column %i: expected %s', (text, line, column, expected) => {
  expect(findSyntaxProblem(text)).toEqual({ line, column, expected });
});

test('the position is the same as in V8’s error message, if that contains a position; misspelt literals are excepted', () => {
  let compared = 0;
  fc.assert(
    fc.property(fc.json(), fc.nat(), fc.constantFrom('', ',', '"', '}', ']', 'x', '\n'), (json, place, damage) => {
      const at = place % (json.length + 1);
      const text = json.slice(0, at) + damage + json.slice(at + 1);
      const v8Position = /at position (\d+)/.exec(v8Message(text))?.[1];
      fc.pre(v8Position !== undefined);
      compared += 1;
      const { line, column } = findSyntaxProblem(text);
      const before = text.split('\n').slice(0, line - 1);
      const offset = before.join('\n').length + (line > 1 ? 1 : 0) + column - 1;
      // For a misspelt literal (`true`, `false`, `null`), V8 reports the first letter that does not match; this function reports the beginning
      // of the literal.
      if (!/^[tfn]/.test(text.slice(offset))) expect(offset).toBe(Number(v8Position));
    }),
    { numRuns: 3000 },
  );
  expect(compared).toBeGreaterThan(100);
});

/** Returns V8's error message about a text; '' if it is JSON. */
function v8Message(text: string): string {
  try {
    JSON.parse(text);
    return '';
  } catch (thrown) {
    return String(thrown);
  }
}

test('a million escapes are searched without a stack overflow', () => {
  const text = `"${'\\n'.repeat(1_000_000)}`;
  expect(findSyntaxProblem(text)).toMatchObject({ line: 1, column: text.length + 1 });
});
