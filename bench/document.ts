import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');
const path = resolve(root, 'docs/benchmarks.md');

function describeRun(): string {
  const commit = execFileSync('git', ['describe', '--always', '--dirty'], { cwd: root, encoding: 'utf8' }).trim();
  const machine = `${cpus().length} cores (${cpus()[0]?.model ?? 'unknown'})`;
  return `Commit ${commit}, ${machine}, Node.js ${process.versions.node}, ${new Date().toISOString().slice(0, 10)}, \`${['npm run bench --', ...process.argv.slice(2)].join(' ')}\`.`;
}

/**
 * Replaces the section of docs/benchmarks.md between the marks `<!-- NAME -->` and `<!-- /NAME -->`. Throws if the page has no such marks.
 */
export function writeResults(name: string, results: string): void {
  const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const text = readFileSync(path, 'utf8');
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from === -1 || to < from) throw new Error(`docs/benchmarks.md has no section ${begin} … ${end}`);
  const section = `${begin}\n\n${describeRun()}\n\n${results}\n\n`;
  writeFileSync(path, text.slice(0, from) + section + text.slice(to));
}
