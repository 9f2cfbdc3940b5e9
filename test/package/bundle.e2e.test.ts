/** What `bin/tollgate.js` runs in a checkout: the bundle, or the sources if they are newer; and what the two load. */
import { cpSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { buildGateway } from '../../scripts/build-gateway.ts';
import { gatewayEnvironment, makeHome, root, run as runProcess } from '../gateway.ts';

const home = makeHome();
afterAll(() => rmSync(home.folder, { recursive: true, force: true }));

/** Runs a command after a script, from the sources or as users do, and returns what was printed on standard error as lines. */
async function runAfter(script: string, program: string, args: readonly string[]): Promise<string[]> {
  const { stderr } = await runProcess(
    [process.execPath, '--import', `data:text/javascript,${encodeURIComponent(script)}`, program, ...args],
    { cwd: home.folder, env: gatewayEnvironment(home) },
  ).ended;
  return stderr.split('\n').filter(line => line !== '');
}

/** Does so with `tollgate --version`. */
const runVersion = (program: string, script: string): Promise<string[]> => runAfter(script, program, ['--version']);

const printModules = `import { registerHooks } from 'node:module';
  registerHooks({ load(url, context, next) { process.stderr.write(url + '\\n'); return next(url, context); } });`;

test('a command loads neither the gateway nor the libraries of its configuration', async () => {
  const lines = await runVersion(join(root, 'src/main.ts'), printModules);
  const loaded = lines.filter(line => line.startsWith('file:'));
  expect(loaded.length).toBeGreaterThan(50);
  expect(loaded.length).toBeLessThan(300);
  expect(
    loaded.filter(url =>
      /\/(?:zod|yaml|undici|better-sqlite3|fastify)\/|\/src\/(?:codecs|core|upstreams|ledger|edge)\//.test(url),
    ),
  ).toEqual([]);
});

test('the bundle keeps apart what a command needs: a fifth of what the gateway loads, also for a call of the gateway', async () => {
  await buildGateway();
  mkdirSync(home.dataDir, { recursive: true });
  // Nothing listens on the port, but the command has loaded what it calls with.
  writeFileSync(join(home.dataDir, 'operator.token'), 'a-token', { mode: 0o600 });
  const call = ['accounts', 'list', '--rpc-port', '1'];
  for (const [args, maxBytes] of [
    [['--version'], 800_000],
    [call, 900_000],
  ] as const) {
    const lines = await runAfter(printModules, join(root, 'bin/tollgate.js'), args);
    if (args === call) expect(lines).toContain('No gateway answers on 127.0.0.1:1.');
    const loaded = lines.filter(line => line.startsWith('file:'));
    expect(loaded).toContainEqual(expect.stringMatching(/\/dist\/main\.js$/));
    expect(loaded.filter(url => url.includes('/src/'))).toEqual([]);
    const bytes = loaded.reduce((sum, url) => sum + statSync(fileURLToPath(url)).size, 0);
    expect(bytes, `${args.join(' ')}`).toBeLessThan(maxBytes);
  }
});

/** Makes a checkout with the sources of this one but without its bundle. */
function checkout(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-checkout-'));
  cpSync(join(root, 'bin'), join(folder, 'bin'), { recursive: true });
  symlinkSync(join(root, 'src'), join(folder, 'src'));
  for (const name of ['package.json', 'package-lock.json']) cpSync(join(root, name), join(folder, name));
  return folder;
}

test('the sources run again without Node.js’s compiler of TypeScript, which would stay in memory', async () => {
  const folder = checkout();
  const print = `process.on('exit', () => console.error(process.moduleLoadList.filter(name => name.includes('deps/amaro'))));`;
  await runVersion(join(folder, 'bin/tollgate.js'), print);
  expect(await runVersion(join(folder, 'bin/tollgate.js'), print)).toEqual(['[]']);
  rmSync(folder, { recursive: true });
});

test('a bundle that is older than a source or the lockfile does not run', async () => {
  const folder = checkout();
  mkdirSync(join(folder, 'dist'));
  const bundle = join(folder, 'dist/main.js');
  writeFileSync(bundle, 'console.error("the bundle");');
  const later = Date.now() / 1000 + 3_600;
  const runs = async (builtAt: number, lockedAt: number): Promise<boolean> => {
    utimesSync(bundle, builtAt, builtAt);
    utimesSync(join(folder, 'package-lock.json'), lockedAt, lockedAt);
    return (await runVersion(join(folder, 'bin/tollgate.js'), '')).includes('the bundle');
  };
  expect([await runs(later, 1), await runs(1, 0), await runs(later, later + 1)]).toEqual([true, false, false]);
  rmSync(folder, { recursive: true });
});
