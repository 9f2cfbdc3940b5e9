/**
 * `npm test`: the checks, the packages that the client and browser tests need, then every test; ends with the line `N passed, N failed` whatever
 * happened. With arguments (`npm test -- src/lib`) vitest alone, on the files they name. `--long` runs test/long instead,
 * `--attack` the attacks of test/attacks in their full size, `--postgres` every test of a ledger or a gateway on PostgreSQL.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { runChecks } from './check.ts';

type Count = { passed: number; failed: number };

/** The members of vitest's JSON report that are read here. */
type Report = {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly testResults: readonly {
    readonly status: string;
    readonly assertionResults: readonly { readonly status: string }[];
  }[];
};

const root = resolve(import.meta.dirname, '..');
/** Packages of their own that tests need. */
const testPackages = ['test/clients', 'test/browser', 'test/postgres'];

/** Changes whenever what `npm ci` would install in that folder does. */
function installFingerprint(folder: string): string {
  const hash = createHash('sha256');
  for (const name of ['package.json', 'package-lock.json']) hash.update(readFileSync(join(root, folder, name)));
  return hash.digest('hex');
}

/**
 * Installs a package of tests if it is missing or its lockfile has changed. Returns how it counts in the result: one failure if
 * the installation failed, else nothing.
 */
function installPackage(folder: string): Count {
  const stamp = join(root, folder, 'node_modules/.tollgate-fingerprint');
  const fingerprint = installFingerprint(folder);
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === fingerprint) return { passed: 0, failed: 0 };
  // The npm that runs this script: a script of Node.js, named in the environment of every script that npm runs.
  const npm = process.env['npm_execpath'];
  const [program, own] = npm === undefined ? ['npm', []] : [process.execPath, [npm]];
  const { status } = spawnSync(program, [...own, 'ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: join(root, folder),
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (status === 0) {
    writeFileSync(stamp, fingerprint);
    return { passed: 0, failed: 0 };
  }
  console.error(`FAILED npm ci in ${folder}`);
  return { passed: 0, failed: 1 };
}

/** Reads a report; a file that failed without a failed test (it did not load, a hook threw) counts as one failure. */
function countTests(path: string): Count {
  if (!existsSync(path)) return { passed: 0, failed: 1 };
  const report = JSON.parse(readFileSync(path, 'utf8')) as Report;
  const broken = report.testResults.filter(
    file => file.status === 'failed' && !file.assertionResults.some(({ status }) => status === 'failed'),
  );
  return { passed: report.numPassedTests, failed: report.numFailedTests + broken.length };
}

/** Builds what the gateways of the tests run, so that they start faster than from the sources. Returns one failure if that failed, else nothing. */
function build(): Count {
  const { status } = spawnSync(process.execPath, [join(root, 'scripts/build.ts')], { cwd: root, stdio: 'inherit' });
  return { passed: 0, failed: status === 0 ? 0 : 1 };
}

function runVitest(options: readonly string[]): Count {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-test-'));
  const report = join(folder, 'report.json');
  try {
    const { status } = spawnSync(
      process.execPath,
      [
        join(root, 'node_modules/vitest/vitest.mjs'),
        'run',
        '--reporter=default',
        '--reporter=json',
        `--outputFile.json=${report}`,
        ...options,
      ],
      { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] },
    );
    const count = countTests(report);
    // An error outside every test fails the run, not a test.
    return status !== 0 && count.failed === 0 ? { ...count, failed: 1 } : count;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Chosen {
  readonly long: boolean;
  readonly attack: boolean;
  readonly postgres: boolean;
}

function vitestOptions({ long, attack, postgres }: Chosen, options: readonly string[]): string[] {
  if (postgres) return ['--config', 'vitest.postgres.config.ts', ...options];
  if (long) return ['--config', 'vitest.long.config.ts', ...options];
  // One after the other, because they measure.
  return attack ? ['--no-file-parallelism', 'test/attacks', ...options] : [...options];
}

function main(): void {
  const given = process.argv.slice(2);
  const long = given.includes('--long');
  const attack = given.includes('--attack');
  const postgres = given.includes('--postgres');
  const options = given.filter(option => !['--long', '--attack', '--postgres'].includes(option));
  const whole = !long && !attack && !postgres && options.length === 0;
  // test/attacks/scale.ts reads it.
  if (attack) process.env['ATTACK_SIZE'] = 'full';
  // Before the checks, which judge the client tests with the clients' types.
  const counts: Count[] = testPackages.map(folder => installPackage(folder));
  counts.push(build());
  if (whole) counts.push(runChecks());
  counts.push(runVitest(vitestOptions({ long, attack, postgres }, options)));

  const passed = counts.reduce((sum, count) => sum + count.passed, 0);
  const failed = counts.reduce((sum, count) => sum + count.failed, 0);
  process.exitCode = failed === 0 ? 0 : 1;
  console.log(`\n${passed} passed, ${failed} failed`);
}

try {
  main();
} catch (error) {
  console.error(error);
  console.log('\n0 passed, 1 failed');
  process.exitCode = 1;
}
