import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Creates a directory (mode 0700) and its missing parents. An existing directory is not changed. Throws the file system's error. Node's
 * recursive `mkdirSync` is not used, because it never returns if an existing directory fails with ENOENT for new entries, as those below /proc do.
 */
export function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (thrown) {
    const code = thrown instanceof Error && 'code' in thrown ? thrown.code : undefined;
    const parent = dirname(path);
    if (code === 'ENOENT' && parent !== path) {
      makeDirectory(parent);
      mkdirSync(path, { mode: 0o700 });
    } else if (code !== 'EEXIST' || !statSync(path).isDirectory()) {
      throw thrown;
    }
  }
}
