import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');

/** Returns a hash of the paths and contents of files of the checkout and of the versions of all libraries. */
export function hashSources(...paths: readonly (readonly string[])[]): string {
  const hash = createHash('sha256');
  for (const path of paths.flat().toSorted()) hash.update(path.slice(root.length)).update(readFileSync(path));
  return hash.update(readFileSync(join(root, 'package-lock.json'))).digest('hex');
}
