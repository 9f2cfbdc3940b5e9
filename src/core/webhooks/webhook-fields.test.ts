import { expect, test } from 'vitest';
import { readEventId, toEventId } from './webhook-fields.ts';

test('event ids up to the largest safe integer, which PostgreSQL ledgers can reach, are read as they were written', () => {
  for (const id of [1, 999_999_999_999_999, Date.UTC(2026, 10, 23) * 4096 + 63, Number.MAX_SAFE_INTEGER]) {
    expect(readEventId(toEventId(id))).toBe(id);
  }
});

test.each(['evt_', 'evt_0', 'evt_01', 'evt_9007199254740992', 'evt_99999999999999999', '12', 'evt_1x'])(
  '%s is not an event id',
  text => {
    expect(() => readEventId(text)).toThrow('event');
  },
);
