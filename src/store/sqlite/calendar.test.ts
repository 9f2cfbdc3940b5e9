import fc from 'fast-check';
import { expect, test } from 'vitest';
import { dayMs, dayOf, endOfDayMs, hourOf, monthOf } from './calendar.ts';

const at = fc.integer({ min: Date.parse('1999-01-01T00:00:00Z'), max: Date.parse('2101-12-31T23:59:59.999Z') });

test('every moment lies in exactly one day and month, which end when the next begins', () => {
  fc.assert(
    fc.property(at, ms => {
      const iso = new Date(ms).toISOString();
      expect(new Date(dayOf(ms) * dayMs).toISOString().slice(0, 10)).toBe(iso.slice(0, 10));
      expect(hourOf(ms)).toBe(Date.parse(`${iso.slice(0, 13)}:00:00Z`) / 3_600_000);
      expect(dayOf(endOfDayMs(ms))).toBe(dayOf(ms) + 1);
      const { first, last, endMs } = monthOf(ms);
      expect(new Date(first * dayMs).toISOString()).toBe(`${iso.slice(0, 7)}-01T00:00:00.000Z`);
      expect(first <= dayOf(ms) && dayOf(ms) <= last).toBe(true);
      expect(dayOf(endMs)).toBe(last + 1);
      expect(monthOf(endMs).first).toBe(last + 1);
    }),
  );
});

test.each([
  ['2028-02-15T00:00:00Z', 29],
  ['2027-02-15T00:00:00Z', 28],
  ['2100-02-15T00:00:00Z', 28],
  ['2026-12-31T23:59:59.999Z', 31],
])('the month of %s has %i days', (time, days) => {
  const { first, last } = monthOf(Date.parse(time));
  expect(last - first + 1).toBe(days);
});
