/**
 * The fast part of the tests (`npm run check`): format, lint, types, the protobuf contract, generated code, imports between folders. Every step
 * runs even if an earlier one fails, so that one run shows all failures.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');
const bin = join(root, 'node_modules/.bin');

type Step = { readonly name: string; readonly command: readonly [string, ...string[]] };

/** The folder test/clients, whose types can be checked only if `npm test` has installed the clients. */
const clients = join(root, 'test/clients');
/** The folder test/browser, whose types can be checked only if `npm test` has installed the browser. */
const browser = join(root, 'test/browser');

/** Returns the steps, without the tidy test, which `npm test` runs with the other tests. */
function steps(): readonly Step[] {
  const clientsInstalled = existsSync(join(clients, 'node_modules'));
  const clientTests = clientsInstalled && readdirSync(clients).some(name => name.endsWith('.ts'));
  const clientsIgnored = clientsInstalled ? [] : ['--ignore-pattern', 'test/clients/**'];
  const browserInstalled = existsSync(join(browser, 'node_modules'));
  const browserTypes: Step = { name: 'types of browser tests', command: [join(bin, 'tsc'), '--project', browser] };
  const browserIgnored = browserInstalled ? [] : ['--ignore-pattern', 'test/browser/**'];
  const clientTypes: Step = { name: 'types of client tests', command: [join(bin, 'tsc'), '--project', clients] };
  return [
    { name: 'format', command: [join(bin, 'oxfmt'), '--check', '.'] },
    { name: 'lint', command: [join(bin, 'oxlint'), ...clientsIgnored, ...browserIgnored] },
    { name: 'types', command: [join(bin, 'tsc'), '--project', root] },
    // Packages run on older versions of Node.js, whose libraries have less.
    { name: 'types of packages', command: [join(bin, 'tsc'), '--project', join(root, 'tsconfig.build.json')] },
    { name: 'types of the dashboard', command: [join(bin, 'tsc'), '--project', join(root, 'src/dashboard')] },
    ...(clientTests ? [clientTypes] : []),
    ...(browserInstalled ? [browserTypes] : []),
    { name: 'contract', command: [join(bin, 'buf'), 'lint'] },
    { name: 'generated code', command: [process.execPath, join(root, 'scripts/generate.ts'), '--check'] },
  ];
}

const tidy: Step = { name: 'tidy', command: [join(bin, 'vitest'), 'run', '--reporter=minimal', 'test/tidy.test.ts'] };

/** Runs a step and passes its output on. Returns whether it succeeded. */
function run({ name, command: [program, ...options] }: Step): boolean {
  const began = performance.now();
  const { status, error } = spawnSync(program, options, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
  const passed = error === undefined && status === 0;
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(
    `${passed ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)${error === undefined ? '' : `: ${error.message}`}`,
  );
  return passed;
}

/** Runs every step. Returns how many succeeded and how many failed. */
export function runChecks(more: readonly Step[] = []): { passed: number; failed: number } {
  const each = [...steps(), ...more];
  const passed = each.filter(step => run(step)).length;
  return { passed, failed: each.length - passed };
}

if (import.meta.main) process.exitCode = runChecks([tidy]).failed > 0 ? 1 : 0;
