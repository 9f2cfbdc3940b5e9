/** A start on the data of an older version first makes a backup, with which the old version can continue. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { ledgerMigrations } from '../../src/ledger/sqlite/schema.ts';
import { openForWriting } from '../../src/lib/sqlite/database.ts';
import { migrate } from '../../src/lib/sqlite/migrations.ts';
import {
  gatewayEnvironment,
  expectVerified,
  type Home,
  makeHome,
  root,
  run,
  runCommand,
  startGateway,
} from '../gateway.ts';

/** Makes a data directory as commit 0c78f51 wrote it, with three migrations: accounts, keys, plans and 16 days of requests. */
function makeOldHome(): Home {
  const home = makeHome();
  onTestFinished(() => rmSync(home.folder, { recursive: true, force: true }));
  mkdirSync(home.dataDir, { mode: 0o700 });
  const db = openForWriting(join(home.dataDir, 'ledger.sqlite'));
  db.pragma('foreign_keys = OFF');
  migrate(db, ledgerMigrations().slice(0, 3), 1, 'ledger');
  db.exec(readFileSync(join(root, 'test/ledger/fixtures/0c78f51.sql'), 'utf8'));
  db.close();
  return home;
}

/** Reads every row of every table, without the gateway's code. */
function readAll(dataDir: string): Record<string, unknown[]> {
  const db = new Database(join(dataDir, 'ledger.sqlite'), { readonly: true });
  db.defaultSafeIntegers(true);
  const names = db
    .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    .pluck()
    .all();
  const rows = names.map(name => [name, db.prepare(`SELECT * FROM "${name}"`).all()] as const);
  db.close();
  return Object.fromEntries(rows);
}

const backupsIn = (dataDir: string): string[] => {
  const folder = join(dataDir, 'backups');
  return existsSync(folder) ? readdirSync(folder) : [];
};

test('the start makes one backup with every old row; restored, it has the same rows, and the gateway starts on it', async () => {
  const home = makeOldHome();
  const before = readAll(home.dataDir);
  expect(before['migration']).toHaveLength(3);
  expect(before['usage']?.length).toBeGreaterThan(50);

  const gateway = await startGateway({ home });
  const [backup = '', ...others] = backupsIn(home.dataDir);
  expect(others).toEqual([]);
  expect(backup).toMatch(/^before-\d+\.\d+\.\d+-\d{4}-\d\d-\d\dT[\d-]+Z$/);
  expect(gateway.printed()).toContain('backed up before the upgrade');
  expect((await gateway.stop()).code).toBe(0);
  expect(readAll(home.dataDir)['migration']).toHaveLength(ledgerMigrations().length);

  const again = await startGateway({ home });
  const stopped = await again.stop();
  expect(stopped.code).toBe(0);
  // The last log line has the reason of the stop and how long it took.
  expect(JSON.parse(stopped.stderr.trim().split('\n').at(-1) ?? '{}')).toMatchObject({
    level: 'info',
    msg: 'stopped',
    signal: 'SIGTERM',
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    stopping_ms: expect.any(Number),
  });
  expect(backupsIn(home.dataDir), 'nothing is upgraded a second time').toEqual([backup]);
  await expectVerified(home);

  const restored = { ...home, dataDir: join(home.folder, 'restored') };
  const end = await runCommand(home, [
    'restore',
    join(home.dataDir, 'backups', backup),
    '--data-dir',
    restored.dataDir,
  ]);
  expect([end.code, end.stderr]).toEqual([
    0,
    expect.stringMatching(/^WARNING: keys that were revoked, disabled or replaced after .+ --old-data-dir DIR .+\n$/),
  ]);
  expect(readAll(restored.dataDir)).toEqual(before);
  const forward = await startGateway({ home: restored });
  expect((await forward.stop()).code).toBe(0);
  await expectVerified(restored);
});

test('if the backup can’t be made, nothing is upgraded', async () => {
  const home = makeOldHome();
  const before = readAll(home.dataDir);
  writeFileSync(join(home.dataDir, 'backups'), 'no folder');
  const { ended } = run([process.execPath, join(root, 'bin/tollgate.js'), 'serve'], {
    cwd: home.folder,
    env: gatewayEnvironment(home),
  });
  const { code, stderr } = await ended;
  expect([code, stderr]).toEqual([1, expect.stringContaining('could not be backed up before the upgrade')]);
  expect(readAll(home.dataDir)).toEqual(before);
});
