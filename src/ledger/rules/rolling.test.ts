import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  addToRolling,
  changeRolling,
  countTimes,
  opensAtMs,
  peakRolling,
  type Rolling,
  sumRolling,
} from './rolling.ts';

const none: Rolling = new Float64Array(0);
const countAdmissions = (rolling: Rolling, now: number): number => sumRolling(rolling, now).used;
const withAdmission = (rolling: Rolling, now: number): Rolling => addToRolling(rolling, now, { used: 1, held: 0 }, now);

const step = fc.oneof(
  fc.constantFrom(0, 1, 999, 1000, 59_999, 60_000, 60_001, -1, -1000, -59_999, -60_000, -3_600_000),
  fc.nat(70_000),
);

test('a minute contains the amounts younger than 60 s and those later than now, however the clock is set', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ step, adds: fc.nat(3) }), { maxLength: 60, size: 'max' }),
      fc.integer({ min: 1, max: 5 }),
      (steps, max) => {
        const stored: number[] = [];
        let admissions = none;
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
          expect(opensAtMs(admissions, max - 1, now)).toBe(opens);
        }
      },
    ),
    { numRuns: 300 },
  );
});

test('each of many amounts expires 60 to 61 s after its admission, and the list stays bounded', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(200), { minLength: 800, maxLength: 2000 }), steps => {
      const stored: number[] = [];
      let admissions = none;
      let now = 1_000_000_000;
      for (const [index, by] of steps.entries()) {
        now += by;
        stored.push(now);
        admissions = withAdmission(admissions, now);
        expect(countTimes(admissions)).toBeLessThanOrEqual(245);
        if (index % 100 !== 0) continue;
        const count = countAdmissions(admissions, now);
        expect(count).toBeGreaterThanOrEqual(stored.filter(at => at > now - 60_000).length);
        expect(count).toBeLessThanOrEqual(stored.filter(at => at > now - 61_000).length);
      }
      // The row some time later, without admissions.
      for (let later = now; later <= now + 61_000; later += 777) {
        const count = countAdmissions(admissions, later);
        expect(count).toBeGreaterThanOrEqual(stored.filter(at => at > later - 60_000).length);
        expect(count).toBeLessThanOrEqual(stored.filter(at => at > later - 61_000).length);
      }
    }),
    { numRuns: 30 },
  );
});

test('an amount that is added to a time before the minute does not count', () => {
  const rolling = withAdmission(none, 5000);
  expect(countAdmissions(rolling, 65_000)).toBe(0);
  expect(countAdmissions(addToRolling(rolling, 5000, { used: 1, held: 0 }, 65_000), 65_000)).toBe(0);
});

test('many amounts of one millisecond are counted, and a clock that steps back repeatedly does not make the list grow', () => {
  let admissions = none;
  for (let count = 0; count < 10_000; count++) admissions = withAdmission(admissions, 5000);
  expect(countAdmissions(admissions, 5000)).toBe(10_000);
  expect(countTimes(admissions)).toBe(1);
  for (let back = 0; back < 3000; back++) admissions = withAdmission(admissions, 10_000_000 - back * 300);
  expect(countTimes(admissions)).toBeLessThanOrEqual(480);
});

test('a change applies at the time of the admission, and further amounts of a request must fit into the fullest minute that contains it', () => {
  const amount = fc.record({ used: fc.nat(20), held: fc.nat(20) });
  fc.assert(
    fc.property(
      fc.array(fc.record({ step, amount, later: amount, of: fc.nat(20) }), {
        minLength: 1,
        maxLength: 40,
        size: 'max',
      }),
      steps => {
        const stored: { at: number; used: number; held: number }[] = [];
        let rolling = none;
        let now = 1_000_000_000;
        for (const each of steps) {
          now += each.step;
          stored.push({ at: now, ...each.amount });
          rolling = addToRolling(rolling, now, each.amount, now);
          const changed = stored.at(-1 - each.of) ?? stored[0];
          if (changed === undefined) continue;
          const change = { used: each.later.used - changed.used, held: each.later.held - changed.held };
          Object.assign(changed, each.later);
          rolling = changeRolling(rolling, changed.at, change);
          const sum = (of: typeof stored): number => of.reduce((all, { used, held }) => all + used + held, 0);
          const young = stored.filter(({ at }) => at > now - 60_000);
          const is = sumRolling(rolling, now);
          expect(is.used + is.held).toBe(sum(young));
          const ends = stored
            .map(({ at }) => at)
            .filter(at => at >= changed.at && at <= now && at < changed.at + 60_000);
          const minutes = ends.map(end => sum(stored.filter(({ at }) => at > end - 60_000 && at <= end)));
          const present = now < changed.at + 60_000 ? sum(young) : 0;
          expect(peakRolling(rolling, changed.at, now)).toBe(Math.max(present, ...minutes, 0));
        }
      },
    ),
    { numRuns: 300 },
  );
});
