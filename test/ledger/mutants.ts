/**
 * Plants each mutant of `mutants-table.ts` in a copy of the engine and runs the model test on it: `node test/ledger/mutants.ts [NUMBER]`. Prints
 * who was killed after how many traces; exits 1 where one survives. As a library: `plant` and `kill`.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import fc from 'fast-check';
import { type Mutant, mutants } from './mutants-table.ts';
import { runTrace } from './run.ts';
import { subjects } from './subjects.ts';
import { traces } from './trace.ts';

const root = resolve(import.meta.dirname, '../..');
const tracesMax = 20_000;

/** A copy of `src` with the mutant in it, outside node_modules, where Node strips no types. Throws where the mutant does not fit. */
export function plant(mutant: Mutant, index: number): { src: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), `tollgate-mutant-${index}-`));
  const src = join(folder, 'src');
  for (const part of ['lib', 'errors', 'gen', 'generation', 'ledger']) {
    cpSync(join(root, 'src', part), join(src, part), { recursive: true });
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  const path = join(src, 'ledger', mutant.file);
  const parts = readFileSync(path, 'utf8').split(mutant.from);
  if (parts.length !== 2)
    throw new Error(`${mutant.mistake}: its code stands ${parts.length - 1} times in ${mutant.file}`);
  writeFileSync(path, parts.join(mutant.to));
  return { src, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** How many traces it took to find the mutant; undefined where it lives on. */
export async function kill(
  mutant: Mutant,
  index: number,
  on: keyof typeof subjects = 'rules',
): Promise<number | undefined> {
  const planted = plant(mutant, index);
  try {
    // What is wrong in the rules shows without an engine, which is faster.
    const open = await subjects[mutant.file.startsWith('sqlite/') ? 'engine' : on](planted.src);
    const result = fc.check(
      fc.property(traces(60), trace => {
        runTrace(open, trace);
      }),
      // Found is enough: nobody reads the shortest trace.
      { numRuns: tracesMax, endOnFailure: true, seed: 1 },
    );
    return result.failed ? result.numRuns : undefined;
  } finally {
    planted.remove();
  }
}

if (import.meta.main) {
  const only = process.argv[2];
  for (const [index, mutant] of mutants.entries()) {
    if (only !== undefined && only !== String(index)) continue;
    const found = await kill(mutant, index);
    console.log(`${found === undefined ? 'SURVIVES' : `killed after ${found}`}: ${index} ${mutant.mistake}`);
    if (found === undefined) process.exitCode = 1;
  }
}
