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
  const hasClients = existsSync(join(clients, 'node_modules'));
  const clientsIgnored = hasClients ? [] : ['--ignore-pattern', 'test/clients/**'];
  const clientTypes: Step = { name: 'types of client tests', command: [join(bin, 'tsc'), '--project', clients] };
  // tsc fails if it finds no files.
  const hasClientTests = hasClients && readdirSync(clients).some(name => name.endsWith('.ts'));
  const hasBrowser = existsSync(join(browser, 'node_modules'));
  const browserIgnored = hasBrowser ? [] : ['--ignore-pattern', 'test/browser/**'];
  const browserTypes: Step = { name: 'types of browser tests', command: [join(bin, 'tsc'), '--project', browser] };
  return [
    { name: 'format', command: [join(bin, 'oxfmt'), '--check', '.'] },
    { name: 'lint', command: [join(bin, 'oxlint'), ...clientsIgnored, ...browserIgnored] },
    { name: 'types', command: [join(bin, 'tsc'), '--project', root] },
    // Packages also run on older versions of Node.js, which lack some features.
    { name: 'types of packages', command: [join(bin, 'tsc'), '--project', join(root, 'tsconfig.build.json')] },
    { name: 'types of the dashboard', command: [join(bin, 'tsc'), '--project', join(root, 'src/dashboard')] },
    ...(hasClientTests ? [clientTypes] : []),
    ...(hasBrowser ? [browserTypes] : []),
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
