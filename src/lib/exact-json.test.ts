import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseExact } from './exact-json.ts';
import { anyCharacters } from './any-text.fixtures.ts';

/** Reads a text and writes it again. */
function again(text: string): string {
  const { value, restore } = parseExact(text);
  const written = JSON.stringify(value);
  return restore === undefined ? written : restore(written);
}

describe('JSON that is read and written again', () => {
  test.each([
    '12345678901234567890',
    '{"a":[-0.1234567890123456789,1e400,-1E-400,9007199254740993]}',
    '{"b":1,"2":2,"1":3,"a":{"10":1,"9":{}}}',
    '{"__proto__":{"a":1},"b":2}',
    '{"text":"12345678901234567890","2":"\\"1\\":12345678901234567890"}',
    '{"a":"\uf8ff","1":"\uf8ff:","0":12345678901234567890}',
  ])('%s is the same', text => {
    expect(again(text)).toBe(text);
  });

  test('a number that a double represents exactly stays a number', () => {
    expect(again('[1.50,1e3,100000000000000000000,0.10,-0.0]')).toBe('[1.5,1000,100000000000000000000,0.1,-0.0]');
  });

  test('numbers that a double can’t hold are kept when other members change', () => {
    const { value, restore } = parseExact('{"model":"a","10":12345678901234567890,"9":1}');
    const changed = JSON.stringify({ ...(value as object), model: 'b' });
    expect(restore?.(changed)).toBe('{"model":"b","10":12345678901234567890,"9":1}');
  });

  test('ordinary JSON is parsed like by JSON.parse, and has nothing to restore', () => {
    expect(parseExact('{"temperature":0.7,"max_tokens":100}')).toEqual({
      value: { temperature: 0.7, max_tokens: 100 },
      restore: undefined,
    });
  });

  test('the text may contain the characters of marks, even escaped', () => {
    expect(again('{"a":"\\uf8ff1","1":2}')).toBe('{"a":"\uf8ff1","1":2}');
  });

  test('text that is not JSON is refused', () => {
    expect(() => parseExact('{"1":12345678901234567890')).toThrow(SyntaxError);
  });

  test('any JSON, with any names', () => {
    const name = fc.oneof(fc.string(), fc.nat().map(String), fc.constant('__proto__'));
    const leaf = fc.oneof(anyCharacters(), fc.bigInt(), fc.double({ noNaN: true, noDefaultInfinity: true }));
    const { json } = fc.letrec<{ json: string; leaf: string }>(tie => ({
      leaf: leaf.map(value => (typeof value === 'bigint' ? String(value) : JSON.stringify(value))),
      json: fc.oneof(
        { maxDepth: 4 },
        tie('leaf'),
        fc.array(tie('json'), { maxLength: 4 }).map(values => `[${values.join(',')}]`),
        fc
          .uniqueArray(fc.tuple(name, tie('json')), { selector: ([key]) => key, maxLength: 4 })
          .map(members => `{${members.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`),
      ),
    }));
    fc.assert(
      fc.property(json, text => {
        expect(canonical(again(text))).toBe(canonical(text));
      }),
    );
  });
});

/** Numbers that a double represents, unchanged. */
function canonical(text: string): string {
  return text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, token => {
    if (token.startsWith('"')) return token;
    return /^-?\d{16,}$/.test(token) ? token.replace(/^-0$/, '0') : String(Number(token));
  });
}
