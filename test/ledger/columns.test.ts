import { readdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ColumnBuilder } from '../../src/ledger/columns/build.ts';
import { ColumnStore, findColumnsFolder } from '../../src/ledger/columns/column-store.ts';
import type { AnalyticsQuery, AnalyticsRow } from '../../src/ledger/ledger.ts';
import { Activity } from '../../src/ledger/reader/activity.ts';
import { Analytics } from '../../src/ledger/reader/analytics.ts';
import { HistoryReads } from '../../src/ledger/reader/history.ts';
import { ledgerPath } from '../../src/ledger/sqlite/verify.ts';
import { type Connection, openForReading } from '../../src/lib/sqlite/database.ts';
import {
  type LedgerFixture,
  isOnPostgres,
  makeAdmitCommand,
  makeHash,
  makeSettleCommand,
  openFixture,
} from './fixture.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const firstMs = Date.parse('2028-02-28T00:00:00Z');
const endMs = firstMs + 4 * dayMs;
/** Sizes (see `BuildSizes`) that are so small that a few days have files of days, files of hours, and several files for one day. */
const sizes = { recordsOfDaysMin: 5, recordsOfHoursMin: 4, recordsOfDayMax: 40, recordsCombinedMin: 1 };
const requestsMax = 150;

let fixture: LedgerFixture;
let db: Connection;
let store: ColumnStore;
let builder: ColumnBuilder;

/** Admits a request at the time `atMs`, and settles it a second later. The values by which requests are grouped depend on `index`, in many combinations. */
async function serve(index: number, atMs: number): Promise<void> {
  const key = ['key', 'second', 'third'][index % 3];
  const tags = index % 5 === 0 ? {} : { team: `t${index % 2}` };
  const endUser = index % 4 === 0 ? {} : { endUser: `u${index % 7}` };
  fixture.clock.nowMs = atMs;
  const endpoint = index % 6 === 0 ? '/v1/messages' : '/v1/responses';
  const requested = { model: `m${(index * 11) % 4}`, endpoint, tags, ...endUser };
  await fixture.ledger.admit(makeAdmitCommand(index + 1, requested, key));
  fixture.clock.step(1000);
  const state = index % 9 === 0 ? 'upstream_failed' : 'completed';
  // Some provider costs need more than 4 bytes, some are above the price, some are unknown.
  const providerCost = [undefined, 5_000_000_000n, 70_000n][index % 3];
  const outcome = {
    state,
    provider: `p${index % 2}`,
    providerCostNanoUsd: providerCost,
    latencyMs: index * 600,
  } as const;
  await fixture.ledger.settle(makeSettleCommand(index + 1, index * 3, outcome));
}

// On PostgreSQL there are no column files.
describe.skipIf(isOnPostgres)('column files', () => {
  beforeEach(async () => {
    fixture = await openFixture({ balance: 10n ** 12n, isInline: true });
    const { ledger } = fixture;
    const outer = await ledger.createGroup({ accountId: 1, settings: { name: 'outer' } });
    if (typeof outer === 'string') throw new Error(outer);
    const inner = await ledger.createGroup({ accountId: 1, settings: { name: 'inner', parentId: outer.groupId } });
    if (typeof inner === 'string') throw new Error(inner);
    await ledger.createKey({
      accountId: 1,
      hash: makeHash('second'),
      masked: '',
      settings: { groupId: outer.groupId },
    });
    await ledger.createKey({ accountId: 1, hash: makeHash('third'), masked: '', settings: { groupId: inner.groupId } });
    // The third day has so many records that it has several files; the last hours are not over.
    const at = fc.sample(
      fc.oneof(
        fc.nat(endMs - firstMs - 1),
        fc.nat(dayMs).map(ms => 2 * dayMs + ms),
        fc.nat(96).map(hour => hour * hourMs),
      ),
      { numRuns: requestsMax, seed: 3 },
    );
    for (const [index, ms] of at.entries()) await serve(index, Math.min(firstMs + ms, endMs - 1));
    db = openForReading(ledgerPath(fixture.dataDir));
    store = new ColumnStore(findColumnsFolder(ledgerPath(fixture.dataDir)));
    builder = new ColumnBuilder(db, store, sizes);
  });
  afterEach(async () => {
    db.close();
    await fixture.end();
  });

  const span = fc.record({
    startMs: fc.nat(96 * 60).map(minute => firstMs + minute * 60_000 - hourMs),
    endMs: fc.option(
      fc.nat(96 * 60).map(minute => firstMs + minute * 60_001),
      { nil: undefined },
    ),
  });
  const filters = fc.record(
    {
      keyId: fc.integer({ min: 1, max: 4 }),
      model: fc.constantFrom('m0', 'm1', 'm3', 'unknown'),
      provider: fc.constantFrom('p0', 'p1', 'unknown'),
      endpoint: fc.constantFrom('/v1/messages', '/v1/responses', 'unknown'),
      endUser: fc.constantFrom('u0', 'u1', 'unknown'),
      groupId: fc.integer({ min: 1, max: 3 }),
      tag: fc.constantFrom('t0', 't1', 'unknown').map(value => ({ name: 'team', value })),
    },
    { requiredKeys: [] },
  );
  const groupings = fc.constantFrom<AnalyticsQuery['groupBy']>(
    'none',
    'model',
    'api_key',
    'provider',
    'endpoint',
    'end_user',
    'group',
    { tag: 'team' },
    { tag: 'unknown' },
  );

  function read(query: Partial<AnalyticsQuery>, columns?: ColumnStore): AnalyticsRow[] | string {
    const all = { accountId: 1, startMs: firstMs, endMs, granularity: 'day', groupBy: 'none', limit: 1000 } as const;
    return new Analytics(db, columns).read({ ...all, ...query });
  }

  const combined = { model: 'm1', tag: { name: 'team', value: 't1' } } as const;

  function build(nowMs = endMs): number {
    return builder.run(nowMs, true);
  }

  test('sums from column files and the rest of the ledger equal those of the records, for every span, filter and grouping', () => {
    expect(build()).toBeGreaterThan(5);
    const files = store.list(1);
    // Spans of whole days, and of parts of the third day.
    expect(new Set(files.map(({ from, to }) => from % 24 === 0 && to % 24 === 0))).toEqual(new Set([true, false]));
    const both = [new Analytics(db, store), new Analytics(db)];
    fc.assert(
      fc.property(span, filters, groupings, fc.constantFrom('hour', 'day'), (when, filter, groupBy, granularity) => {
        const query = { accountId: 1, limit: 1000, ...when, ...filter, groupBy, granularity } as const;
        const [fromColumns, fromRecords] = both.map(each => each.read(query));
        expect(fromColumns).toEqual(fromRecords);
      }),
      { numRuns: 1500 },
    );
  });

  test('records that are in column files are not read one by one', () => {
    const inFiles = { ...combined, recordsMax: 0, endMs: firstMs + 3 * dayMs };
    expect(read(inFiles, store)).toBe('too_many_records');
    build();
    const last = Math.max(...store.list(1).map(({ to }) => to)) * hourMs;
    expect(last).toBeGreaterThan(firstMs + 3 * dayMs - 6 * hourMs);
    const untilLast = { ...combined, recordsMax: 0, endMs: firstMs + 2 * dayMs };
    expect(read(untilLast, store)).toEqual(read({ ...untilLast, recordsMax: 1000 }));
  });

  test('pages with any filters are the same with column files, wherever they begin and end', () => {
    build();
    const both = [new Activity(db, store), new Activity(db)];
    fc.assert(
      fc.property(span, filters, fc.integer({ min: 1, max: 30 }), fc.nat(40), (when, filter, limit, offset) => {
        const { startMs, endMs: before } = when;
        const query = {
          accountId: 1,
          limit,
          offset,
          startMs,
          ...(before !== undefined && { endMs: before }),
          ...filter,
        };
        const [fromColumns, fromLedger] = both.map(each => each.list(query));
        expect(fromColumns).toEqual(fromLedger);
      }),
      { numRuns: 800 },
    );
  });

  test('entries and charges and the balances after them are the same with column files, wherever the span ends', async () => {
    // Two keys have separate balances, from which some requests are paid.
    for (const [keyId, from] of [
      [2, requestsMax],
      [3, requestsMax + 1],
    ] as const) {
      await fixture.ledger.updateKey({ keyId, accountId: 1, settings: { balance: 10n ** 10n } });
      for (let index = from; index < from + 60; index += 3) await serve(index, firstMs + (index % 50) * 2 * hourMs);
    }
    build();
    const both = [new HistoryReads(db, store), new HistoryReads(db)];
    const payers = new Set<unknown>();
    fc.assert(
      fc.property(span, fc.integer({ min: 1, max: 30 }), fc.nat(5), (when, limit, offset) => {
        const { startMs, endMs: before } = when;
        const query = { accountId: 1, limit, offset, startMs, ...(before !== undefined && { endMs: before }) };
        const [fromColumns = [], fromLedger] = both.map(each => each.movements(query));
        expect(fromColumns).toEqual(fromLedger);
        for (const { keyId } of fromColumns) payers.add(keyId);
      }),
      { numRuns: 400 },
    );
    expect(payers).toEqual(new Set([2, 3, null]));
  });

  test('requests of an endpoint are listed, the newest first', async () => {
    const list = (endpoint: string) => fixture.ledger.listActivity({ accountId: 1, limit: 1000, offset: 0, endpoint });
    const messages = await list('/v1/messages');
    expect(messages).toHaveLength(requestsMax / 6);
    const times = messages.map(({ createdAtMs }) => createdAtMs);
    expect(times).toEqual(times.toSorted((one, other) => other - one));
    expect(await list('/v1/responses')).toHaveLength((requestsMax / 6) * 5);
    expect(await list('/v1/unknown')).toEqual([]);
  });

  test('a second run makes no files; a file of a day replaces the files of its hours', () => {
    build(firstMs + 14 * hourMs);
    const early = store.list(1);
    expect(early.length).toBeGreaterThan(0);
    build();
    expect(build()).toBe(0);
    const files = store.list(1);
    for (const [index, { from }] of files.slice(1).entries())
      expect(from).toBeGreaterThanOrEqual(files[index]?.to ?? 0);
    expect(files.map(({ name }) => name)).not.toContain(early[0]?.name);
  });

  test('a request that ends after its file was made is in the sums at once, and in the next file', async () => {
    build();
    const before = read({ ...combined }, store);
    const index = Array.from({ length: 40 }, (_, more) => requestsMax + more).find(
      at => `m${(at * 11) % 4}` === combined.model && at % 2 === 1 && at % 5 !== 0,
    );
    await serve(index ?? 0, firstMs + 5 * hourMs);
    const after = read({ ...combined }, store);
    expect(after).not.toEqual(before);
    expect(after).toEqual(read({ ...combined }));
    const name = store.list(1)[0]?.name;
    expect(build()).toBeGreaterThan(0);
    expect(store.list(1)[0]?.name).not.toBe(name);
    expect(read({ ...combined, endMs: firstMs + dayMs, recordsMax: 0 }, store)).toEqual(
      read({ ...combined, endMs: firstMs + dayMs }),
    );
  });

  test('the records of a damaged, shortened or missing file are read from the ledger', () => {
    build();
    const expected = read({ ...combined });
    const folder = join(findColumnsFolder(ledgerPath(fixture.dataDir)), '1');
    const [first = '', second = '', third = ''] = readdirSync(folder);
    truncateSync(join(folder, first), 5);
    truncateSync(join(folder, second), statSync(join(folder, second)).size - 200);
    rmSync(join(folder, third));
    expect(read({ ...combined }, store)).toEqual(expected);
  });

  test('files of records that the ledger no longer keeps are removed', async () => {
    build();
    const beforeMs = firstMs + 2 * dayMs;
    await fixture.ledger.removeOld({ activityBeforeMs: beforeMs, auditBeforeMs: 0, eventsBeforeMs: 0 });
    expect(read({ ...combined }, store)).toEqual(read({ ...combined }));
    build();
    expect(Math.min(...store.list(1).map(({ from }) => from * hourMs))).toBeGreaterThanOrEqual(beforeMs);
    expect(read({ ...combined }, store)).toEqual(read({ ...combined }));
  });
});
