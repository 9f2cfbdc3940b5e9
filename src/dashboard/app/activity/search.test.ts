import { expect, test } from 'vitest';
import { AnalyticsGroup } from '../../../gen/tollgate/v1/account_pb.ts';
import { nowMs } from '../data/time.ts';
import {
  groupedBy,
  filteredBy,
  readActivitySearch,
  readChosenSpan,
  readSpan,
  toActivityQuery,
  toAnalyticsQuery,
} from './search.ts';

const dayMs = 86_400_000;

test('invalid query parameters are dropped, valid ones are kept', () => {
  expect(
    readActivitySearch({
      model: 'sim/large',
      key: 7,
      period: 'never',
      from: '2026-13',
      show: 'tokens',
      by: 'toString',
    }),
  ).toEqual({ model: 'sim/large', key: 7, show: 'tokens' });
  expect(readActivitySearch({ key: -1, group: '1.5', model: '', tag: 5 })).toEqual({ tag: '5' });
});

test('the last 24 hours include the current hour and start at the beginning of an hour', () => {
  const span = readSpan({}, nowMs());
  expect(span.startMs % 3_600_000).toBe(0);
  expect(span.endMs - span.startMs).toBe(dayMs);
  expect(span.endMs).toBeGreaterThan(nowMs());
  expect(toActivityQuery({}, span).endMs).toBeUndefined();
});

test('from and to are whole days, both included; steps are hours for up to two days; the previous period is as long', () => {
  const span = readSpan({ from: '2026-11-20', to: '2026-11-22' }, nowMs());
  expect(span).toEqual({
    startMs: Date.UTC(2026, 10, 20),
    endMs: Date.UTC(2026, 10, 23),
    stepMs: dayMs,
    previousMs: Date.UTC(2026, 10, 17),
    isOpen: false,
  });
  expect(readSpan({ from: '2026-11-22', to: '2026-11-22' }, nowMs()).stepMs).toBe(3_600_000);
});

test('sums are grouped by tag only if the query names a tag', () => {
  const span = readSpan({}, nowMs());
  const read = (tag?: string) => toAnalyticsQuery({ by: 'tag', ...(tag !== undefined && { tag }) }, span);
  expect([read().groupBy, read().tag]).toEqual([AnalyticsGroup.UNSPECIFIED, '']);
  expect([read('team').groupBy, read('team').tag]).toEqual([AnalyticsGroup.TAG, 'team']);
  expect([read('team:search').groupBy, read('team:search').tag]).toEqual([AnalyticsGroup.TAG, 'team']);
});

test('a tag filters rows only if it has a value', () => {
  expect(filteredBy({ tag: 'team' })).toEqual([]);
  expect(filteredBy({ tag: 'team:search', model: 'a' })).toEqual(['model', 'tag']);
});

test('sums have the same filters as the rows, and are grouped by the chosen dimension, else by a filtered one', () => {
  const search = { model: 'a', key: 3, tag: 'team:search', by: 'provider' } as const;
  const { filter, groupBy, tag } = toAnalyticsQuery(search, readSpan(search, nowMs()));
  expect(toActivityQuery(search, readSpan(search, nowMs()))).toMatchObject({ ...filter });
  expect(filter).toMatchObject({
    model: 'a',
    apiKeyId: 3n,
    tag: 'team:search',
    provider: '',
    endpoint: '',
    endUser: '',
  });
  expect([groupBy, tag]).toEqual([AnalyticsGroup.PROVIDER, '']);
  expect([groupedBy({}), groupedBy({ key: 3 }), groupedBy({ key: 3, by: 'tag' })]).toEqual(['model', 'key', 'tag']);
});

test('the parameter `hour` restricts the rows to that hour, which is compared with the hour before', () => {
  const search = readActivitySearch({ period: '24h', hour: '2026-11-26T20' });
  const span = readSpan(search, Date.UTC(2026, 10, 26, 20, 30));
  const startMs = Date.UTC(2026, 10, 26, 20);
  expect(readChosenSpan(search, span)).toEqual({
    startMs,
    endMs: startMs + 3_600_000,
    stepMs: 3_600_000,
    previousMs: startMs - 3_600_000,
    isOpen: false,
  });
  expect(toActivityQuery(search, readChosenSpan(search, span)).endMs).toBe(BigInt(startMs + 3_600_000));
  expect(readActivitySearch({ hour: '2026-11-26T99' })).toEqual({});
  expect(readChosenSpan({}, span)).toBe(span);
});
