import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { PostgresPool } from '../../src/lib/postgres/pool.ts';
import type { Claims } from '../../src/store/claims.ts';
import { type Documents, type NewDocument, uncounted } from '../../src/store/documents.ts';
import { migrateStores, type StoreDatabase } from '../../src/store/postgres/database.ts';
import { EvictedSpace } from '../../src/store/postgres/evicted-space.ts';
import { openPostgresBulkFiles } from '../../src/store/postgres/postgres-bulk-files.ts';
import { openPostgresClaims } from '../../src/store/postgres/postgres-claims.ts';
import { openPostgresDocuments } from '../../src/store/postgres/postgres-documents.ts';
import { openPostgresFiles } from '../../src/store/postgres/postgres-files.ts';
import { shareSecrets } from '../../src/store/postgres/shared-secrets.ts';
import { toBytes, dayMs, toText } from '../documents/fixture.ts';
import { DroppingProxy } from './dropping-proxy.ts';
import { createDatabase } from './server.ts';

const max = { bytesMax: 100_000_000, keptBytesMax: 100_000_000 };
const images = { lifetimeMs: dayMs, bytesMax: 100_000_000 };

interface Member {
  readonly database: StoreDatabase;
  readonly documents: Documents;
  readonly claims: Claims;
}

let url: string;
let pool: PostgresPool;
let one: Member;
let other: Member;

beforeAll(async () => {
  url = await createDatabase(inject('postgresUrl'));
  pool = new PostgresPool({ url, connections: 4 });
  // This table is as in the ledger's schema.
  await pool.query(
    'CREATE TABLE IF NOT EXISTS instance (boot bigint PRIMARY KEY, number smallint, lease_until_ms bigint NOT NULL)',
  );
  // Two gateways start for the first time at once.
  await Promise.all([migrateStores(url), migrateStores(url)]);
  one = join(1);
  other = join(2);
  await Promise.all([setLease(1, 'live'), setLease(2, 'live')]);
});

afterAll(async () => {
  await Promise.all([one.documents.close(), other.documents.close()]);
  await pool.close();
});

function join(boot: number): Member {
  const database = { pool, boot: () => boot };
  return { database, documents: openPostgresDocuments(database, max), claims: openPostgresClaims(database) };
}

async function setLease(boot: number, state: 'live' | 'ended'): Promise<void> {
  const until = state === 'live' ? Date.now() + dayMs : 0;
  await pool.query(
    'INSERT INTO instance VALUES ($1::bigint, $1::bigint, $2::bigint) ON CONFLICT (boot) DO UPDATE SET lease_until_ms = excluded.lease_until_ms',
    [boot, until],
  );
}

let made = 0;
function make(change: Partial<NewDocument> = {}): NewDocument {
  made += 1;
  return {
    kind: 'response',
    id: `document ${made}`,
    accountId: 1,
    state: 'completed',
    finished: true,
    createdAtMs: Date.now(),
    endsAtMs: Date.now() + 30 * dayMs,
    body: toBytes(`body ${made}`),
    ...change,
  };
}

test('one gateway reads the documents that another stores, with all their fields; other accounts can’t', async () => {
  const document = make({ apiKeyId: 7, chunks: [{ seq: 0, content: toBytes('a "piece"\\') }] });
  expect(await one.documents.put(document)).toEqual({ kind: 'stored' });
  const { chunks, ...facts } = document;
  expect(await other.documents.find(document, uncounted, 1)).toEqual({ ...facts, bytes: facts.body.length + 10 });
  expect(await other.documents.find(document, uncounted, 2)).toBeUndefined();
  expect(await other.documents.chunks(document, { after: -1, limit: 10 }, uncounted)).toEqual(chunks);
});

test('if 20 documents with the same id are put at two gateways, exactly one is stored, and the others get the stored one', async () => {
  const { id } = make();
  const puts = Array.from({ length: 20 }, (_, index) =>
    (index % 2 === 0 ? one : other).documents.put(make({ id, body: toBytes(String(index)) })),
  );
  const outcomes = await Promise.all(puts);
  expect(outcomes.filter(({ kind }) => kind === 'stored')).toHaveLength(1);
  const winner = toText((await one.documents.find({ kind: 'response', id }, uncounted))?.body);
  const winners = outcomes.flatMap(outcome => (outcome.kind === 'exists' ? [toText(outcome.document.body)] : []));
  expect(new Set(winners)).toEqual(new Set([winner]));
});

test('a document that has ended is not found, and its id can be used again', async () => {
  const document = make({ endsAtMs: Date.now() - 1 });
  await one.documents.put(document);
  expect(await one.documents.find(document, uncounted)).toBeUndefined();
  expect(await other.documents.update({ ...document, state: 'again' })).toBe('not_found');
  expect(await other.documents.put({ ...document, endsAtMs: Date.now() + dayMs })).toEqual({ kind: 'stored' });
});

test('of two concurrent updates from the same state only the first is made, and chunks never have the same number twice', async () => {
  const document = make({ finished: false, state: 'running' });
  await one.documents.put(document);
  const { kind, id } = document;
  const change = (state: string) => one.documents.update({ kind, id, ifState: 'running', state });
  expect((await Promise.all([change('a'), change('b')])).toSorted()).toEqual(['other_state', 'updated']);
  const chunk = { seq: 0, content: toBytes('x') };
  expect(await one.documents.update({ kind, id, chunks: [chunk] })).toBe('updated');
  await expect(one.documents.update({ kind, id, state: 'c', chunks: [chunk] })).rejects.toThrow('duplicate');
  expect((await one.documents.find(document, uncounted))?.state).not.toBe('c');
});

test('the unfinished documents of an instance that has ended are taken over by exactly one other; those of a running one by none', async () => {
  const kind = 'image_task';
  const third = join(3);
  await setLease(3, 'live');
  const task = make({ kind, finished: false, state: 'queued' });
  await third.documents.put(task);
  expect(await other.documents.unfinished(kind)).toEqual([]);
  expect((await third.documents.unfinished(kind)).map(({ id }) => id)).toEqual([task.id]);
  await setLease(3, 'ended');
  const taken = await Promise.all([one.documents.unfinished(kind), other.documents.unfinished(kind)]);
  const again = await Promise.all([one.documents.unfinished(kind), other.documents.unfinished(kind)]);
  expect(again.flat().map(({ id }) => id)).toEqual([task.id]);
  expect(taken.flat().map(({ id }) => id)).toContain(task.id);
  // A gateway that resumes after the end of its lease can't change anything.
  expect(await third.documents.update({ kind, id: task.id, state: 'completed', finished: true })).toBe('other_state');
  await third.documents.close();
});

test('a deleted document that others continue from stays stored but can’t be found, until the last of them is removed', async () => {
  const [first, second] = [make(), make()];
  await one.documents.put(first);
  await other.documents.put({ ...second, parentId: first.id });
  expect(await one.documents.put(make({ parentId: 'nothing' }))).toEqual({ kind: 'no_parent' });
  expect(await one.documents.delete(first)).toBe('deleted');
  expect(await one.documents.find(first, uncounted)).toBeUndefined();
  expect((await other.documents.chain(second, 1, uncounted))?.map(({ id }) => id)).toEqual([first.id, second.id]);
  expect(await other.documents.delete(second)).toBe('deleted');
  const left = await pool.query('SELECT id FROM document WHERE id = ANY ($1::text[])', [
    `{"${first.id}","${second.id}"}`,
  ]);
  expect(left).toEqual([]);
});

test('pages continue after a given document, in both orders', async () => {
  const [accountId, kind] = [9, 'batch'] as const;
  const ids = [];
  for (let index = 0; index < 5; index += 1) {
    const document = make({ kind, accountId, createdAtMs: 1_000 + Math.floor(index / 2) });
    await one.documents.put(document);
    ids.push(document.id);
  }
  const list = async (order: 'oldest_first' | 'newest_first', after?: string) =>
    (await other.documents.list({ kind, accountId, order, after, limit: 3 }))?.map(({ id }) => id);
  expect(await list('oldest_first')).toEqual(ids.slice(0, 3));
  expect(await list('oldest_first', ids[2])).toEqual(ids.slice(3));
  expect(await list('newest_first', ids[3])).toEqual(ids.slice(0, 3).toReversed());
  expect(await list('newest_first', 'nothing')).toBeUndefined();
});

test('if space is short, the oldest finished documents of the account with the most are removed', async () => {
  await pool.query('DELETE FROM document WHERE kind = $1::text', ['response']);
  const body = new Uint8Array(1_000);
  const documents = [0, 1, 2, 3].map(index => make({ accountId: 5, body, createdAtMs: index }));
  for (const document of documents) await one.documents.put(document);
  const running = make({ accountId: 5, body, finished: false, createdAtMs: 0 });
  await one.documents.put(running);
  const sums = await pool.query('SELECT sum(bytes)::bigint AS bytes FROM document');
  const space = new EvictedSpace(one.database, { ...max, bytesMax: Number(sums[0]?.['bytes']) - 1_500 });
  await space.check();
  space.close();
  const there = await Promise.all([...documents, running].map(document => one.documents.find(document, uncounted)));
  expect(there.map(found => found !== undefined)).toEqual([false, false, true, true, true]);
});

test('one check removes as many documents as necessary, even thousands of small ones of several accounts', async () => {
  await pool.query('DELETE FROM document WHERE kind = $1::text', ['response']);
  const body = new Uint8Array(1_000);
  const documents = Array.from({ length: 1_400 }, (_, index) =>
    make({ accountId: index < 1_000 ? 6 : 7, body, createdAtMs: index }),
  );
  await Promise.all(documents.map(document => one.documents.put(document)));
  const readBytes = async (): Promise<number> =>
    Number((await pool.query('SELECT sum(bytes)::bigint AS bytes FROM document'))[0]?.['bytes']);
  const bytesMax = (await readBytes()) - 1_200_000;
  const space = new EvictedSpace(one.database, { ...max, bytesMax });
  await space.check();
  space.close();
  expect(await readBytes()).toBeLessThanOrEqual(bytesMax);
  const left = await pool.query(
    'SELECT count(*) AS count, count(*) FILTER (WHERE account_id = 6) AS six FROM document WHERE account_id IN (6, 7)',
  );
  expect(left[0]?.['count']).toBeGreaterThan(100n);
  expect(left[0]?.['six']).toBeGreaterThan(0n);
});

test('a claim belongs to one gateway until it is released or the gateway’s lease ends', async () => {
  const endedGateway = join(4);
  await setLease(4, 'live');
  const name = 'key of the test';
  expect(await endedGateway.claims.take(name, 'first')).toBeUndefined();
  expect(await one.claims.take(name, 'second')).toBe('first');
  expect(await other.claims.find(name)).toBe('first');
  one.claims.release(name);
  expect(await one.claims.take(name, 'second')).toBe('first');
  await setLease(4, 'ended');
  expect(await other.claims.find(name)).toBeUndefined();
  const taken = await Promise.all([one, other].map(each => each.claims.take(name, 'third')));
  expect(taken.filter(mark => mark === undefined)).toHaveLength(1);
  await endedGateway.documents.close();
});

test('an image is refused while the images of all gateways leave no room for it', async () => {
  const [{ bytes } = { bytes: 0n }] = await pool.query(
    'SELECT coalesce(sum(octet_length(content)), 0)::bigint AS bytes FROM picture',
  );
  const small = { lifetimeMs: dayMs, bytesMax: Number(bytes) + 5 };
  const files = openPostgresFiles(one.database, small);
  const others = openPostgresFiles(other.database, small);
  const name = await files.put(new Uint8Array([1, 2, 3]), 'image/png');
  await expect(others.put(new Uint8Array([4, 5, 6]), 'image/png')).rejects.toMatchObject({ code: 'overloaded' });
  await others.put(new Uint8Array([7, 8]), 'image/png');
  await files.delete(name);
  await others.put(new Uint8Array([4, 5, 6]), 'image/png');
});

test('files that are still being written take room, also at other gateways, until they are discarded', async () => {
  const [{ bytes } = { bytes: 0n }] = await pool.query('SELECT coalesce(sum(size), 0)::bigint AS bytes FROM bulk_file');
  const max = (): number => Number(bytes) + 2_500_000;
  const first = await openPostgresBulkFiles(one.database, max).create('first');
  const second = await openPostgresBulkFiles(other.database, max).create('second');
  const piece = new Uint8Array(600_000);
  for (let pieces = 0; pieces < 3; pieces += 1) await first.append(piece);
  await second.append(new Uint8Array(100_000));
  await expect(second.append(piece)).rejects.toThrow('no room for more files');
  await first.discard();
  await second.append(piece);
  await second.discard();
});

test('every gateway can read images, large files and journals', async () => {
  const files = openPostgresFiles(one.database, images);
  const name = await files.put(new Uint8Array([1, 2, 3]), 'image/png');
  const stored = await openPostgresFiles(other.database, images).open(name);
  expect([stored?.size, await stored?.read(), await stored?.read()]).toEqual([
    3,
    new Uint8Array([1, 2, 3]),
    new Uint8Array(),
  ]);
  const bulk = openPostgresBulkFiles(one.database, () => 10_000_000);
  const others = openPostgresBulkFiles(other.database, () => 10_000_000);
  const writer = await bulk.create('file-1');
  const large = new Uint8Array(2_500_000).fill(7);
  await writer.append(large);
  expect(await others.open('file-1')).toBeUndefined();
  await writer.finish();
  expect(await others.link('file-1', 'second')).toBe('linked');
  await bulk.delete('file-1');
  const reader = await others.open('second');
  let bytes = 0;
  for (let piece = await reader?.read(); piece !== undefined && piece.length > 0; piece = await reader?.read())
    bytes += piece.length;
  expect([reader?.size, bytes]).toEqual([2_500_000, 2_500_000]);
  await expect(
    openPostgresBulkFiles(one.database, () => 10)
      .create('b')
      .then(each => each.append(large)),
  ).rejects.toThrow('no room');
  const journal = await bulk.openJournal('journal-1');
  await journal.scan(() => undefined);
  const places = await Promise.all(['a', 'b', 'c'].map(text => journal.append(toBytes(text), true)));
  const again = await others.openJournal('journal-1');
  const records: string[] = [];
  await again.scan(record => void records.push(toText(record) ?? ''));
  expect([records, toText(await again.read(places[1] ?? 0))]).toEqual([['a', 'b', 'c'], 'b']);
  // Two processes that both believe to own the journal can't write the same position twice.
  await again.append(toBytes('d'), true);
  await expect(journal.append(toBytes('e'), true)).rejects.toThrow('duplicate');
  bulk.close();
  others.close();
  await files.close();
});

test('all gateways use the secret of the first one', async () => {
  expect(await shareSecrets(one.database, ['mine'])).toEqual(['mine']);
  expect(await shareSecrets(other.database, ['yours'])).toEqual(['mine']);
});

test('the commands of docs/growth.md replace the secret in two rounds, and find who holds snapshots', async () => {
  const page = readFileSync(resolve(import.meta.dirname, '../../docs/growth.md'), 'utf8');
  const [first = '', second = ''] = Array.from(
    page.matchAll(/^\d\. `((?:INSERT INTO|UPDATE) secret [^`]+)`/gm),
    ([, command = '']) => command,
  );
  await pool.query(first);
  expect(await shareSecrets(one.database, [])).toEqual(['mine', 'NEW']);
  await pool.query(second);
  expect(await shareSecrets(one.database, [])).toEqual(['NEW', 'mine']);
  const queries = Array.from(page.matchAll(/^ {4}(SELECT .*);$/gm), ([, command = '']) => command);
  expect(queries.length).toBe(2);
  for (const command of queries) await pool.query(command);
});

test('a draft can be discarded while the database is unreachable, and is removed once its instance has ended', async () => {
  const proxy = await DroppingProxy.open(url);
  const far = new PostgresPool({ url: proxy.url, connections: 1 });
  await setLease(4, 'live');
  const bulk = openPostgresBulkFiles({ pool: far, boot: () => 4 }, () => 10_000_000);
  const writer = await bulk.create('draft-1');
  await writer.append(toBytes('a line'));
  await proxy.close();
  await writer.discard();
  const drafts = async () => (await pool.query('SELECT file FROM bulk_file WHERE boot = 4')).length;
  expect(await drafts()).toBe(1);
  bulk.close();
  await far.close();
  await setLease(4, 'ended');
  const others = openPostgresBulkFiles(one.database, () => 10_000_000);
  // Every removal also removes drafts of gateways that have ended.
  await others.delete('none');
  others.close();
  expect(await drafts()).toBe(0);
});

test('an upload whose draft was removed with the lease of its gateway is refused as overloaded', async () => {
  await setLease(5, 'live');
  const bulk = openPostgresBulkFiles({ pool, boot: () => 5 }, () => 10_000_000);
  const writer = await bulk.create('draft-2');
  await setLease(5, 'ended');
  await bulk.delete('none');
  await expect(writer.append(toBytes('a line'))).rejects.toMatchObject({ code: 'overloaded' });
  await writer.discard();
  bulk.close();
});

test('memory is reserved for large contents before they are loaded, for a chain together, and none for small ones', async () => {
  const reserved: number[] = [];
  const room = { reserve: (bytes: number) => void reserved.push(bytes) };
  const large = new Uint8Array(2 ** 21).fill(7);
  const part = new Uint8Array(700_000).fill(8);
  const { documents } = one;
  const first = make({
    body: large,
    chunks: [
      { seq: 0, content: toBytes('small') },
      { seq: 1, content: large },
    ],
  });
  const second = make({ body: part });
  const third = make({ body: part, parentId: second.id });
  for (const document of [first, second, third]) expect(await documents.put(document)).toEqual({ kind: 'stored' });
  expect((await documents.find(first, room))?.body).toHaveLength(2 ** 21);
  expect((await documents.chunks(first, { after: -1, limit: 9 }, room)).map(({ content }) => content.length)).toEqual([
    5,
    2 ** 21,
  ]);
  expect(await documents.find(second, room)).toBeDefined();
  expect(reserved.splice(0)).toEqual([2 ** 21, 2 ** 21]);
  expect((await documents.chain(third, 1, room))?.map(({ body }) => body.length)).toEqual([700_000, 700_000]);
  expect(reserved).toEqual([1_400_000]);
});
