import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { lockHome } from './home-lock.ts';

test('a data directory has one name, and one process at a time can lock it', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-home-'));
  const dataDir = join(folder, 'data');
  const first = lockHome(dataDir);
  expect(first?.name).toMatch(/^[0-9a-f-]{36}$/);
  expect(lockHome(dataDir)).toBeUndefined();
  first?.release();
  const next = lockHome(dataDir);
  expect(next?.name).toBe(first?.name);
  next?.release();
  rmSync(folder, { recursive: true });
});

test('a data directory that can’t be created is not locked', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-home-'));
  writeFileSync(join(folder, 'file'), '');
  expect(lockHome(join(folder, 'file/data'))).toBeUndefined();
  rmSync(folder, { recursive: true });
});
