/** Reads that take long are ended after a limited time with an error, and nothing else waits for them. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openPostgresLedger, type PostgresLedger } from '../../src/ledger/postgres/postgres-ledger.ts';
import type { AnalyticsQuery } from '../../src/ledger/ledger.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { dollar, makeHash, plans } from '../ledger/fixture.ts';
import { createLedgerDatabase } from './ledger-database.ts';

let url: string;
let holder: PostgresConnection;
let accountId: number;
let ledger: PostgresLedger;
let endedLeases: number;

beforeEach(async () => {
  url = await createLedgerDatabase();
  holder = await PostgresConnection.open({ url });
});

afterEach(async () => {
  await holder.end();
  await ledger.close();
});

async function open(readMs?: number): Promise<void> {
  endedLeases = 0;
  ledger = await openPostgresLedger({
    url,
    clock: systemClock,
    dailyLimitUnit: 'dollars',
    plans,
    lease: { leaseMs: 1500, renewMs: 200 },
    onLeaseEnded: () => {
      endedLeases += 1;
    },
    ...(readMs === undefined ? {} : { readMs }),
  });
  ({ accountId } = await ledger.createAccount({ name: 'one', balance: dollar }));
  await ledger.createKey({ accountId, hash: makeHash('key'), masked: 'sk', settings: {} });
}

/** Reads sums with several filters, which must be computed from the records. */
const ask = (): Promise<unknown> => {
  const span = { startMs: 0, endMs: undefined, granularity: 'day', limit: 1000 } as const;
  const query: AnalyticsQuery = { accountId, ...span, keyId: 1, model: 'acme/large', groupBy: 'end_user' };
  return ledger.analytics(query);
};

/** Makes every read of records wait, as if there were many records. */
const slowDown = (): Promise<void> => holder.script('BEGIN; LOCK TABLE usage IN ACCESS EXCLUSIVE MODE');

test('reads that take too long are refused with an error message, whatever they wait for, and later reads are answered', async () => {
  await open(300);
  await slowDown();
  const outcomes = await Promise.allSettled(Array.from({ length: 6 }, ask));
  const message = 'The read took longer than 0.3 s. Request a shorter time, or fewer filters.';
  expect(outcomes).toEqual(
    outcomes.map(() => ({ status: 'rejected', reason: expect.objectContaining({ code: 'overloaded', message }) })),
  );
  await holder.script('ROLLBACK');
  expect(await ask()).toEqual([]);
});

test('while many long reads run, credentials are found and the lease is renewed', async () => {
  await open();
  await slowDown();
  const running = Array.from({ length: 6 }, () => ask().catch((error: unknown) => error));
  const readLease = async (): Promise<number> => {
    const [row] = await holder.query('SELECT lease_until_ms AS until, boot FROM instance');
    expect(Number(row?.['boot'])).toBe(ledger.boot);
    return Number(row?.['until']);
  };
  const first = await readLease();
  // This is longer than three leases, so without renewals the lease would have ended.
  await expect.poll(readLease, { timeout: 20_000 }).toBeGreaterThan(first + 4500);
  expect(await ledger.findCredential(makeHash('key'))).toMatchObject({ keyId: 1 });
  expect(endedLeases).toBe(0);
  await holder.script('ROLLBACK');
  expect((await Promise.all(running)).filter(Array.isArray).length).toBeGreaterThanOrEqual(2);
});
