/**
 * Fills a data directory with settled requests, to measure the dashboard's pages with many of them: `node bench/dashboard-rows.ts DATA_DIR ROWS`. The gateway must have
 * made the ledger and must not be running. The requests are those of account 1, spread over the last 90 days. The account's balance does not match them, so `tollgate ledger verify` fails.
 */
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { addUsageRows } from './usage-rows.ts';

const [dataDir = '', text = '1000000'] = process.argv.slice(2);
const db = new Database(join(dataDir, 'ledger.sqlite'));
db.pragma('journal_mode = WAL');
db.pragma('synchronous = OFF');
db.pragma('cache_size = -1048576');
db.pragma('temp_store = MEMORY');

const endMs = Date.now() - 60_000;
const began = Date.now();
addUsageRows(db, { rows: Number(text), startMs: endMs - 90 * 86_400_000, endMs, rareEvery: 100_000 }, step =>
  process.stdout.write(`${step} ${Math.round((Date.now() - began) / 1000)} s\n`),
);
db.exec('ANALYZE');
db.pragma('wal_checkpoint(TRUNCATE)');
db.close();
