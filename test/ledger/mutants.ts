/**
 * Makes a copy of the engine with each mutant of `mutants-table.ts` and runs the model test on it: `node test/ledger/mutants.ts [NUMBER]`. Prints after how many traces each was found; exits with 1 if one is not found. As a library: `plant` and `kill`.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import fc from 'fast-check';
import { jointProperty } from './joint-run.ts';
import { type Mutant, mutants } from './mutants-table.ts';
import { runTrace } from './run.ts';
import { subjects } from './subjects.ts';
import { type Trace, traces } from './trace.ts';

const root = resolve(import.meta.dirname, '../..');
const tracesMax = 20_000;

/** Makes a copy of `src` with the mutant. It is outside of node_modules, because Node.js strips no types there. Throws if the mutant does not apply. */
export function plant(mutant: Mutant, index: number): { src: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), `tollgate-mutant-${index}-`));
  const src = join(folder, 'src');
  for (const part of ['lib', 'errors', 'gen', 'generation', 'ledger', 'store']) {
    cpSync(join(root, 'src', part), join(src, part), { recursive: true });
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  const path = join(src, 'ledger', mutant.file);
  const parts = readFileSync(path, 'utf8').split(mutant.from);
  if (parts.length !== 2) throw new Error(`${mutant.mistake}: its code is ${parts.length - 1} times in ${mutant.file}`);
  writeFileSync(path, parts.join(mutant.to));
  return { src, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Returns after how many traces, or by how many tests, the mutant was found; undefined if it survives. */
export async function kill(
  mutant: Mutant,
  index: number,
  on: keyof typeof subjects = 'rules',
): Promise<number | undefined> {
  const planted = plant(mutant, index);
  try {
    if (mutant.test !== undefined) return countFailures(planted.src, mutant.test);
    const property = mutant.isJoint ? await jointProperty(planted.src) : await modelProperty(mutant, planted.src, on);
    // It is enough to find the mutant, so the trace is not shortened.
    const result = await fc.check<unknown>(property as fc.IAsyncProperty<unknown>, {
      numRuns: tracesMax,
      endOnFailure: true,
      seed: 1,
    });
    return result.failed ? result.numRuns : undefined;
  } finally {
    planted.remove();
  }
}

/** Runs a test file with the mutated copy. Returns how many tests fail; undefined if none does. Throws if they could not run. */
function countFailures(src: string, file: string): number | undefined {
  const folder = resolve(src, '..');
  cpSync(import.meta.dirname, join(folder, 'test/ledger'), { recursive: true });
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const to = join(folder, 'report.json');
  const options = ['run', '--root', folder, '--reporter', 'json', '--outputFile', to, `test/ledger/${file}`];
  const { stdout, stderr } = spawnSync(process.execPath, [vitest, ...options], { cwd: folder, encoding: 'utf8' });
  if (!existsSync(to)) throw new Error(`${file} could not run: ${stdout}${stderr}`);
  const report = JSON.parse(readFileSync(to, 'utf8')) as { numFailedTests: number; numPassedTests: number };
  if (report.numPassedTests === 0) throw new Error(`${file} could not run: ${stdout}${stderr}`);
  return report.numFailedTests === 0 ? undefined : report.numFailedTests;
}

async function modelProperty({ file }: Mutant, src: string, on: keyof typeof subjects) {
  // Mistakes in the rules are found without an engine, which is faster.
  const open = await subjects[file.startsWith('sqlite/') ? 'engine' : on](src);
  return fc.asyncProperty(traces(60), async trace => {
    await runTrace(open, trace);
  });
}

/** Returns the first trace from that seed which finds a mutant whose copy is in `src`, and how many ran; undefined: none does. */
export async function findTrace(
  mutant: Mutant,
  src: string,
  seed: number,
): Promise<{ readonly trace: Trace; readonly runs: number } | undefined> {
  const property = await modelProperty(mutant, src, 'rules');
  const result = await fc.check(property, { numRuns: tracesMax, endOnFailure: true, seed });
  const [trace] = result.counterexample ?? [];
  return trace && { trace, runs: result.numRuns };
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
