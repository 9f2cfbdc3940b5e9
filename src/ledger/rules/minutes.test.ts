import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Rings } from './rings.ts';

const step = fc.oneof(
  fc.constantFrom(0, 1, 999, 1000, 59_999, 60_000, 60_001, -1, -1000, -59_999, -60_000, -3_600_000),
  fc.nat(70_000),
);

test('a minute is what is younger than 60 s, later ones included, whatever the clock does and whenever memory is lost', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ step, what: fc.constantFrom('add', 'add', 'look', 'forget') }), {
        maxLength: 60,
        size: 'max',
      }),
      fc.integer({ min: 1, max: 5 }),
      (steps, max) => {
        const stored: number[] = [];
        const rings = new Rings((_, after) => stored.filter(at => at > after).toReversed());
        let now = 1_000_000_000;
        for (const each of steps) {
          now += each.step;
          if (each.what === 'forget') rings.clear();
          if (each.what === 'add') {
            stored.push(now);
            rings.add(7, now);
          }
          const young = stored.filter(at => at > now - 60_000).sort((a, b) => a - b);
          const minute = rings.at(7, now);
          expect(minute.count).toBe(young.length);
          const leaving = young[Math.max(0, young.length - max)];
          expect(minute.opensAtMs(max)).toBe(leaving === undefined ? now : leaving + 60_000);
        }
      },
    ),
    { numRuns: 300 },
  );
});

test('many owners are kept apart, and memory stays bounded', () => {
  let loads = 0;
  const rings = new Rings(owner => {
    loads++;
    return [owner];
  });
  for (let owner = 1; owner <= 25_000; owner++) expect(rings.at(owner, owner + 1).count).toBe(1);
  expect(loads).toBe(25_000);
  expect(rings.at(25_000, 30_000).count).toBe(1);
  expect(loads).toBe(25_000);
  rings.at(1, 2);
  expect(loads).toBe(25_001);
});
