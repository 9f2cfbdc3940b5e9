/** Programs that the commands of the documents call, for a folder in which they run. */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../gateway.ts';

/**
 * Writes `tollgate` and `npx` of this checkout, and the shell scripts in `more` by their names, into the folder `bin` of a folder. Returns the path of
 * `bin`.
 */
export function writePrograms(folder: string, more: Readonly<Record<string, string>> = {}): string {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  const scripts = {
    tollgate: `exec ${process.execPath} ${join(root, 'bin/tollgate.js')} "$@"`,
    npx: `case "$1" in tollgate) shift; exec tollgate "$@";; *) tool=$1; shift; exec ${join(root, 'node_modules/.bin')}/$tool "$@";; esac`,
    ...more,
  };
  for (const [name, script] of Object.entries(scripts)) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  return bin;
}
