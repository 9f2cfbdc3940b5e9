import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { DocumentKind } from '../../src/store/documents.ts';
import { toBytes, dayMs, type DocumentBench, openDocumentBench, toText } from './fixture.ts';

let bench: DocumentBench;
beforeEach(async () => {
  bench = await openDocumentBench();
});
afterEach(() => bench.end());

const named = (id: string, kind: DocumentKind = 'response') => ({ kind, id });

async function listChainIds(id: string): Promise<string[] | undefined> {
  return (await bench.documents.chain(named(id), 1))?.map(document => document.id);
}

test('a stored document is read with all its fields, also after a restart', async () => {
  const document = bench.make('a', { apiKeyId: 7, state: 'queued', finished: false });
  expect(await bench.documents.put(document)).toEqual({ kind: 'stored' });
  await bench.reopen();
  const found = await bench.documents.find(named('a'));
  expect(toText(found?.body)).toBe('a');
  expect({ ...found, body: document.body }).toEqual(document);
});

test('a name can be used once: the second put gets the stored document', async () => {
  await bench.documents.put(bench.make('a'));
  const second = await bench.documents.put(bench.make('a', { body: toBytes('other') }));
  expect(second.kind === 'exists' && toText(second.document.body)).toBe('a');
  expect(await bench.documents.put(bench.make('a', { kind: 'replay' }))).toEqual({ kind: 'stored' });
});

test('of concurrent puts of one name exactly one is stored', async () => {
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, n) => bench.documents.put(bench.make('a', { body: toBytes(String(n)) }))),
  );
  expect(outcomes.filter(outcome => outcome.kind === 'stored')).toHaveLength(1);
});

test('another account’s document is not found', async () => {
  await bench.documents.put(bench.make('a'));
  expect(await bench.documents.find(named('a'), 2)).toBeUndefined();
  expect(await bench.documents.chain(named('a'), 2)).toBeUndefined();
});

test('a document ends when the clock says so, and its name is free again', async () => {
  await bench.documents.put(bench.make('a', { endsAtMs: bench.clock.now() + dayMs }));
  bench.clock.step(dayMs - 1);
  expect((await bench.documents.find(named('a')))?.id).toBe('a');
  bench.clock.step(1);
  expect(await bench.documents.find(named('a'))).toBeUndefined();
  expect(await bench.documents.update({ ...named('a'), state: 'x' })).toBe('not_found');
  expect(await bench.documents.put(bench.make('a', { body: toBytes('new') }))).toEqual({ kind: 'stored' });
  expect(toText((await bench.documents.find(named('a')))?.body)).toBe('new');
});

describe('a change', () => {
  test('leaves fields that it does not name', async () => {
    await bench.documents.put(bench.make('a', { state: 'queued', finished: false }));
    expect(await bench.documents.update({ ...named('a'), state: 'in_progress' })).toBe('updated');
    const found = await bench.documents.find(named('a'));
    expect([found?.state, found?.finished, toText(found?.body)]).toEqual(['in_progress', false, 'a']);
  });

  test('is done only in the state that it names', async () => {
    await bench.documents.put(bench.make('a', { state: 'cancelled' }));
    const change = { ...named('a'), ifState: 'in_progress', state: 'completed' };
    expect(await bench.documents.update(change)).toBe('other_state');
    expect((await bench.documents.find(named('a')))?.state).toBe('cancelled');
  });

  test('of two at once from one state the first wins', async () => {
    await bench.documents.put(bench.make('a', { state: 'in_progress', finished: false }));
    const outcomes = await Promise.all([
      bench.documents.update({ ...named('a'), ifState: 'in_progress', state: 'cancelled' }),
      bench.documents.update({ ...named('a'), ifState: 'in_progress', state: 'completed' }),
    ]);
    expect(outcomes).toEqual(['updated', 'other_state']);
    expect((await bench.documents.find(named('a')))?.state).toBe('cancelled');
  });

  test('of a missing document returns `not_found`', async () => {
    expect(await bench.documents.update({ ...named('a'), state: 'x' })).toBe('not_found');
  });
});

describe('the log', () => {
  test('is read in order after a number, in pages', async () => {
    await bench.documents.put(bench.make('a', { chunks: [{ seq: 0, content: toBytes('zero') }] }));
    const chunks = [2, 5, 9].map(seq => ({ seq, content: toBytes(String(seq)) }));
    await bench.documents.update({ ...named('a'), chunks });
    const numbers = async (after: number, limit: number): Promise<number[]> =>
      (await bench.documents.chunks(named('a'), after, limit)).map(chunk => chunk.seq);
    expect(await numbers(-1, 10)).toEqual([0, 2, 5, 9]);
    expect(await numbers(2, 1)).toEqual([5]);
    expect(await numbers(9, 10)).toEqual([]);
  });

  test('never has a number twice: the change is refused whole', async () => {
    await bench.documents.put(bench.make('a', { chunks: [{ seq: 0, content: toBytes('zero') }] }));
    const again = { ...named('a'), state: 'x', chunks: [{ seq: 0, content: toBytes('other') }] };
    await expect(bench.documents.update(again)).rejects.toMatchObject({ code: 'internal' });
    expect((await bench.documents.find(named('a')))?.state).toBe('completed');
    expect((await bench.documents.chunks(named('a'), -1, 10)).map(chunk => toText(chunk.content))).toEqual(['zero']);
  });

  test('a broken command does not break those beside it', async () => {
    await bench.documents.put(bench.make('a', { chunks: [{ seq: 0, content: toBytes('zero') }] }));
    const outcomes = await Promise.allSettled([
      bench.documents.put(bench.make('b')),
      bench.documents.update({ ...named('a'), chunks: [{ seq: 0, content: toBytes('other') }] }),
      bench.documents.put(bench.make('c')),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    await bench.reopen();
    expect((await bench.documents.find(named('b')))?.id).toBe('b');
    expect((await bench.documents.find(named('c')))?.id).toBe('c');
  });
});

describe('a chain', () => {
  const put = (id: string, parentId?: string) =>
    bench.documents.put(bench.make(id, parentId === undefined ? {} : { parentId }));

  test('is read from its beginning', async () => {
    await put('a');
    await put('b', 'a');
    await put('c', 'b');
    expect(await listChainIds('c')).toEqual(['a', 'b', 'c']);
    expect(await listChainIds('b')).toEqual(['a', 'b']);
  });

  test('needs its parent, of the same account', async () => {
    expect(await put('b', 'missing')).toEqual({ kind: 'no_parent' });
    await bench.documents.put(bench.make('foreign', { accountId: 2 }));
    expect(await put('b', 'foreign')).toEqual({ kind: 'no_parent' });
    expect(await bench.documents.find(named('b'))).toBeUndefined();
  });

  test('stays whole when a document of it is deleted, which itself is no longer found', async () => {
    await put('a');
    await put('b', 'a');
    await put('c', 'b');
    expect(await bench.documents.delete(named('a'))).toBe('deleted');
    expect(await bench.documents.delete(named('a'))).toBe('not_found');
    expect(await bench.documents.find(named('a'))).toBeUndefined();
    expect(await listChainIds('a')).toBeUndefined();
    expect(await listChainIds('c')).toEqual(['a', 'b', 'c']);
  });

  test('is removed with its last document, including the documents that were already deleted', async () => {
    await put('a');
    await put('b', 'a');
    await put('c', 'b');
    await put('d', 'b');
    await bench.documents.delete(named('a'));
    await bench.documents.delete(named('b'));
    await bench.documents.delete(named('c'));
    expect(rows()).toEqual(['a', 'b', 'd']);
    await bench.documents.delete(named('d'));
    expect(rows()).toEqual([]);
    expect(storedBytes()).toBe(0);
  });

  test('stays whole when its beginning has ended', async () => {
    await put('a');
    bench.clock.step(20 * dayMs);
    await put('b', 'a');
    bench.clock.step(20 * dayMs);
    expect(await listChainIds('a')).toBeUndefined();
    expect(await listChainIds('b')).toEqual(['a', 'b']);
    bench.clock.step(20 * dayMs);
    await put('other');
    expect(rows()).toEqual(['other']);
  });
});

test('unfinished documents of a process that is gone are listed by kind, oldest first', async () => {
  const at = (offsetMs: number) => ({ finished: false, state: 'queued', createdAtMs: bench.clock.now() + offsetMs });
  await bench.documents.put(bench.make('late', { kind: 'image_task', ...at(5) }));
  await bench.documents.put(bench.make('early', { kind: 'image_task', ...at(1) }));
  await bench.documents.put(bench.make('done', { kind: 'image_task' }));
  await bench.documents.put(bench.make('other', at(0)));
  await bench.reopen();
  const left = await bench.documents.unfinished('image_task');
  expect(left.map(({ id, state }) => [id, state])).toEqual([
    ['early', 'queued'],
    ['late', 'queued'],
  ]);
});

describe('if space is short', () => {
  beforeEach(async () => {
    await bench.end();
    bench = await openDocumentBench(10_400);
  });
  const body = new Uint8Array(2_000);
  const put = (id: string, change = {}) => {
    bench.clock.step(1);
    return bench.documents.put(bench.make(id, { body, ...change }));
  };

  test('the oldest finished documents are evicted first, never an unfinished one', async () => {
    await put('running', { finished: false });
    for (const id of ['a', 'b', 'c', 'd']) await put(id);
    expect(rows()).toEqual(['b', 'c', 'd', 'running']);
    expect(storedBytes()).toBeLessThanOrEqual(10_400);
  });

  test('a conversation loses its last document only when that is the oldest', async () => {
    await put('a');
    await put('b', { parentId: 'a' });
    await put('c', { parentId: 'b' });
    await put('d', { parentId: 'c' });
    // Only the conversation itself could be evicted, and the new document continues it.
    await expect(put('e', { parentId: 'd' })).rejects.toMatchObject({ code: 'overloaded' });
    expect(await put('other')).toEqual({ kind: 'stored' });
    expect(rows()).toEqual(['other']);
  });

  test('a document larger than the whole space is refused, and nothing is evicted for it', async () => {
    await put('a');
    await expect(put('b', { body: new Uint8Array(10_401) })).rejects.toMatchObject({ code: 'overloaded' });
    const grown = bench.documents.update({ ...named('a'), chunks: [{ seq: 0, content: new Uint8Array(10_401) }] });
    await expect(grown).rejects.toMatchObject({ code: 'overloaded' });
    expect(rows()).toEqual(['a']);
    expect((await bench.documents.find(named('a')))?.id).toBe('a');
  });

  test('a document that grows evicts others, not itself', async () => {
    await put('a');
    await put('b');
    await put('c');
    await bench.documents.update({ ...named('a'), chunks: [{ seq: 0, content: new Uint8Array(4_000) }] });
    expect(rows()).toEqual(['a', 'c']);
  });
});

describe('space is shared', () => {
  const body = new Uint8Array(2_000);
  const put = (id: string, change = {}) => {
    bench.clock.step(1);
    return bench.documents.put(bench.make(id, { body, ...change }));
  };
  beforeEach(async () => {
    await bench.end();
    bench = await openDocumentBench(10_400);
  });

  test('an account that stores much loses its own oldest documents, not those of others', async () => {
    await put('theirs');
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) await put(id, { accountId: 2 });
    expect(rows()).toEqual(['f', 'g', 'h', 'theirs']);
    // The smallest account gets room from the largest, whichever is older.
    await put('another', { accountId: 3 });
    expect(rows()).toEqual(['another', 'g', 'h', 'theirs']);
    // More space than can be freed.
    await expect(put('large', { accountId: 3, body: new Uint8Array(9_800) })).rejects.toMatchObject({
      code: 'overloaded',
    });
    expect(rows()).toEqual(['another', 'g', 'h', 'theirs']);
  });

  test('answers of idempotency keys stay until they end, and an account may use a quarter of their space', async () => {
    await put('kept', { kind: 'replay' });
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) await put(id, { accountId: 2 });
    expect(rows()).toContain('kept');
    await expect(put('second', { kind: 'replay' })).rejects.toMatchObject({ code: 'overloaded' });
    expect(await put('others', { kind: 'replay', accountId: 2 })).toEqual({ kind: 'stored' });
    bench.clock.step(31 * dayMs);
    expect(await put('later', { kind: 'replay' })).toEqual({ kind: 'stored' });
  });
});

test('deleted content can’t be read from the files', async () => {
  const secret = 'a-word-that-nobody-else-says';
  await bench.documents.put(bench.make('a', { body: toBytes(secret.repeat(50)) }));
  expect(filesWith(secret)).not.toEqual([]);
  await bench.documents.delete(named('a'));
  await bench.documents.close();
  expect(filesWith(secret)).toEqual([]);
  await bench.reopen().catch(() => undefined);
});

test('a command after the end is refused', async () => {
  await bench.documents.close();
  await expect(bench.documents.put(bench.make('a'))).rejects.toMatchObject({ code: 'overloaded' });
});

test('if a writer dies, its pending commands are refused; the next command starts another writer', async () => {
  let thread: Worker | undefined;
  const remember = (worker: Worker): void => {
    thread = worker;
  };
  process.once('worker', remember);
  await bench.reopen();
  expect(await bench.documents.put(bench.make('a'))).toEqual({ kind: 'stored' });
  const lost = bench.documents.put(bench.make('b'));
  await Promise.all([expect(lost).rejects.toMatchObject({ code: 'overloaded' }), thread?.terminate()]);
  expect(await bench.documents.put(bench.make('c'))).toEqual({ kind: 'stored' });
  expect(rows()).toEqual(expect.arrayContaining(['a', 'c']));
});

test('a file of a newer program is not opened', async () => {
  await bench.documents.close();
  const db = new Database(join(bench.dataDir, 'content.db'));
  db.exec("INSERT INTO migration VALUES (9000, 'later', '', 0)");
  db.close();
  await expect(bench.reopen()).rejects.toMatchObject({ name: 'LedgerStartError', code: 'newer' });
});

test('1,000 documents of a chain are read within 50 ms, and the event loop turns in the meantime', async () => {
  await bench.documents.put(bench.make('t0', { body: toBytes('x'.repeat(500)) }));
  const puts = Array.from({ length: 999 }, (_, n) =>
    bench.documents.put(bench.make(`t${n + 1}`, { parentId: `t${n}`, body: toBytes('x'.repeat(500)) })),
  );
  await Promise.all(puts);
  let best = Infinity;
  // The best of several: the machine is shared.
  for (let run = 0; run < 40 && best >= 50; run++) {
    const start = performance.now();
    expect(await bench.documents.chain(named('t999'), 1)).toHaveLength(1000);
    best = Math.min(best, performance.now() - start);
  }
  expect(best).toBeLessThan(50);
});

/** The ids of all rows, seen or not. */
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
  const db = new Database(join(bench.dataDir, 'content.db'), { readonly: true });
  try {
    return db.prepare<[], T>(sql).pluck().all();
  } finally {
    db.close();
  }
}

function filesWith(word: string): string[] {
  return readdirSync(bench.dataDir).filter(file => readFileSync(join(bench.dataDir, file)).includes(word));
}
