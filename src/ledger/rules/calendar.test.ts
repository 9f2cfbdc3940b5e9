import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type CalendarWindow, dayMs, toDay, toHour, findPlanPeriod, windowAt } from './calendar.ts';

const at = fc.integer({ min: Date.parse('1999-01-01T00:00:00Z'), max: Date.parse('2101-12-31T23:59:59.999Z') });

test('every moment lies in exactly one day and month, which end when the next begins', () => {
  fc.assert(
    fc.property(at, ms => {
      const iso = new Date(ms).toISOString();
      expect(new Date(toDay(ms) * dayMs).toISOString().slice(0, 10)).toBe(iso.slice(0, 10));
      expect(toHour(ms)).toBe(Date.parse(`${iso.slice(0, 13)}:00:00Z`) / 3_600_000);
      const day = windowAt('day', 'UTC', ms);
      expect([day.number, day.startMs, day.endMs]).toEqual([toDay(ms), toDay(ms) * dayMs, (toDay(ms) + 1) * dayMs]);
      const { number, startMs, endMs } = windowAt('month', 'UTC', ms);
      expect(new Date(startMs).toISOString()).toBe(`${iso.slice(0, 7)}-01T00:00:00.000Z`);
      expect(startMs <= ms && ms < endMs).toBe(true);
      expect(windowAt('month', 'UTC', endMs)).toMatchObject({ number: number + 1, startMs: endMs });
    }),
  );
});

test.each([
  ['2028-02-15T00:00:00Z', 29],
  ['2027-02-15T00:00:00Z', 28],
  ['2100-02-15T00:00:00Z', 28],
  ['2026-12-31T23:59:59.999Z', 31],
])('the month of %s has %i days', (time, days) => {
  const { startMs, endMs } = windowAt('month', 'UTC', Date.parse(time));
  expect((endMs - startMs) / dayMs).toBe(days);
});

const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe', 'America/Sao_Paulo'];

test('in every time zone windows follow one another without a gap, and their numbers grow by one', () => {
  fc.assert(
    fc.property(
      at,
      fc.constantFrom<CalendarWindow[]>('day', 'week', 'month'),
      fc.constantFrom(...zones),
      (ms, per, zone) => {
        const window = windowAt(per, zone, ms);
        expect(window.startMs <= ms && ms < window.endMs).toBe(true);
        expect(windowAt(per, zone, window.startMs)).toEqual(window);
        expect(windowAt(per, zone, window.endMs)).toMatchObject({ number: window.number + 1, startMs: window.endMs });
        expect(windowAt(per, zone, window.startMs - 1)).toMatchObject({
          number: window.number - 1,
          endMs: window.startMs,
        });
        const local = Temporal.Instant.fromEpochMilliseconds(window.startMs).toZonedDateTimeISO(zone);
        expect(local.startOfDay().epochMilliseconds).toBe(window.startMs);
        if (per === 'week') expect(local.dayOfWeek).toBe(1);
        if (per === 'month') expect(local.day).toBe(1);
      },
    ),
  );
});

test('hours begin with the hours of the time zone, and an hour that is repeated when the clocks go back counts as two', () => {
  fc.assert(
    fc.property(at, fc.constantFrom('UTC', 'Europe/Berlin', 'Asia/Kolkata', 'America/Sao_Paulo'), (ms, zone) => {
      const { number, startMs, endMs } = windowAt('hour', zone, ms);
      const local = Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(zone);
      expect(startMs <= ms && ms < endMs && endMs - startMs === 3_600_000).toBe(true);
      expect(ms - startMs).toBe(local.minute * 60_000 + local.second * 1000 + local.millisecond);
      expect(windowAt('hour', zone, endMs).number).toBe(number + 1);
    }),
  );
});

test.each([
  ['Europe/Berlin', '2026-03-29T12:00:00Z', 23],
  ['Europe/Berlin', '2026-10-25T12:00:00Z', 25],
  ['America/New_York', '2026-03-08T12:00:00Z', 23],
  ['America/New_York', '2026-11-01T12:00:00Z', 25],
  ['Australia/Lord_Howe', '2026-04-04T20:00:00Z', 24.5],
])('in %s the day of %s has %d hours', (zone, time, hours) => {
  const { startMs, endMs } = windowAt('day', zone, Date.parse(time));
  expect((endMs - startMs) / 3_600_000).toBe(hours);
});

const iso = (ms: number): string => new Date(ms).toISOString();
const period = (start: string, length: 'biweekly' | 'monthly', at: string): (number | string)[] => {
  const { number, startMs, endMs } = findPlanPeriod(Date.parse(start), length, Date.parse(at));
  return [number, iso(startMs), iso(endMs)];
};

test.each([
  ['2026-01-31T12:34:56.789Z', '2026-01-31T12:34:56.789Z', [0, '2026-01-31T12:34:56.789Z', '2026-02-28T12:34:56.789Z']],
  ['2026-01-31T12:34:56.789Z', '2026-02-28T12:34:56.788Z', [0, '2026-01-31T12:34:56.789Z', '2026-02-28T12:34:56.789Z']],
  ['2026-01-31T12:34:56.789Z', '2026-02-28T12:34:56.789Z', [1, '2026-02-28T12:34:56.789Z', '2026-03-31T12:34:56.789Z']],
  ['2028-01-30T00:00:00.000Z', '2028-02-29T00:00:00.000Z', [1, '2028-02-29T00:00:00.000Z', '2028-03-30T00:00:00.000Z']],
  [
    '2028-02-29T23:59:59.999Z',
    '2029-02-28T23:59:59.998Z',
    [11, '2029-01-29T23:59:59.999Z', '2029-02-28T23:59:59.999Z'],
  ],
  [
    '2028-02-29T23:59:59.999Z',
    '2029-02-28T23:59:59.999Z',
    [12, '2029-02-28T23:59:59.999Z', '2029-03-29T23:59:59.999Z'],
  ],
  [
    '2028-02-29T23:59:59.999Z',
    '2032-02-29T23:59:59.999Z',
    [48, '2032-02-29T23:59:59.999Z', '2032-03-29T23:59:59.999Z'],
  ],
  ['2026-12-31T23:00:00.000Z', '2027-01-31T22:59:59.999Z', [0, '2026-12-31T23:00:00.000Z', '2027-01-31T23:00:00.000Z']],
])('a monthly plan that started at %s: its period at %s is %j', (start, at, expected) => {
  expect(period(start, 'monthly', at)).toEqual(expected);
});

test('a biweekly plan has periods of 14 days, across leap days', () => {
  const start = '2028-02-20T10:00:00.000Z';
  expect(period(start, 'biweekly', start)).toEqual([0, start, '2028-03-05T10:00:00.000Z']);
  expect(period(start, 'biweekly', '2028-03-05T09:59:59.999Z')[0]).toBe(0);
  expect(period(start, 'biweekly', '2028-03-05T10:00:00.000Z')[0]).toBe(1);
});

test('every time is in exactly one period, which begins when the one before ends; a monthly period ends on the day of the month on which the plan started, or on the last day of a month that lacks it', () => {
  const time = fc.integer({ min: Date.UTC(2020, 0, 1), max: Date.UTC(2060, 0, 1) });
  fc.assert(
    fc.property(time, fc.nat(20 * 366 * 86_400_000), fc.constantFrom('biweekly', 'monthly'), (start, later, length) => {
      const found = findPlanPeriod(start, length, start + later);
      expect(found.startMs <= start + later && start + later < found.endMs).toBe(true);
      expect(findPlanPeriod(start, length, found.startMs)).toEqual(found);
      const next = findPlanPeriod(start, length, found.endMs);
      expect([next.number, next.startMs]).toEqual([found.number + 1, found.endMs]);
      if (length === 'biweekly') {
        expect(found.endMs - found.startMs).toBe(14 * dayMs);
        return;
      }
      const [wanted, end] = [new Date(start).getUTCDate(), new Date(found.endMs)];
      expect(end.getTime() % 86_400_000).toBe(start % 86_400_000);
      const isLast = new Date(found.endMs + 86_400_000).getUTCDate() === 1;
      expect(end.getUTCDate() === wanted || (end.getUTCDate() < wanted && isLast)).toBe(true);
    }),
  );
});
