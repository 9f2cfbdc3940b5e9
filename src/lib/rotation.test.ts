import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Rotation } from './rotation.ts';

function makeRotation(entries: readonly [owner: string, entry: number][]): Rotation<string, number> {
  const rotation = new Rotation<string, number>();
  for (const [owner, entry] of entries) rotation.add(owner, entry);
  return rotation;
}

function takeAllInTurn(rotation: Rotation<string, number>): number[] {
  const taken: number[] = [];
  for (let entry = rotation.takeNext(); entry !== undefined; entry = rotation.takeNext()) taken.push(entry);
  return taken;
}

test('entries are taken in rotation, one of each owner, and in order within an owner', () => {
  const rotation = makeRotation([
    ['busy', 1],
    ['busy', 2],
    ['busy', 3],
    ['quiet', 10],
    ['other', 20],
    ['other', 21],
  ]);
  expect(takeAllInTurn(rotation)).toEqual([1, 10, 20, 2, 21, 3]);
  expect(rotation.size).toBe(0);
});

test('the newest entry of the owner with the most makes room for an owner with fewer, never for one that would then have more', () => {
  const rotation = makeRotation([
    ['busy', 1],
    ['busy', 2],
    ['busy', 3],
    ['quiet', 10],
  ]);
  expect(rotation.displaceFor('busy')).toBeUndefined();
  expect(rotation.displaceFor('quiet')).toBe(3);
  expect(rotation.displaceFor('quiet')).toBeUndefined();
  expect(rotation.displaceFor('new')).toBe(2);
  expect(rotation.displaceFor('new')).toBeUndefined();
  expect(takeAllInTurn(rotation)).toEqual([1, 10]);
});

test('a removed entry is not taken, and its owner’s turn is not lost', () => {
  const rotation = makeRotation([
    ['a', 1],
    ['a', 2],
    ['b', 3],
  ]);
  expect([rotation.remove('a', 1), rotation.remove('a', 1), rotation.remove('c', 1)]).toEqual([true, false, false]);
  expect(rotation.list()).toEqual([2, 3]);
  expect(takeAllInTurn(rotation)).toEqual([2, 3]);
});

test('with any owners, an owner with one entry waits for at most one entry of each other owner', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 40 }), owners => {
      const rotation = makeRotation(owners.map((owner, index) => [owner, index]));
      rotation.add('last', -1);
      expect(rotation.size).toBe(owners.length + 1);
      const place = takeAllInTurn(rotation).indexOf(-1);
      expect(place).toBe(new Set(owners).size);
    }),
  );
});
