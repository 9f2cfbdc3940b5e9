import { afterEach, expect, inject, test } from 'vitest';
import { runMigration } from '../../src/gateway/migrate/run-migration.ts';
import { openPostgresLedger } from '../../src/ledger/postgres/postgres-ledger.ts';
import { openSqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { PostgresPool } from '../../src/lib/postgres/pool.ts';
import { openDiskBulkFiles } from '../../src/store/disk/disk-bulk-files.ts';
import { openPostgresBulkFiles } from '../../src/store/postgres/postgres-bulk-files.ts';
import { openPostgresDocuments } from '../../src/store/postgres/postgres-documents.ts';
import { openSqliteDocuments } from '../../src/store/sqlite/documents/sqlite-documents.ts';
import { toBytes, dayMs, toText } from '../documents/fixture.ts';
import { dollar, makeAdmitCommand, makeHash, makeSettleCommand, plans, temporaryDirectory } from '../ledger/fixture.ts';
import { createDatabase } from './server.ts';
import { uncounted } from '../../src/store/documents.ts';

const clock = systemClock;
const config = { dailyLimitUnit: 'dollars', plans, content: { bytesMax: 1e9 } } as const;
const ledgerOptions = { clock, dailyLimitUnit: 'dollars', plans } as const;
const response = { kind: 'response', id: 'resp_1' } as const;

const folders: { remove(): void }[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) folder.remove();
});

/** Makes a data directory with requests, keys, limits, a stored response and files. Returns its path and the balance. */
async function makeDataDirectory(): Promise<{ readonly dataDir: string; readonly balance: bigint }> {
  const directory = temporaryDirectory();
  folders.push(directory);
  const dataDir = directory.path;
  const ledger = await openSqliteLedger({ ...ledgerOptions, dataDir });
  await ledger.bootstrap({
    accountName: 'default',
    balance: 10n * dollar,
    apiKey: { hash: makeHash('key'), masked: 'sk-tg-abcd…wxyz' },
    managementKey: { hash: makeHash('management'), masked: 'mk-tg-abcd…wxyz', scopes: ['keys:read'] },
  });
  for (let index = 0; index < 40; index += 1) {
    const id = clock.now() * 4096 + index * 64;
    await ledger.admit(makeAdmitCommand(id, { tags: { team: `t${index % 3}` }, endUser: `u${index % 4}` }));
    if (index % 5 !== 0) await ledger.settle(makeSettleCommand(id, 10 + index));
  }
  await ledger.createKey({ accountId: 1, hash: makeHash('rich'), masked: 'sk', settings: { balance: dollar } });
  await ledger.addCredit({ accountId: 1, amount: 3n * dollar, note: 'more', reference: 'invoice 7' });
  // Holds that were not settled are voided when the ledger is opened again.
  await ledger.close();
  const again = await openSqliteLedger({ ...ledgerOptions, dataDir });
  const balance = (await again.findAccount(1))?.balance ?? 0n;
  await again.close();
  const documents = await openSqliteDocuments({ dataDir, clock, bytesMax: 1e9 });
  const now = clock.now();
  const facts = { ...response, accountId: 1, state: 'ended', finished: true, createdAtMs: now, endsAtMs: now + dayMs };
  await documents.put({ ...facts, body: toBytes('body'), chunks: [{ seq: 0, content: toBytes('chunk') }] });
  await documents.put({ ...facts, id: 'resp_2', parentId: response.id, body: toBytes('second') });
  await documents.close();
  const bulk = openDiskBulkFiles({ folder: `${dataDir}/files`, bytesMax: () => 1e9 });
  const writer = await bulk.create('file-a');
  await writer.append(toBytes('lines'));
  await writer.finish();
  const journal = await bulk.openJournal('batch_1.journal');
  await journal.scan(() => undefined);
  await journal.append(toBytes('record'), true);
  await journal.close();
  return { dataDir, balance };
}

test('afterwards the database has everything of the data directory, and a second run changes nothing', async () => {
  const { dataDir, balance } = await makeDataDirectory();
  const url = await createDatabase(inject('postgresUrl'));
  const tables: string[] = [];
  const moved = await runMigration(config, { dataDir, url, progress: table => void tables.push(table) });
  expect(moved.already).toBe(false);
  expect(moved.rows).toBeGreaterThan(90);
  expect(tables).toContain('usage');
  const ledger = await openPostgresLedger({ ...ledgerOptions, url });
  expect(await ledger.verify()).toEqual([]);
  expect((await ledger.findAccount(1))?.balance).toBe(balance);
  expect(await ledger.listActivity({ accountId: 1, limit: 100, offset: 0 })).toHaveLength(32);
  // Rows of dictionaries can be found, and new rows get ids above the old ones.
  const id = clock.now() * 4096;
  await ledger.admit(makeAdmitCommand(id, { model: 'acme/new', tags: { team: 't1' } }));
  expect((await ledger.settle(makeSettleCommand(id, 5))).kind).toBe('settled');
  expect(await ledger.verify()).toEqual([]);
  await ledger.close();
  const pool = new PostgresPool({ url, connections: 2 });
  const database = { pool, boot: () => 1 };
  const documents = openPostgresDocuments(database, { bytesMax: 1e9, keptBytesMax: 1e9 });
  expect(
    (await documents.chain({ kind: 'response', id: 'resp_2' }, 1, uncounted))?.map(({ body }) => toText(body)),
  ).toEqual(['body', 'second']);
  expect(
    (await documents.chunks(response, { after: -1, limit: 10 }, uncounted)).map(({ content }) => toText(content)),
  ).toEqual(['chunk']);
  const now = clock.now();
  const facts = { accountId: 1, state: 'ended', finished: true, createdAtMs: now, endsAtMs: now + dayMs };
  expect(await documents.put({ ...facts, kind: 'response', id: 'resp_3', body: toBytes('x') })).toEqual({
    kind: 'stored',
  });
  const bulk = openPostgresBulkFiles(database, () => 1e9);
  expect(toText(await (await bulk.open('file-a'))?.read())).toBe('lines');
  const records: (string | undefined)[] = [];
  await (await bulk.openJournal('batch_1.journal')).scan(record => void records.push(toText(record)));
  expect(records).toEqual(['record']);
  bulk.close();
  await documents.close();
  await pool.close();
  expect(await runMigration(config, { dataDir, url, progress: () => undefined })).toEqual({ already: true, rows: 0 });
});

test('tags with characters that PostgreSQL can’t store are stored as the gateway stores them there, and different tags stay different', async () => {
  const directory = temporaryDirectory();
  folders.push(directory);
  const dataDir = directory.path;
  const source = await openSqliteLedger({ ...ledgerOptions, dataDir });
  await source.bootstrap({
    accountName: 'default',
    balance: 10n * dollar,
    apiKey: { hash: makeHash('key'), masked: 'sk-tg-abcd…wxyz' },
    managementKey: { hash: makeHash('management'), masked: 'mk-tg-abcd…wxyz', scopes: [] },
  });
  const settleOne = async (
    ledger: Pick<typeof source, 'admit' | 'settle'>,
    id: number,
    text: string,
  ): Promise<void> => {
    await ledger.admit(makeAdmitCommand(id, { tags: { of: text, team: 'one' }, endUser: text }));
    expect((await ledger.settle(makeSettleCommand(id, 10))).kind).toBe('settled');
  };
  const firstId = clock.now() * 4096;
  // Two of them become the same if U+0000 becomes U+FFFD, and two others if half a surrogate pair does.
  const texts = ['a\0b', 'a\u{FFFD}b', 'c\ud800d', 'c\u{FFFD}d', 'e\0f', 'plain', String.raw`\u0000`];
  for (const [index, text] of texts.entries()) await settleOne(source, firstId + index * 64, text);
  await source.createKey({
    accountId: 1,
    hash: makeHash('odd'),
    masked: 'sk',
    settings: { label: 'l\0', tags: { of: 'k\0' } },
  });
  const startMs = clock.now() - dayMs;
  const all = { accountId: 1, startMs, endMs: undefined, granularity: 'day', limit: 20 } as const;
  const counts = async (ledger: Pick<typeof source, 'analytics'>): Promise<Map<unknown, number>> => {
    const rows = await ledger.analytics({ ...all, groupBy: { tag: 'of' } });
    if (typeof rows === 'string') throw new Error(rows);
    return new Map(rows.map(row => [row.group, row.requests]));
  };
  const before = await counts(source);
  await source.close();
  const url = await createDatabase(inject('postgresUrl'));
  const interrupt = (table: string): void => {
    if (table === 'tag') throw new Error('the cable was pulled');
  };
  await expect(runMigration(config, { dataDir, url, progress: interrupt })).rejects.toThrow('the cable was pulled');
  await runMigration(config, { dataDir, url, progress: () => undefined });
  const ledger = await openPostgresLedger({ ...ledgerOptions, url });
  const moved = {
    'a\u{FFFD}b\u{FFFD}': 1,
    'a\u{FFFD}b': 1,
    'c\u{FFFD}d': 2,
    'e\u{FFFD}f': 1,
    plain: 1,
    [String.raw`\u0000`]: 1,
  };
  expect([before.size, Object.fromEntries(await counts(ledger))]).toEqual([6, moved]);
  // A request with the same tags is counted with those that were moved.
  await settleOne(ledger, clock.now() * 4096, 'e\0f');
  expect((await counts(ledger)).get('e\u{FFFD}f')).toBe(2);
  for (const [value, requests] of Object.entries({ ...moved, 'e\u{FFFD}f': 2 })) {
    const rows = await ledger.analytics({ ...all, groupBy: 'none', tag: { name: 'of', value } });
    expect([value, rows]).toMatchObject([value, [{ requests }]]);
  }
  expect(await ledger.verify()).toEqual([]);
  await ledger.close();
});

test('a run that was interrupted continues where it stopped', async () => {
  const { dataDir, balance } = await makeDataDirectory();
  const url = await createDatabase(inject('postgresUrl'));
  for (const at of ['api_key', 'usage', 'document']) {
    const progress = (table: string): void => {
      if (table === at) throw new Error('the cable was pulled');
    };
    await expect(runMigration(config, { dataDir, url, progress })).rejects.toThrow('the cable was pulled');
  }
  expect((await runMigration(config, { dataDir, url, progress: () => undefined })).already).toBe(false);
  const ledger = await openPostgresLedger({ ...ledgerOptions, url });
  expect([await ledger.verify(), (await ledger.findAccount(1))?.balance]).toEqual([[], balance]);
  await ledger.close();
});

test('nothing is moved into a database that is in use, or while a gateway runs on the data directory', async () => {
  const { dataDir } = await makeDataDirectory();
  const url = await createDatabase(inject('postgresUrl'));
  const ledger = await openPostgresLedger({ ...ledgerOptions, url });
  const progress = (): void => undefined;
  await expect(runMigration(config, { dataDir, url, progress })).rejects.toThrow('Gateways use this database');
  await ledger.createAccount({ name: 'somebody', balance: 0n });
  await ledger.close();
  await expect(runMigration(config, { dataDir, url, progress })).rejects.toThrow('already has accounts or documents');
  const empty = await createDatabase(inject('postgresUrl'));
  const running = await openSqliteLedger({ ...ledgerOptions, dataDir });
  await expect(runMigration(config, { dataDir, url: empty, progress })).rejects.toThrow('Another gateway is running');
  await running.close();
});
