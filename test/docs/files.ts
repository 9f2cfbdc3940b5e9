/** The files of this repository, for tests of what they say. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** The repository's folder. */
export const root = resolve(import.meta.dirname, '../..');

/** Returns the text of a file by its path in the repository. */
export function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** The paths of all files, also of new ones that are not committed yet. */
export const files: readonly string[] = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard'],
  { cwd: root, encoding: 'utf8' },
)
  .trim()
  .split('\n')
  .filter(path => existsSync(join(root, path)));

/** The paths of all pages: AGENTS.md, README.md and `docs`. */
export const pages: readonly string[] = files.filter(path => path.endsWith('.md'));
