import { expect, test } from 'vitest';
import { closest } from './closest.ts';

test.each([
  ['timeuots', ['timeouts', 'texts'], 'timeouts'],
  ['Acme/Large', ['acme/small', 'acme/large'], 'acme/large'],
  ['gpt4', ['gpt-4', 'gpt-5'], 'gpt-4'],
  ['ab', ['ba'], 'ba'],
  ['large', ['sim/tiny', 'other'], undefined],
  ['x'.repeat(101), ['x'.repeat(100)], undefined],
  ['', ['a', 'abcdef'], 'a'],
  ['same', [], undefined],
])('%s among %j is taken for %s', (text, known, expected) => {
  expect(closest(text, known)).toBe(expected);
});

test('of two as near, the first is meant', () => {
  expect(closest('acme/b', ['acme/a', 'acme/c'])).toBe('acme/a');
});
