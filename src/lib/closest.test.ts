import fc from 'fast-check';
import { expect, test } from 'vitest';
import { closest } from './closest.ts';

test.each([
  ['timeuots', ['timeouts', 'texts'], 'timeouts'],
  ['Acme/Large', ['acme/small', 'acme/large'], 'acme/large'],
  ['gpt4', ['gpt-4', 'gpt-5'], 'gpt-4'],
  ['ab', ['ba'], 'ba'],
  ['abcdefghijkl', ['abcdefghi', 'bcdefghijklm'], 'bcdefghijklm'],
  ['abcdefghijkl', ['efghijkl'], undefined],
  ['large', ['sim/tiny', 'other'], undefined],
  ['x'.repeat(101), ['x'.repeat(100)], undefined],
  ['x'.repeat(99), ['x'.repeat(100)], 'x'.repeat(100)],
  ['', ['a', 'abcdef'], 'a'],
  ['same', [], undefined],
])('for %s, the closest of %j is %s', (text, known, expected) => {
  expect(closest(text, known)).toBe(expected);
});

test('of two equally near texts, the first is chosen', () => {
  expect(closest('acme/b', ['acme/a', 'acme/c'])).toBe('acme/a');
});

/** Returns the edit distance (swaps of neighbours included), with the textbook algorithm that fills the whole table. */
function distance(from: string, to: string): number {
  const table = Array.from({ length: from.length + 1 }, (_, row) =>
    Array.from({ length: to.length + 1 }, (_, column) => row + column),
  );
  const cell = (row: number, column: number): number => table[row]?.[column] ?? Infinity;
  for (let row = 1; row <= from.length; row += 1) {
    for (let column = 1; column <= to.length; column += 1) {
      const same = from[row - 1] === to[column - 1] ? 0 : 1;
      const swap = row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      const ways = [cell(row - 1, column) + 1, cell(row, column - 1) + 1, cell(row - 1, column - 1) + same];
      (table[row] ?? [])[column] = Math.min(...ways, swap ? cell(row - 2, column - 2) + 1 : Infinity);
    }
  }
  return cell(from.length, to.length);
}

test('finds the text that is nearest by the textbook distance', () => {
  const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 14 });
  fc.assert(
    fc.property(word, fc.array(word, { maxLength: 6 }), (text, known) => {
      const near = known
        .map(candidate => ({ candidate, edits: distance(text, candidate) }))
        .filter(({ candidate, edits }) => edits <= Math.min(3, Math.max(1, Math.floor(candidate.length / 3))))
        .sort((a, b) => a.edits - b.edits);
      expect(closest(text, known)).toBe(near[0]?.candidate);
    }),
    { numRuns: 2000 },
  );
});

test('a search among a hundred thousand known texts takes less than 20 ms of CPU time', () => {
  const known = Array.from({ length: 100_000 }, (_, index) => `provider/model-${index}`);
  const start = process.cpuUsage();
  for (let round = 0; round < 20; round += 1) closest(`provider/n0del-x${round}`, known);
  expect(process.cpuUsage(start).user / 1_000 / 20).toBeLessThan(20);
});
