import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isoTime } from './clock.ts';
import { parseIsoTime } from './iso-time.ts';

const noon = Date.UTC(2026, 10, 21, 12);

test.each([
  ['2026-11-21T12:00:00Z', noon],
  ['2026-11-21T12:00:00.000Z', noon],
  ['2026-11-21t12:00z', noon],
  ['2026-11-21T12Z', noon],
  ['2026-11-21 12:00', noon],
  ['2026-11-21T12:00:00.5Z', noon + 500],
  ['2026-11-21T12:00:00,25Z', noon + 250],
  ['2026-11-21', noon - 43_200_000],
  ['2026-11-21T14:00:00+02:00', noon],
  // A query string turns a plus into a space.
  ['2026-11-21T14:00:00 02:00', noon],
  ['2026-11-21T06:30:00-0530', noon],
  ['2028-02-29', Date.UTC(2028, 1, 29)],
  ['0001-01-01', -62_135_596_800_000],
  ['9999-12-31T23:59:59.999Z', 253_402_300_799_999],
])('%s is read', (text, ms) => {
  expect(parseIsoTime(text)).toEqual({ floorMs: ms, ceilMs: ms });
});

test('a time with a finer fraction lies between two milliseconds', () => {
  expect(parseIsoTime('2026-11-21T12:00:00.123456Z')).toEqual({ floorMs: noon + 123, ceilMs: noon + 124 });
  expect(parseIsoTime('2026-11-21T12:00:00.123000Z')).toEqual({ floorMs: noon + 123, ceilMs: noon + 123 });
  expect(parseIsoTime('2026-11-21T12:00:00.999999999Z')).toEqual({ floorMs: noon + 999, ceilMs: noon + 1_000 });
});

test.each([
  '',
  'yesterday',
  '1795262400',
  '2026',
  '2026-11',
  '2026-13-01',
  '2026-00-10',
  '2026-02-29',
  '2026-04-31',
  '2026-11-21T24:00:00Z',
  '2026-11-21T12:60:00Z',
  '2026-11-21T12:00:60Z',
  '2026-11-21T12:00:00+24:00',
  '2026-11-21T12:00:00+01:60',
  '2026-11-21T12:00:00.Z',
  '2026-11-21T12:00:00.0000000001Z',
  ' 2026-11-21',
  '2026-11-21T',
  '2026-11-21Z',
  '20261121T120000Z',
])('“%s” is not a time', text => {
  expect(parseIsoTime(text)).toBeUndefined();
});

test('every written time is read back', () => {
  fc.assert(
    fc.property(fc.integer({ min: -62_135_596_800_000, max: 253_402_300_799_999 }), ms => {
      expect(parseIsoTime(isoTime(ms))).toEqual({ floorMs: ms, ceilMs: ms });
    }),
  );
});
