/**
 * The package that `npm pack` makes, installed in an empty folder with only production dependencies and read-only code. `TOLLGATE_TEST_NODES` has the paths of further
 * Node.js programs with which to start it, separated by colons.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseSync } from 'oxc-parser';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { root } from '../gateway.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-package-'));
const installed = join(folder, 'node_modules/tollgate');
const apiKey = `sk-tg-${'k'.repeat(43)}`;
const nodes = [process.execPath, ...(process.env['TOLLGATE_TEST_NODES'] ?? '').split(':').filter(path => path !== '')];

/** Runs npm: the one that runs the tests, or that of the machine. */
function npm(args: readonly string[], cwd: string): string {
  const own = process.env['npm_execpath'];
  const [program, before] = own === undefined ? ['npm', []] : [process.execPath, [own]];
  return execFileSync(program, [...before, ...args, '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

beforeAll(() => {
  const [packed] = JSON.parse(npm(['pack', '--json', '--silent', '--pack-destination', folder], root)) as [
    { filename: string },
  ];
  writeFileSync(join(folder, 'package.json'), '{ "private": true }');
  npm(['install', '--omit=dev', '--prefer-offline', join(folder, packed.filename)], folder);
  for (const name of readdirSync(installed, { recursive: true, encoding: 'utf8' })) {
    const path = join(installed, name);
    if (statSync(path).isFile()) chmodSync(path, 0o444);
  }
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('it has compiled code and the documents that its README links to, but no tests and no pinned Node.js', () => {
  expect(existsSync(join(installed, 'dist/main.js'))).toBe(true);
  for (const absent of ['src', 'test', 'bench', 'scripts']) expect(existsSync(join(installed, absent))).toBe(false);
  expect(existsSync(join(folder, 'node_modules/node'))).toBe(false);
  const readme = readFileSync(join(installed, 'README.md'), 'utf8');
  const links = Array.from(readme.matchAll(/\]\(((?!https?:)[^)#]+)/g), ([, path]) => path ?? '');
  expect(links.length).toBeGreaterThan(3);
  expect(links.filter(path => !existsSync(join(installed, path)))).toEqual([]);
  // A list of what it is made of, without what only its development needs, and the licences of the bundled libraries.
  const sbom = JSON.parse(readFileSync(join(installed, 'dist/sbom.cdx.json'), 'utf8')) as {
    bomFormat: string;
    components: { name: string }[];
  };
  const names = sbom.components.map(({ name }) => name);
  expect([sbom.bomFormat, names.includes('fastify'), names.includes('vitest')]).toEqual(['CycloneDX', true, false]);
  expect(readFileSync(join(installed, 'dist/licenses.md'), 'utf8')).toContain('fastify');
  // The installation page copies these files from the package.
  const page = readFileSync(join(installed, 'docs/operations.md'), 'utf8');
  const copied = Array.from(page.matchAll(/npm root --global\)\/tollgate\/(\S+?)"/g), ([, path]) => path ?? '');
  expect(copied).toEqual(['deploy/systemd/tollgate.service']);
  expect(copied.filter(path => !existsSync(join(installed, path)))).toEqual([]);
  const compiled = readdirSync(join(installed, 'dist'), { recursive: true, encoding: 'utf8' });
  expect(compiled.filter(name => /\.test\.|fixture/.test(name))).toEqual([]);
});

describe.each(nodes)('with %s', node => {
  test('it starts, answers, and ends at SIGTERM', async () => {
    const data = mkdtempSync(join(folder, 'data-'));
    // If the test runs as root, the gateway runs as another user, who can read the package and write only the data.
    const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
    if (user.uid !== undefined) {
      chmodSync(folder, 0o755);
      chownSync(data, user.uid, user.gid);
    }
    const child = spawn(node, [join(installed, 'bin/tollgate.js'), 'serve'], {
      cwd: folder,
      ...user,
      env: {
        PATH: `${dirname(node)}:/usr/bin:/bin`,
        TOLLGATE_PORT: '0',
        TOLLGATE_RPC_PORT: '0',
        TOLLGATE_DATA_DIR: data,
        TOLLGATE_BOOTSTRAP_API_KEY: apiKey,
      },
    });
    let printed = '';
    const ready = new Promise<string>((resolve, reject) => {
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
        const url = /^\s*public\s+(http:\S+)/m.exec(printed)?.[1];
        if (url !== undefined) resolve(url);
      });
      child.once('exit', code => reject(new Error(`it ended with ${code}: ${printed}`)));
    });
    const url = await ready;
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sim/large', messages: [{ role: 'user', content: '!sim say=packed' }] }),
    });
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ choices: [{ message: { content: 'packed' } }] });
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
  });
});

test('an older Node.js is refused with one sentence, by a program that every Node.js can parse', () => {
  // As a script of the first ES modules: no import declaration, which an old Node.js would resolve before it runs the check.
  const text = readFileSync(join(installed, 'bin/tollgate.js'), 'utf8').replace(/^#!.*/, '');
  const parsed = parseSync('tollgate.cjs', text, { sourceType: 'script' });
  expect(parsed.errors).toEqual([]);
  const code = text.replaceAll(/^\s*\/\/.*/gm, '');
  expect(code).not.toMatch(/\b(?:const|let|await)\b|^(?:import|export) |\?\.|\?\?|=>|`/m);
  // The check uses the version that the program reports.
  const script = `Object.defineProperty(process.versions, 'node', { value: '20.1.0' });`;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', `data:text/javascript,${encodeURIComponent(script)}`, join(installed, 'bin/tollgate.js'), 'serve'],
    { cwd: folder, encoding: 'utf8' },
  );
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^Tollgate needs Node\.js 22 or newer, and this is 20\.1\.0: install .*\.\n$/);
});
