import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { ConnectionLost, isDatabaseFailure, isDuplicate, postgresCode } from '../../src/lib/postgres/errors.ts';
import { migratePostgres, SchemaError } from '../../src/lib/postgres/migrations.ts';
import { PostgresPool } from '../../src/lib/postgres/pool.ts';
import { toArray } from '../../src/lib/postgres/values.ts';
import { createDatabase } from './server.ts';

let url: string;
let connection: PostgresConnection;

beforeAll(async () => {
  url = await createDatabase(inject('postgresUrl'));
  connection = await PostgresConnection.open({ url });
  await connection.script('CREATE TABLE thing (id bigint PRIMARY KEY, name text, data bytea)');
});

afterAll(() => connection.end());

const insert = 'INSERT INTO thing SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[])';

test('results of statements that are sent together come in order, and values have the types of their columns', async () => {
  const names = ['plain', 'a "quoted" \\ one', '', null, '{NULL,x}'];
  const values = [
    toArray([1n, 2n, 3n, 4n, 9_007_199_254_740_993n]),
    toArray(names),
    toArray(names.map(() => new Uint8Array([0, 255, 34]))),
  ];
  const [begun, inserted, selected, done] = await connection.run([
    { text: 'BEGIN' },
    { text: insert, values },
    { text: 'SELECT id, name, data, id > 4 AS is_high, sum(id) OVER () FROM thing ORDER BY id' },
    { text: 'COMMIT' },
  ]);
  expect([begun?.tag, inserted?.tag, done?.tag]).toEqual(['BEGIN', 'INSERT 0 5', 'COMMIT']);
  expect(selected?.columns).toEqual(['id', 'name', 'data', 'is_high', 'sum']);
  expect(selected?.rows.map(([, name]) => name)).toEqual(names);
  const last = [9_007_199_254_740_993n, '{NULL,x}', new Uint8Array([0, 255, 34]), 1n, 9_007_199_254_741_003n];
  expect(selected?.rows[4]).toEqual(last);
});

test('a character that PostgreSQL can’t store is replaced, in a parameter and in an array', async () => {
  const texts = ['a\0b', 'a"\0', '\ud800'];
  const alone = await Promise.all(texts.map(text => connection.query('SELECT $1::text AS text', [text])));
  const [listed] = await connection.run([{ text: 'SELECT unnest($1::text[])', values: [toArray(texts)] }]);
  const stored = ['a\u{FFFD}b', 'a"\u{FFFD}', '\u{FFFD}'];
  expect(alone.map(([row]) => row?.['text'])).toEqual(stored);
  expect(listed?.rows.map(([text]) => text)).toEqual(stored);
});

test('after a statement that fails, the following statements of its group are skipped, and they work again afterwards', async () => {
  const steps = [
    { text: insert, values: [toArray([1n]), toArray(['twice']), toArray([null])] },
    { text: 'SELECT count(*) FROM thing WHERE id >= $1::bigint', values: ['0'] },
  ];
  const failure: unknown = await connection.run(steps).catch((error: unknown) => error);
  expect([postgresCode(failure), isDuplicate(failure), isDatabaseFailure(failure)]).toEqual(['23505', true, false]);
  const rows = await connection.query('SELECT count(*) FROM thing WHERE id >= $1::bigint', [0]);
  expect(rows).toEqual([{ count: 5n }]);
});

test('a transaction that throws changes nothing', async () => {
  const thrown = connection.transaction(async own => {
    await own.query('DELETE FROM thing');
    throw new Error('no');
  });
  await expect(thrown).rejects.toThrow('no');
  expect(await connection.query('SELECT count(*) FROM thing')).toEqual([{ count: 5n }]);
});

test('a failed transaction is never reported as committed, even if its error was caught', async () => {
  const begun = connection.transaction(async own => {
    await own.query('DELETE FROM thing');
    await own.query('SELECT 1 / 0').catch(() => undefined);
  });
  await expect(begun).rejects.toThrow('COMMIT was answered by ROLLBACK');
  expect(await connection.query('SELECT count(*) FROM thing')).toEqual([{ count: 5n }]);
});

test('a connection whose answer does not come in time is closed, and its pool continues with another one', async () => {
  const pool = new PostgresPool({ url, connections: 1 });
  const slow = pool.run([{ text: 'SELECT pg_sleep(5)' }], 50);
  await expect(slow).rejects.toThrow(ConnectionLost);
  expect(await pool.query('SELECT 1 AS one')).toEqual([{ one: 1n }]);
  const killed = pool.use(async own => {
    await own.query('SELECT pg_terminate_backend(pg_backend_pid())');
    return own.query('SELECT 1 AS one');
  });
  expect(isDatabaseFailure(await killed.catch((error: unknown) => error))).toBe(true);
  expect(await pool.query('SELECT 2 AS two')).toEqual([{ two: 2n }]);
  await pool.close();
});

test('a pool never exceeds its maximum of connections, and a caller that waits too long is refused', async () => {
  const pool = new PostgresPool({ url, connections: 2, waitMs: 300 });
  const sleeps = Array.from({ length: 6 }, () => pool.query('SELECT pg_backend_pid() AS pid, pg_sleep(0.02)'));
  const pids = new Set((await Promise.all(sleeps)).map(([row]) => row?.['pid']));
  expect(pids.size).toBe(2);
  const long = [1, 2].map(() => pool.query('SELECT pg_sleep(0.6)'));
  await expect(pool.query('SELECT 1')).rejects.toThrow('no connection to PostgreSQL was free');
  await Promise.all(long);
  await pool.close();
});

test('migrations run once even if gateways start at the same time, and a newer schema is refused', async () => {
  const migrations = [
    { number: 1, name: 'one', sql: 'CREATE TABLE part_one (id int); CREATE TABLE part_two (id int)' },
    { number: 2, name: 'two', sql: 'INSERT INTO part_one VALUES (1)' },
  ];
  const schema = { part: 'test', migrations };
  await Promise.all([1, 2, 3].map(() => migratePostgres({ url }, schema)));
  expect(await connection.query('SELECT count(*) FROM part_one')).toEqual([{ count: 1n }]);
  expect(await connection.query("SELECT version FROM schema_version WHERE part = 'test'")).toEqual([{ version: 2n }]);
  const older = { part: 'test', migrations: migrations.slice(0, 1) };
  await expect(migratePostgres({ url }, older)).rejects.toThrow(SchemaError);
});

test('a database that can’t be reached is a failure of the database', async () => {
  const failure: unknown = await PostgresConnection.open({ url: 'postgres://postgres@127.0.0.1:1/none' }).catch(
    (error: unknown) => error,
  );
  expect(failure).toBeInstanceOf(ConnectionLost);
});
