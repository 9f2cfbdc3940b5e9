import { deserialize, serialize } from 'node:v8';
import { expect, test } from 'vitest';
import { toDense } from './dense.ts';

test('a copy has the same values, and is sent in the same short form as before it was received', () => {
  const made = ['settle', 1.5, [1, [2n, undefined]], null, { a: [1] }];
  const received: unknown = deserialize(serialize(made));
  // The form for lists with holes names every index.
  expect(serialize(received).length).toBeGreaterThan(serialize(made).length);
  expect(toDense(received)).toEqual(made);
  expect(serialize(toDense(received)).subarray(0, 20)).toEqual(serialize(made).subarray(0, 20));
});

test('what is not a list is returned as it is', () => {
  const denial = { kind: 'denied' };
  expect(toDense(denial)).toBe(denial);
  expect(toDense(undefined)).toBeUndefined();
});
