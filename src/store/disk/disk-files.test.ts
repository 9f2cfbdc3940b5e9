import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Files, OpenFile } from '../files.ts';
import { openDiskFiles } from './disk-files.ts';

const hourMs = 3_600_000;
let folder: string;
let nowMs: number;
let opened: Files[];

beforeEach(() => {
  folder = join(mkdtempSync(join(tmpdir(), 'tollgate-files-')), 'images');
  nowMs = 1_800_000_000_000;
  opened = [];
});
afterEach(async () => {
  for (const files of opened) await files.close();
  rmSync(join(folder, '..'), { recursive: true });
});

function open(bytesMax = 1_000_000): Files {
  const files = openDiskFiles({
    folder,
    clock: { now: () => nowMs },
    lifetimeMs: hourMs,
    bytesMax,
    onFailure: error => {
      throw error;
    },
  });
  opened.push(files);
  return files;
}

async function readContent(file: OpenFile | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  let text = '';
  for (let chunk = await file.read(); chunk.length > 0; chunk = await file.read())
    text += Buffer.from(chunk).toString();
  await file.close();
  return text;
}

test('a file is found by its name alone, with its type, its size and its expiry', async () => {
  const files = open();
  const name = await files.put(Buffer.from('content'), 'image/webp');
  expect(name).toMatch(/^[0-9a-f]{32}\.webp$/);
  const file = await files.open(name);
  expect(file).toMatchObject({ type: 'image/webp', size: 7, expiresAtMs: nowMs + hourMs });
  expect(await readContent(file)).toBe('content');
  for (const other of ['', '..', name.replace('webp', 'png'), name.slice(1), `${name}.draft`]) {
    expect(await files.open(other)).toBeUndefined();
  }
});

test('a file that has expired is not found, and its bytes are removed', async () => {
  const files = open();
  const name = await files.put(Buffer.from('a'), 'image/png');
  nowMs += hourMs - 1;
  expect(await readContent(await files.open(name))).toBe('a');
  nowMs += 1;
  expect(await files.open(name)).toBeUndefined();
  expect(readdirSync(folder)).toEqual([]);
});

test('a sweep removes expired files and nothing else', async () => {
  const files = open();
  await files.put(Buffer.from('old'), 'image/png');
  nowMs += hourMs / 2;
  const young = await files.put(Buffer.from('young'), 'image/png');
  nowMs += hourMs / 2;
  expect(await files.sweep()).toBe(1);
  expect(await readContent(await files.open(young))).toBe('young');
  expect(readdirSync(folder)).toHaveLength(1);
});

test('another process finds the remaining files, removes expired files and drafts, and leaves files that are not the gateway’s', async () => {
  const name = await open().put(Buffer.from('kept'), 'image/jpeg');
  const token = 'a'.repeat(32);
  writeFileSync(join(folder, `${token}.${nowMs - 1}.png`), 'ended');
  writeFileSync(join(folder, `${token}.${nowMs + 9_000}.png.draft`), 'half');
  writeFileSync(join(folder, 'note.txt'), 'foreign');
  const later = open();
  expect(await readContent(await later.open(name))).toBe('kept');
  expect(readdirSync(folder).filter(file => !file.endsWith('.jpeg'))).toEqual(['note.txt']);
});

test('only the owner of the process can read the files', async () => {
  await open().put(Buffer.from('x'), 'image/png');
  const [file = ''] = readdirSync(folder);
  expect([statSync(folder).mode & 0o777, statSync(join(folder, file)).mode & 0o777]).toEqual([0o700, 0o600]);
});

test('if the space is full, a file is refused as overloaded; removing files makes room again', async () => {
  const files = open(10);
  const first = await files.put(Buffer.alloc(6), 'image/png');
  await expect(files.put(Buffer.alloc(5), 'image/png')).rejects.toMatchObject({ code: 'overloaded' });
  await files.delete(first);
  await files.delete(first);
  expect(await files.put(Buffer.alloc(10), 'image/png')).toMatch(/png$/);
  // The space is still full after a restart.
  await expect(open(10).put(Buffer.alloc(1), 'image/png')).rejects.toMatchObject({ code: 'overloaded' });
});

test('names of many files with the same content differ', async () => {
  const files = open();
  const names = await Promise.all(Array.from({ length: 100 }, () => files.put(Buffer.from('x'), 'image/png')));
  expect(new Set(names).size).toBe(100);
});
