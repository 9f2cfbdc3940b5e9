import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type DocumentKind, uncounted } from '../../src/store/documents.ts';
import { toBytes, dayMs, type DocumentFixture, openDocumentFixture, toText } from './fixture.ts';

let fixture: DocumentFixture;
beforeEach(async () => {
  fixture = await openDocumentFixture();
});
afterEach(() => fixture.end());

const named = (id: string, kind: DocumentKind = 'response') => ({ kind, id });

async function listChainIds(id: string): Promise<string[] | undefined> {
  return (await fixture.documents.chain(named(id), 1, uncounted))?.map(document => document.id);
}

test('a stored document is read with all its fields, also after a restart', async () => {
  const document = fixture.make('a', { apiKeyId: 7, state: 'queued', finished: false });
  expect(await fixture.documents.put(document)).toEqual({ kind: 'stored' });
  await fixture.reopen();
  const found = await fixture.documents.find(named('a'), uncounted);
  expect(toText(found?.body)).toBe('a');
  // Its rows and index entries take some space too.
  expect({ ...found, body: document.body }).toEqual({ ...document, bytes: 513 });
});

test('a large content that is handed over is stored, and its memory belongs to the store', async () => {
  const [body, content] = [new Uint8Array(2 ** 21).fill(7), new Uint8Array(2 ** 20).fill(8)];
  const kept = new Uint8Array(2 ** 21).fill(9);
  const small = toBytes('small');
  await fixture.documents.put(fixture.make('a', { body, chunks: [{ seq: 1, content }], handsOver: true }));
  await fixture.documents.put(fixture.make('b', { body: kept }));
  await fixture.documents.put(fixture.make('c', { body: small, handsOver: true }));
  expect([body, content, kept, small].map(({ length }) => length)).toEqual([0, 0, 2 ** 21, 5]);
  const stored = await fixture.documents.find(named('a'), uncounted);
  expect(stored?.body).toEqual(new Uint8Array(2 ** 21).fill(7));
  const [chunk] = await fixture.documents.chunks(named('a'), { after: 0, limit: 1 }, uncounted);
  expect(Buffer.from(chunk?.content ?? []).equals(Buffer.alloc(2 ** 20, 8))).toBe(true);
  const change = new Uint8Array(2 ** 20).fill(3);
  await fixture.documents.update({ ...named('a'), body: change, handsOver: true });
  expect(change).toHaveLength(0);
  expect((await fixture.documents.find(named('a'), uncounted))?.body[0]).toBe(3);
  expect(toText((await fixture.documents.find(named('c'), uncounted))?.body)).toBe('small');
});

test('an id can be used once for each kind: the second put returns the stored document', async () => {
  await fixture.documents.put(fixture.make('a'));
  const second = await fixture.documents.put(fixture.make('a', { body: toBytes('other') }));
  expect(second.kind === 'exists' && toText(second.document.body)).toBe('a');
  expect(await fixture.documents.put(fixture.make('a', { kind: 'replay' }))).toEqual({ kind: 'stored' });
});

test('of concurrent puts with the same id exactly one is stored', async () => {
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, n) => fixture.documents.put(fixture.make('a', { body: toBytes(String(n)) }))),
  );
  expect(outcomes.filter(outcome => outcome.kind === 'stored')).toHaveLength(1);
});

test('another account’s document is not found', async () => {
  await fixture.documents.put(fixture.make('a'));
  expect(await fixture.documents.find(named('a'), uncounted, 2)).toBeUndefined();
  expect(await fixture.documents.chain(named('a'), 2, uncounted)).toBeUndefined();
});

test('a document ends at its `endsAtMs`, and its id can be used again', async () => {
  await fixture.documents.put(fixture.make('a', { endsAtMs: fixture.clock.now() + dayMs }));
  fixture.clock.step(dayMs - 1);
  expect((await fixture.documents.find(named('a'), uncounted))?.id).toBe('a');
  fixture.clock.step(1);
  expect(await fixture.documents.find(named('a'), uncounted)).toBeUndefined();
  expect(await fixture.documents.update({ ...named('a'), state: 'x' })).toBe('not_found');
  expect(await fixture.documents.put(fixture.make('a', { body: toBytes('new') }))).toEqual({ kind: 'stored' });
  expect(toText((await fixture.documents.find(named('a'), uncounted))?.body)).toBe('new');
});

test('contents of megabytes are read whole: bodies, chunks and chains, also several at once', async () => {
  const large = (unit: string): Uint8Array => toBytes(unit.repeat(2 ** 21));
  await fixture.documents.put(fixture.make('a', { body: large('a'), chunks: [{ seq: 1, content: large('c') }] }));
  await fixture.documents.put(fixture.make('b', { body: large('b'), parentId: 'a' }));
  await fixture.documents.put(fixture.make('c', { parentId: 'b' }));
  const [a, b, chain, chunks] = await Promise.all([
    fixture.documents.find(named('a'), uncounted),
    fixture.documents.find(named('b'), uncounted),
    fixture.documents.chain(named('c'), 1, uncounted),
    fixture.documents.chunks(named('a'), { after: 0, limit: 5 }, uncounted),
  ]);
  const bodies = [a?.body, b?.body, ...(chain ?? []).map(({ body }) => body), ...chunks.map(({ content }) => content)];
  const expected = [large('a'), large('b'), large('a'), large('b'), toBytes('c'), large('c')];
  expect(bodies.map(body => Buffer.from(body ?? []).equals(expected.shift() ?? Buffer.of()))).toEqual(
    Array.from({ length: 6 }, () => true),
  );
  expect(chain?.map(({ id }) => id)).toEqual(['a', 'b', 'c']);
});

test('a damaged content of megabytes is refused, and the others are still read', async () => {
  for (const id of ['a', 'b']) await fixture.documents.put(fixture.make(id, { body: new Uint8Array(2 ** 21) }));
  await fixture.documents.close();
  const db = new Database(join(fixture.dataDir, 'content.db'));
  db.exec(`UPDATE body SET crc = crc + 1 WHERE document = (SELECT row FROM document WHERE id = 'a')`);
  db.close();
  await fixture.reopen();
  await expect(fixture.documents.find(named('a'), uncounted)).rejects.toThrow('is damaged on the disk');
  expect((await fixture.documents.find(named('b'), uncounted))?.body.length).toBe(2 ** 21);
});

describe('an update', () => {
  test('does not change fields that it does not name', async () => {
    await fixture.documents.put(fixture.make('a', { state: 'queued', finished: false }));
    expect(await fixture.documents.update({ ...named('a'), state: 'in_progress' })).toBe('updated');
    const found = await fixture.documents.find(named('a'), uncounted);
    expect([found?.state, found?.finished, toText(found?.body)]).toEqual(['in_progress', false, 'a']);
  });

  test('with `ifState` is made only in that state', async () => {
    await fixture.documents.put(fixture.make('a', { state: 'cancelled' }));
    const change = { ...named('a'), ifState: 'in_progress', state: 'completed' };
    expect(await fixture.documents.update(change)).toBe('other_state');
    expect((await fixture.documents.find(named('a'), uncounted))?.state).toBe('cancelled');
  });

  test('is refused if another one from the same `ifState` was made before', async () => {
    await fixture.documents.put(fixture.make('a', { state: 'in_progress', finished: false }));
    const outcomes = await Promise.all([
      fixture.documents.update({ ...named('a'), ifState: 'in_progress', state: 'cancelled' }),
      fixture.documents.update({ ...named('a'), ifState: 'in_progress', state: 'completed' }),
    ]);
    expect(outcomes).toEqual(['updated', 'other_state']);
    expect((await fixture.documents.find(named('a'), uncounted))?.state).toBe('cancelled');
  });

  test('of a missing document returns `not_found`', async () => {
    expect(await fixture.documents.update({ ...named('a'), state: 'x' })).toBe('not_found');
  });
});

describe('the chunks of a document', () => {
  test('are read in pages, in order, after a given number', async () => {
    await fixture.documents.put(fixture.make('a', { chunks: [{ seq: 0, content: toBytes('zero') }] }));
    const chunks = [2, 5, 9].map(seq => ({ seq, content: toBytes(String(seq)) }));
    await fixture.documents.update({ ...named('a'), chunks });
    const numbers = async (after: number, limit: number): Promise<number[]> =>
      (await fixture.documents.chunks(named('a'), { after, limit }, uncounted)).map(chunk => chunk.seq);
    expect(await numbers(-1, 10)).toEqual([0, 2, 5, 9]);
    expect(await numbers(2, 1)).toEqual([5]);
    expect(await numbers(9, 10)).toEqual([]);
  });

  test('never have the same number twice: the whole update is refused', async () => {
    await fixture.documents.put(fixture.make('a', { chunks: [{ seq: 0, content: toBytes('zero') }] }));
    const again = { ...named('a'), state: 'x', chunks: [{ seq: 0, content: toBytes('other') }] };
    await expect(fixture.documents.update(again)).rejects.toMatchObject({ code: 'internal' });
    expect((await fixture.documents.find(named('a'), uncounted))?.state).toBe('completed');
    expect(
      (await fixture.documents.chunks(named('a'), { after: -1, limit: 10 }, uncounted)).map(chunk =>
        toText(chunk.content),
      ),
    ).toEqual(['zero']);
  });

  test('that repeat a number do not fail other commands of the same batch', async () => {
    await fixture.documents.put(fixture.make('a', { chunks: [{ seq: 0, content: toBytes('zero') }] }));
    const outcomes = await Promise.allSettled([
      fixture.documents.put(fixture.make('b')),
      fixture.documents.update({ ...named('a'), chunks: [{ seq: 0, content: toBytes('other') }] }),
      fixture.documents.put(fixture.make('c')),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    await fixture.reopen();
    expect((await fixture.documents.find(named('b'), uncounted))?.id).toBe('b');
    expect((await fixture.documents.find(named('c'), uncounted))?.id).toBe('c');
  });
});

describe('a chain', () => {
  const put = (id: string, parentId?: string) =>
    fixture.documents.put(fixture.make(id, parentId === undefined ? {} : { parentId }));

  test('is read from its beginning', async () => {
    await put('a');
    await put('b', 'a');
    await put('c', 'b');
    expect(await listChainIds('c')).toEqual(['a', 'b', 'c']);
    expect(await listChainIds('b')).toEqual(['a', 'b']);
  });

  test('needs its parent, of the same account', async () => {
    expect(await put('b', 'missing')).toEqual({ kind: 'no_parent' });
    await fixture.documents.put(fixture.make('foreign', { accountId: 2 }));
    expect(await put('b', 'foreign')).toEqual({ kind: 'no_parent' });
    expect(await fixture.documents.find(named('b'), uncounted)).toBeUndefined();
  });

  test('stays whole when one of its documents is deleted, which can no longer be found itself', async () => {
    await put('a');
    await put('b', 'a');
    await put('c', 'b');
    expect(await fixture.documents.delete(named('a'))).toBe('deleted');
    expect(await fixture.documents.delete(named('a'))).toBe('not_found');
    expect(await fixture.documents.find(named('a'), uncounted)).toBeUndefined();
    expect(await listChainIds('a')).toBeUndefined();
    expect(await listChainIds('c')).toEqual(['a', 'b', 'c']);
  });

  test('is removed with its last document, including the documents that were already deleted', async () => {
    await put('a');
    await put('b', 'a');
    await put('c', 'b');
    await put('d', 'b');
    await fixture.documents.delete(named('a'));
    await fixture.documents.delete(named('b'));
    await fixture.documents.delete(named('c'));
    expect(rows()).toEqual(['a', 'b', 'd']);
    await fixture.documents.delete(named('d'));
    expect(rows()).toEqual([]);
    expect(storedBytes()).toBe(0);
  });

  test('stays whole when its beginning has ended', async () => {
    await put('a');
    fixture.clock.step(20 * dayMs);
    await put('b', 'a');
    fixture.clock.step(20 * dayMs);
    expect(await listChainIds('a')).toBeUndefined();
    expect(await listChainIds('b')).toEqual(['a', 'b']);
    fixture.clock.step(20 * dayMs);
    await put('other');
    expect(rows()).toEqual(['other']);
  });
});

test('unfinished documents of an ended process are listed by kind, oldest first', async () => {
  const at = (offsetMs: number) => ({ finished: false, state: 'queued', createdAtMs: fixture.clock.now() + offsetMs });
  await fixture.documents.put(fixture.make('late', { kind: 'image_task', ...at(5) }));
  await fixture.documents.put(fixture.make('early', { kind: 'image_task', ...at(1) }));
  await fixture.documents.put(fixture.make('done', { kind: 'image_task' }));
  await fixture.documents.put(fixture.make('other', at(0)));
  await fixture.reopen();
  const left = await fixture.documents.unfinished('image_task');
  expect(left.map(({ id, state }) => [id, state])).toEqual([
    ['early', 'queued'],
    ['late', 'queued'],
  ]);
});

describe('if space is short', () => {
  beforeEach(async () => {
    await fixture.end();
    fixture = await openDocumentFixture(10_400);
  });
  const body = new Uint8Array(2_000);
  const put = (id: string, change = {}) => {
    fixture.clock.step(1);
    return fixture.documents.put(fixture.make(id, { body, ...change }));
  };

  test('the oldest finished documents are evicted first, never an unfinished one', async () => {
    await put('running', { finished: false });
    for (const id of ['a', 'b', 'c', 'd']) await put(id);
    expect(rows()).toEqual(['b', 'c', 'd', 'running']);
    expect(storedBytes()).toBeLessThanOrEqual(10_400);
  });

  test('a conversation is evicted only when its newest document is the oldest that is left', async () => {
    await put('a');
    await put('b', { parentId: 'a' });
    await put('c', { parentId: 'b' });
    await put('d', { parentId: 'c' });
    // Only documents of this conversation could be evicted, but the new document continues it.
    await expect(put('e', { parentId: 'd' })).rejects.toMatchObject({ code: 'overloaded' });
    expect(await put('other')).toEqual({ kind: 'stored' });
    expect(rows()).toEqual(['other']);
  });

  test('a document larger than the whole space is refused, and nothing is evicted for it', async () => {
    await put('a');
    await expect(put('b', { body: new Uint8Array(10_401) })).rejects.toMatchObject({ code: 'overloaded' });
    const grown = fixture.documents.update({ ...named('a'), chunks: [{ seq: 0, content: new Uint8Array(10_401) }] });
    await expect(grown).rejects.toMatchObject({ code: 'overloaded' });
    expect(rows()).toEqual(['a']);
    expect((await fixture.documents.find(named('a'), uncounted))?.id).toBe('a');
  });

  test('a document that grows evicts others, not itself', async () => {
    await put('a');
    await put('b');
    await put('c');
    await fixture.documents.update({ ...named('a'), chunks: [{ seq: 0, content: new Uint8Array(4_000) }] });
    expect(rows()).toEqual(['a', 'c']);
  });
});

describe('space is shared', () => {
  const body = new Uint8Array(2_000);
  const put = (id: string, change = {}) => {
    fixture.clock.step(1);
    return fixture.documents.put(fixture.make(id, { body, ...change }));
  };
  beforeEach(async () => {
    await fixture.end();
    fixture = await openDocumentFixture(10_400);
  });

  test('an account that stores much loses its own oldest documents, not those of others', async () => {
    await put('theirs');
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) await put(id, { accountId: 2 });
    expect(rows()).toEqual(['f', 'g', 'h', 'theirs']);
    // Room for the account with the least comes from the account with the most, whichever documents are older.
    await put('another', { accountId: 3 });
    expect(rows()).toEqual(['another', 'g', 'h', 'theirs']);
    // This document needs more space than can be freed.
    await expect(put('large', { accountId: 3, body: new Uint8Array(9_800) })).rejects.toMatchObject({
      code: 'overloaded',
    });
    expect(rows()).toEqual(['another', 'g', 'h', 'theirs']);
  });

  test('answers that are stored for idempotency keys stay until they end, and an account may use a quarter of their space', async () => {
    await put('kept', { kind: 'replay' });
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) await put(id, { accountId: 2 });
    expect(rows()).toContain('kept');
    await expect(put('second', { kind: 'replay' })).rejects.toMatchObject({ code: 'overloaded' });
    expect(await put('others', { kind: 'replay', accountId: 2 })).toEqual({ kind: 'stored' });
    fixture.clock.step(31 * dayMs);
    expect(await put('later', { kind: 'replay' })).toEqual({ kind: 'stored' });
  });
});

test('deleted content can’t be read from the files', async () => {
  const secret = 'a-word-that-nobody-else-says';
  await fixture.documents.put(fixture.make('a', { body: toBytes(secret.repeat(50)) }));
  expect(filesWith(secret)).not.toEqual([]);
  await fixture.documents.delete(named('a'));
  await fixture.documents.close();
  expect(filesWith(secret)).toEqual([]);
  await fixture.reopen().catch(() => undefined);
});

test('a command after `close` is refused', async () => {
  await fixture.documents.close();
  await expect(fixture.documents.put(fixture.make('a'))).rejects.toMatchObject({ code: 'overloaded' });
});

test('if a writer dies, its pending commands are refused; the next command starts another writer', async () => {
  let thread: Worker | undefined;
  const remember = (worker: Worker): void => {
    thread = worker;
  };
  process.once('worker', remember);
  await fixture.reopen();
  expect(await fixture.documents.put(fixture.make('a'))).toEqual({ kind: 'stored' });
  const lost = fixture.documents.put(fixture.make('b'));
  await Promise.all([expect(lost).rejects.toMatchObject({ code: 'overloaded' }), thread?.terminate()]);
  expect(await fixture.documents.put(fixture.make('c'))).toEqual({ kind: 'stored' });
  expect(rows()).toEqual(expect.arrayContaining(['a', 'c']));
});

test('a file that a newer version wrote is not opened', async () => {
  await fixture.documents.close();
  const db = new Database(join(fixture.dataDir, 'content.db'));
  db.exec("INSERT INTO migration VALUES (9000, 'later', '', 0)");
  db.close();
  await expect(fixture.reopen()).rejects.toMatchObject({ name: 'LedgerStartError', code: 'newer' });
});

test('1,000 documents of a chain are read within 50 ms', async () => {
  await fixture.documents.put(fixture.make('t0', { body: toBytes('x'.repeat(500)) }));
  const puts = Array.from({ length: 999 }, (_, n) =>
    fixture.documents.put(fixture.make(`t${n + 1}`, { parentId: `t${n}`, body: toBytes('x'.repeat(500)) })),
  );
  await Promise.all(puts);
  let best = Infinity;
  // The best of several runs, because other work runs on the machine.
  for (let run = 0; run < 40 && best >= 50; run++) {
    const start = performance.now();
    expect(await fixture.documents.chain(named('t999'), 1, uncounted)).toHaveLength(1000);
    best = Math.min(best, performance.now() - start);
  }
  expect(best).toBeLessThan(50);
});

/** Returns the ids of all rows, including ended documents. */
function rows(): string[] {
  return query<string>('SELECT id FROM document ORDER BY id');
}

function storedBytes(): number {
  const [said = -1] = query<number>("SELECT value FROM meta WHERE name = 'bytes'");
  const [summed = 0] = query<number>('SELECT coalesce(sum(bytes), 0) FROM document');
  expect(said).toBe(summed);
  return said;
}

function query<T>(sql: string): T[] {
  const db = new Database(join(fixture.dataDir, 'content.db'), { readonly: true });
  try {
    return db.prepare<[], T>(sql).pluck().all();
  } finally {
    db.close();
  }
}

function filesWith(word: string): string[] {
  return readdirSync(fixture.dataDir).filter(file => readFileSync(join(fixture.dataDir, file)).includes(word));
}

test('memory is reserved for large contents before they are loaded, for a chain together, and none for small ones', async () => {
  const reserved: number[] = [];
  const room = { reserve: (bytes: number) => void reserved.push(bytes) };
  const large = new Uint8Array(2 ** 21).fill(7);
  const part = new Uint8Array(700_000).fill(8);
  const { documents } = fixture;
  const one = fixture.make('a', {
    body: large,
    chunks: [
      { seq: 0, content: toBytes('small') },
      { seq: 1, content: large },
    ],
  });
  const two = fixture.make('b', { body: part });
  const three = fixture.make('c', { body: part, parentId: 'b' });
  for (const document of [one, two, three]) expect(await documents.put(document)).toEqual({ kind: 'stored' });
  expect((await documents.find(one, room))?.body).toHaveLength(2 ** 21);
  expect((await documents.chunks(one, { after: -1, limit: 9 }, room)).map(({ content }) => content.length)).toEqual([
    5,
    2 ** 21,
  ]);
  expect(await documents.find(two, room)).toBeDefined();
  expect(reserved.splice(0)).toEqual([2 ** 21, 2 ** 21]);
  expect((await documents.chain(three, 1, room))?.map(({ body }) => body.length)).toEqual([700_000, 700_000]);
  expect(reserved).toEqual([1_400_000]);
});
