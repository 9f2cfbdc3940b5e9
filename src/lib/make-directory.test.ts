import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { makeDirectory } from './make-directory.ts';

const folder = mkdtempSync(join(tmpdir(), 'make-directory-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('missing directories are created, all for the owner alone; creating them again changes nothing', () => {
  const path = join(folder, 'a', 'b', 'c');
  makeDirectory(path);
  makeDirectory(path);
  const modes = [path, join(folder, 'a', 'b'), join(folder, 'a')].map(made => statSync(made).mode & 0o777);
  expect(modes).toEqual([0o700, 0o700, 0o700]);
});

test('a file at the end or in the middle of the path is reported', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  expect(() => makeDirectory(file)).toThrow('EEXIST');
  expect(() => makeDirectory(join(file, 'below'))).toThrow('ENOTDIR');
});

test.runIf(process.platform === 'linux')('a directory that accepts no entries throws, and does not hang', () => {
  expect(() => makeDirectory('/proc/no-such-entry/below')).toThrow('ENOENT');
});
