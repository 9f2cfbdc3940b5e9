import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { afterAll, expect, test } from 'vitest';
import { openForWriting } from './database.ts';
import { Snapshot } from './snapshot.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-snapshot-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const paths = ['first', 'second'].map(name => join(folder, name));

/** Counts up in the first file, then in the second, again and again. */
const writer = `
  const { workerData } = require('node:worker_threads');
  const Database = require('better-sqlite3');
  const counts = workerData.map(path => new Database(path, { timeout: 5000 }).prepare('UPDATE count SET n = n + 1'));
  setInterval(() => { for (const count of counts) count.run(); }, 1);
`;

function readCount(path: string): number {
  const db = new Database(path, { readonly: true });
  const count = db.prepare<[], number>('SELECT n FROM count').pluck().get();
  db.close();
  return count ?? -1;
}

test('all files are copied as they were at one moment, even if they are written meanwhile, and only their owner can read the copies', async () => {
  for (const path of paths) {
    const db = openForWriting(path, 'NORMAL');
    db.exec('CREATE TABLE count (n INTEGER); INSERT INTO count VALUES (0); CREATE TABLE bulk (x)');
    db.exec(
      'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) INSERT INTO bulk SELECT randomblob(3000) FROM n',
    );
    db.close();
  }
  const worker = new Worker(writer, { eval: true, workerData: paths });
  const seen: number[] = [];
  for (let round = 0; round < 10; round += 1) {
    const snapshot = new Snapshot(paths);
    const copies = paths.map(path => `${path}.copy-${round}`);
    for (const [index, path] of paths.entries()) {
      await snapshot.copy(path, copies[index] ?? '');
      // A change between two copies must be in neither.
      await sleep(5);
    }
    snapshot.close();
    const [first = -1, second = -2] = copies.map(readCount);
    expect([0, 1]).toContain(first - second);
    expect(copies.map(path => statSync(path).mode & 0o777)).toEqual([0o600, 0o600]);
    seen.push(first);
    for (const path of copies) rmSync(path);
  }
  await worker.terminate();
  expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  expect(seen.at(-1)).toBeGreaterThan(seen[0] ?? 0);
});
