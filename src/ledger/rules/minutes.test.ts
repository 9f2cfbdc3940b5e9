import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Admissions, countAdmissions, opensAtMs, withAdmission } from './minutes.ts';

const step = fc.oneof(
  fc.constantFrom(0, 1, 999, 1000, 59_999, 60_000, 60_001, -1, -1000, -59_999, -60_000, -3_600_000),
  fc.nat(70_000),
);

test('a minute is what is younger than 60 s, later ones included, whatever the clock does', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ step, adds: fc.nat(3) }), { maxLength: 60, size: 'max' }),
      fc.integer({ min: 1, max: 5 }),
      (steps, max) => {
        const stored: number[] = [];
        let admissions: Admissions | undefined;
        let now = 1_000_000_000;
        for (const each of steps) {
          now += each.step;
          for (let count = 0; count < each.adds; count++) {
            stored.push(now);
            admissions = withAdmission(admissions, now);
          }
          const young = stored.filter(at => at > now - 60_000).sort((a, b) => a - b);
          expect(countAdmissions(admissions, now)).toBe(young.length);
          const leaving = young[Math.max(0, young.length - max)];
          const opens = leaving === undefined ? now : Math.min(leaving + 60_000, now + 61_000);
          expect(opensAtMs(admissions, max, now)).toBe(opens);
        }
      },
    ),
    { numRuns: 300 },
  );
});

test('of many, each leaves not before 60 s and at latest 61 s after its admission, in a bounded row', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(200), { minLength: 800, maxLength: 2000 }), steps => {
      const stored: number[] = [];
      let admissions: Admissions | undefined;
      let now = 1_000_000_000;
      for (const [index, by] of steps.entries()) {
        now += by;
        stored.push(now);
        admissions = withAdmission(admissions, now);
        expect(admissions.length).toBeLessThanOrEqual(245);
        if (index % 100 !== 0) continue;
        const count = countAdmissions(admissions, now);
        expect(count).toBeGreaterThanOrEqual(stored.filter(at => at > now - 60_000).length);
        expect(count).toBeLessThanOrEqual(stored.filter(at => at > now - 61_000).length);
      }
      // The row after it, as time goes on without admissions.
      for (let later = now; later <= now + 61_000; later += 777) {
        const count = countAdmissions(admissions, later);
        expect(count).toBeGreaterThanOrEqual(stored.filter(at => at > later - 60_000).length);
        expect(count).toBeLessThanOrEqual(stored.filter(at => at > later - 61_000).length);
      }
    }),
    { numRuns: 30 },
  );
});

test('many of one millisecond are counted, and a clock that steps back again and again does not make the row grow', () => {
  let admissions: Admissions | undefined;
  for (let count = 0; count < 10_000; count++) admissions = withAdmission(admissions, 5000);
  expect(countAdmissions(admissions, 5000)).toBe(10_000);
  expect(admissions).toHaveLength(3);
  for (let back = 0; back < 3000; back++) admissions = withAdmission(admissions, 10_000_000 - back * 300);
  expect(admissions?.length).toBeLessThanOrEqual(480);
});
