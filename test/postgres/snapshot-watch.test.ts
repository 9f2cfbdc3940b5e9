/** A gateway detects snapshots of any session that prevent the removal of dead rows. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SnapshotWatch } from '../../src/ledger/postgres/snapshot-watch.ts';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { PostgresPool } from '../../src/lib/postgres/pool.ts';
import { type PostgresServer, startPostgres } from './server.ts';

let server: PostgresServer;
let url: string;
let pool: PostgresPool;
let holder: PostgresConnection;

beforeAll(async () => {
  // Autovacuum has snapshots, too, for some milliseconds: in this database, and while its processes start.
  server = await startPostgres({ autovacuum: 'off' });
  ({ url } = server);
  pool = new PostgresPool({ url, connections: 1 });
  holder = await PostgresConnection.open({ url });
});

afterAll(async () => {
  await holder.end();
  await pool.close();
  await server.stop();
});

/** Returns a watch on the test's clock, and its reports. */
function watchSnapshots() {
  const seen = { nowMs: 1_000_000, ages: [] as number[], warnings: [] as number[] };
  const watch = new SnapshotWatch({
    now: () => seen.nowMs,
    onAge: ageMs => seen.ages.push(ageMs),
    onOld: ageMs => seen.warnings.push(ageMs),
  });
  return { seen, look: (from = pool) => watch.check(from) };
}

const open = 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class LIMIT 1';

test('an open snapshot is shown with its age until it ends; a warning comes after a minute and every ten minutes', async () => {
  const { seen, look } = watchSnapshots();
  await look();
  await holder.script(open);
  await look();
  for (const seconds of [59, 2, 300, 301]) {
    seen.nowMs += seconds * 1000;
    await look();
  }
  await holder.script('COMMIT');
  await look();
  const [before, early, ...late] = seen.ages;
  expect([before, late]).toEqual([0, [59_000, 61_000, 361_000, 662_000, 0]]);
  expect(early).toBeLessThan(59_000);
  expect(seen.warnings).toEqual([61_000, 662_000]);
});

test('the age is that of one snapshot: many short snapshots in a row do not count as an old one', async () => {
  const { seen, look } = watchSnapshots();
  for (let round = 0; round < 5; round += 1) {
    // Each snapshot begins after a change, so that it differs from the previous one.
    await pool.query('SELECT pg_current_xact_id() AS id');
    await holder.script(open);
    await look();
    await holder.script('COMMIT');
    seen.nowMs += 50_000;
  }
  expect(seen.ages.every(ageMs => ageMs < 50_000)).toBe(true);
  expect(seen.warnings).toEqual([]);
});

test('if the role may not see when other sessions began, the gateway measures the age itself', async () => {
  const role = `watcher_${process.pid}`;
  await holder.script(`CREATE ROLE ${role} LOGIN`);
  const asRole = new PostgresPool({ url: url.replace('postgres://postgres@', `postgres://${role}@`), connections: 1 });
  await holder.script(open);
  const { seen, look } = watchSnapshots();
  await look(asRole);
  seen.nowMs += 61_000;
  await look(asRole);
  await asRole.close();
  await holder.script('COMMIT');
  await holder.script(`DROP ROLE ${role}`);
  expect([seen.ages, seen.warnings]).toEqual([[0, 61_000], [61_000]]);
});
