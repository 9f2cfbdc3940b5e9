import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BoundsScan, type JsonBounds } from './json-bounds.ts';

const loose: JsonBounds = { depthMax: 1000, valuesMax: 1_000_000, entriesMax: 1_000_000 };

/** Returns the bound that a text exceeds; its bytes arrive in chunks of `size`. */
function exceeded(text: string, bounds: Partial<JsonBounds>, size = Infinity): string | undefined {
  const scan = new BoundsScan({ ...loose, ...bounds });
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += size) {
    const problem = scan.push(bytes.subarray(at, at + size));
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Returns the depth, the number of values, and the most entries of one object or array, of a parsed value. */
function measure(value: unknown): { depth: number; values: number; entries: number } {
  if (typeof value !== 'object' || value === null) return { depth: 0, values: 1, entries: 0 };
  const inner = Object.values(value).map(measure);
  return {
    depth: 1 + Math.max(0, ...inner.map(each => each.depth)),
    values: 1 + inner.reduce((sum, each) => sum + each.values, 0),
    entries: Math.max(inner.length, ...inner.map(each => each.entries)),
  };
}

test('depth, entries and values are those of the parsed value, wherever the bytes are cut', () => {
  const value = fc.jsonValue({
    maxDepth: 6,
    stringUnit: fc.constantFrom('[', '{', '"', '\\', ',', 'é', 'x'.repeat(40)),
  });
  fc.assert(
    fc.property(value, fc.integer({ min: 1, max: 90 }), (json, size) => {
      const text = JSON.stringify(json);
      const { depth, values, entries } = measure(json);
      // The scan counts an empty object or array as if it had one entry.
      const counted = text.match(/\{\}|\[\]/g)?.length ?? 0;
      expect(
        exceeded(text, { depthMax: depth, valuesMax: values + counted, entriesMax: Math.max(1, entries) }, size),
      ).toBe(undefined);
      if (depth > 0) expect(exceeded(text, { depthMax: depth - 1 }, size)).toMatch(/deeper/);
      if (entries > 1) expect(exceeded(text, { entriesMax: entries - 1 }, size)).toMatch(/more than/);
    }),
  );
});

test('values are counted over all objects and arrays', () => {
  const text = JSON.stringify({ a: [1, 2, 3], b: { c: [4, 5] } });
  expect(measure(JSON.parse(text)).values).toBe(9);
  expect(exceeded(text, { valuesMax: 9 })).toBeUndefined();
  expect(exceeded(text, { valuesMax: 7 })).toBe('has more than 7 values');
});

test('the content of long strings is skipped, escaped quotes included', () => {
  const deep = '['.repeat(20) + ']'.repeat(20);
  const inside = JSON.stringify({ a: `${'x'.repeat(100)}\\" ${'"'.repeat(50)}${deep}${'y'.repeat(100)}\\` });
  for (const size of [1, 7, 64, 65, 1000]) {
    expect(exceeded(inside, { depthMax: 3 }, size)).toBeUndefined();
    const behind = `{"a":"${'x'.repeat(100)}\\\\","b":${deep}}`;
    expect(exceeded(behind, { depthMax: 20 }, size)).toMatch(/deeper than 20/);
    expect(exceeded(behind, { depthMax: 21 }, size)).toBeUndefined();
  }
});
