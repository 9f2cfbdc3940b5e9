import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readOrCreateSecretFile, readSecretFile } from './secret-file.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-secret-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const readMode = (path: string): number => statSync(path).mode & 0o777;

test('a secret is made once and kept, and only its owner can read it', () => {
  const path = join(folder, 'data', 'a.token');
  expect(readOrCreateSecretFile(path, () => 'first')).toBe('first');
  expect(readOrCreateSecretFile(path, () => 'second')).toBe('first');
  expect(readSecretFile(path)).toBe('first');
  expect(readMode(path)).toBe(0o600);
  expect(readdirSync(join(folder, 'data'))).toEqual(['a.token']);
});

test('a secret file that others can read is made private again', () => {
  const path = join(folder, 'a.token');
  writeFileSync(path, 'text\n');
  chmodSync(path, 0o644);
  expect(readOrCreateSecretFile(path, () => 'other')).toBe('text');
  expect(readMode(path)).toBe(0o600);
});

test('if two processes make the file at once, both get the same text', () => {
  const path = join(folder, 'a.token');
  const late = readOrCreateSecretFile(path, () => {
    writeFileSync(path, 'winner\n');
    return 'loser';
  });
  expect(late).toBe('winner');
  expect(readFileSync(path, 'utf8')).toBe('winner\n');
});

test('an empty file is an error, never an empty secret', () => {
  const path = join(folder, 'a.token');
  writeFileSync(path, '\n');
  expect(() => readOrCreateSecretFile(path, () => 'text')).toThrow('is empty');
});

test('a file that does not exist gives undefined', () => {
  expect(readSecretFile(join(folder, 'none'))).toBeUndefined();
});
