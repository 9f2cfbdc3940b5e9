/** Column files (docs/architecture.md) on a disk that writes fewer bytes than it is given. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { canMakeFaults, makeStorageFaults } from './storage-faults.ts';

const module = resolve(import.meta.dirname, '../../src/ledger/columns/column-file.ts');
/** Writes a file of 500 records to the path that is its argument. */
const program = `
import { amountNames, dimensionNames, writeColumns } from ${JSON.stringify(module)};
const numbers = Float64Array.from({ length: 500 }, (_, index) => index * 7);
const all = names => Object.fromEntries(names.map(name => [name, numbers]));
writeColumns(process.argv[1], { from: 0, to: 24, offsetsMs: numbers, dimensions: all(dimensionNames), groupLists: [], amounts: all(amountNames) });
`;

describe.runIf(canMakeFaults)('column files', () => {
  const faults = canMakeFaults ? makeStorageFaults() : undefined;
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-columns-'));
  afterAll(() => {
    faults?.remove();
    rmSync(folder, { recursive: true });
  });

  test('are the same if the operating system writes only half of the bytes at once', () => {
    const write = (name: string): Buffer => {
      // Only files with such names can fail.
      const path = join(folder, `${name}.db`);
      const env = { ...process.env, ...faults?.environment };
      execFileSync(process.execPath, ['--input-type=module', '--eval', program, path], { env });
      return readFileSync(path);
    };
    const expected = write('whole');
    faults?.arm({ calls: ['writes'], error: 'short', path: '.db.draft', times: 8 });
    expect(write('halved').equals(expected)).toBe(true);
    expect(faults?.countFired()).toBe(8);
  });
});
