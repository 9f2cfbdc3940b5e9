import { appendFileSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { BulkFiles, Journal } from '../bulk-files.ts';
import { openDiskBulkFiles } from './disk-bulk-files.ts';

let folder = '';
let files: BulkFiles;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-bulk-'));
  files = openDiskBulkFiles({ folder, bytesMax: () => 1_000 });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function write(name: string, bytes: number): Promise<void> {
  const writer = await files.create(name);
  try {
    await writer.append(Buffer.alloc(bytes, 'x'));
    await writer.finish();
  } finally {
    await writer.discard();
  }
}

async function records(journal: Journal): Promise<string[]> {
  const found: string[] = [];
  await journal.scan(record => {
    found.push(Buffer.from(record).toString());
  });
  return found;
}

test('a file gets its name once it is complete, and a discarded one leaves nothing behind', async () => {
  const writer = await files.create('file-a');
  await writer.append(Buffer.from('one'));
  expect(await files.open('file-a')).toBeUndefined();
  await writer.discard();
  expect(readdirSync(folder)).toEqual([]);
  await write('file-a', 5);
  const reader = await files.open('file-a');
  expect([reader?.size, (await reader?.read())?.toString(), (await reader?.read())?.length]).toEqual([5, 'xxxxx', 0]);
  await reader?.close();
});

test('a second name stays when the first is deleted', async () => {
  await write('file-a', 5);
  expect(await files.link('file-a', 'batch_a.input')).toBe('linked');
  await files.delete('file-a');
  expect(await files.list()).toEqual(['batch_a.input']);
  expect(await files.link('file-a', 'batch_b.input')).toBe('not_found');
});

test('bytes beyond the maximum total size are refused, even after a restart, until a file is deleted', async () => {
  await write('file-a', 900);
  await expect(write('file-b', 200)).rejects.toMatchObject({ code: 'overloaded' });
  writeFileSync(join(folder, 'file-c.draft'), 'left by a crash');
  files = openDiskBulkFiles({ folder, bytesMax: () => 1_000 });
  expect(await files.list()).toEqual(['file-a']);
  await expect(write('file-b', 200)).rejects.toMatchObject({ code: 'overloaded' });
  await files.delete('file-a');
  await write('file-b', 200);
});

test('a journal returns its records; after a crash only those that were written completely', async () => {
  const journal = await files.openJournal('a.journal');
  expect(await records(journal)).toEqual([]);
  const offsets = await Promise.all(
    ['one', 'two', 'x'.repeat(300)].map(text => journal.append(Buffer.from(text), true)),
  );
  expect(Buffer.from(await journal.read(offsets[1] ?? 0)).toString()).toBe('two');
  await journal.close();
  const path = join(folder, 'a.journal');
  const { size } = statSync(path);
  for (const torn of [Buffer.from([9, 0, 0]), Buffer.from([3, 0, 0, 0, 1, 2, 3, 4, 97, 98, 99]), Buffer.alloc(64)]) {
    appendFileSync(path, torn);
    const again = await files.openJournal('a.journal');
    expect(await records(again)).toEqual(['one', 'two', 'x'.repeat(300)]);
    expect(statSync(path).size).toBe(size);
    const offset = await again.append(Buffer.from('more'), true);
    expect([offset, Buffer.from(await again.read(offset)).toString()]).toEqual([size, 'more']);
    await again.close();
    const last = await files.openJournal('a.journal');
    expect(await records(last)).toEqual(['one', 'two', 'x'.repeat(300), 'more']);
    await last.close();
    writeFileSync(path, Buffer.alloc(0));
    const fresh = await files.openJournal('a.journal');
    await fresh.scan(() => undefined);
    for (const text of ['one', 'two', 'x'.repeat(300)]) await fresh.append(Buffer.from(text), true);
    await fresh.close();
  }
});
