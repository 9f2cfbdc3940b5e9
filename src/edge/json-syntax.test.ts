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

test('the position is the one in the message of V8, if it has one', () => {
  let named = 0;
  fc.assert(
    fc.property(fc.json(), fc.nat(), fc.constantFrom('', ',', '"', '}', ']', 'x', '\n'), (json, place, damage) => {
      const at = place % (json.length + 1);
      const text = json.slice(0, at) + damage + json.slice(at + 1);
      const engine = /at position (\d+)/.exec(refusal(text))?.[1];
      fc.pre(engine !== undefined);
      named += 1;
      const { line, column } = findSyntaxProblem(text);
      const before = text.split('\n').slice(0, line - 1);
      const offset = before.join('\n').length + (line > 1 ? 1 : 0) + column - 1;
      // For a misspelt word, V8 reports the wrong letter, and this function the beginning of the word.
      if (!/^[tfn]/.test(text.slice(offset))) expect(offset).toBe(Number(engine));
    }),
    { numRuns: 3000 },
  );
  expect(named).toBeGreaterThan(100);
});

/** Returns V8's error message about a text; '' if it is JSON. */
function refusal(text: string): string {
  try {
    JSON.parse(text);
    return '';
  } catch (thrown) {
    return String(thrown);
  }
}

test('a megabyte of escapes is searched without overflowing a stack', () => {
  const text = `"${'\\n'.repeat(1_000_000)}`;
  expect(findSyntaxProblem(text)).toMatchObject({ line: 1, column: text.length + 1 });
});
