/** Invariants of the packages, without which `npm ci && npm start` would fail on a machine with Node 20 and no compiler. */
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, test } from 'vitest';

type Manifest = {
  readonly dependencies: Record<string, string>;
  readonly devDependencies?: Record<string, string>;
  readonly allowScripts: Record<string, boolean>;
  readonly scripts?: Record<string, string>;
};
type Locked = {
  readonly version: string;
  readonly resolved?: string;
  readonly hasInstallScript?: boolean;
  readonly gypfile?: boolean;
};
type Lock = { readonly packages: Record<string, Locked> };

const root = resolve(import.meta.dirname, '..');
const read = (path: string): string => readFileSync(resolve(root, path), 'utf8');
const manifest = JSON.parse(read('package.json')) as Manifest;

test('better-sqlite3 has "gypfile": false in the lockfile', () => {
  // npm 10 ignores allowScripts and would run node-gyp, which fails if Python is missing; `npm install` removes the line.
  const { packages } = JSON.parse(read('package-lock.json')) as Lock;
  expect(packages['node_modules/better-sqlite3']?.gypfile, 'add "gypfile": false to node_modules/better-sqlite3').toBe(
    false,
  );
});

test('tests run on the pinned Node.js', () => {
  expect(process.version).toBe(`v${manifest.devDependencies?.['node']}`);
});

test('npm ci checks the installed Node.js against published digests', () => {
  const script = resolve(root, 'scripts/check-runtime.mjs');
  expect(manifest.scripts?.['prepare']).toMatch(/^"\$\{npm_node_execpath:-node\}" scripts\/check-runtime\.mjs && /);
  expect(read('scripts/check-runtime.mjs')).toContain(`version = '${manifest.devDependencies?.['node']}'`);
  const check = (...args: string[]): ReturnType<typeof spawnSync> =>
    spawnSync(process.execPath, [script, ...args], { encoding: 'utf8' });
  expect(check().status).toBe(0);
  const other = check(script);
  expect([other.status, other.stderr]).toEqual([1, expect.stringContaining('Do not run it: remove node_modules')]);
});

test('a signal to npm start reaches the gateway, and so do its arguments', () => {
  // Without `exec`, SIGTERM would end npm and its shell, but not the gateway.
  expect(manifest.scripts?.['start']).toMatch(/ && exec node --max-old-space-size=\S+ bin\/tollgate\.js serve$/);
});

test('npx tollgate runs on the pinned Node.js and leaves the checkout as it was', () => {
  // npx puts node_modules/.bin first in PATH, and makes the file executable if it is not, which would be a change in git.
  expect(read('bin/tollgate.js').split('\n', 1)).toEqual(['#!/usr/bin/env -S node']);
  expect(statSync(resolve(root, 'bin/tollgate.js')).mode & 0o111).toBe(0o111);
});

test('tests see no key or setting of the developer', () => {
  expect(Object.keys(process.env).filter(name => /^TOLLGATE_|_API_KEYS?$|^OLLAMA_/.test(name))).toEqual([]);
});

describe.each(['.', 'test/clients', 'test/browser', 'bench/peers'])('package %s', folder => {
  const { dependencies, devDependencies, allowScripts } = JSON.parse(read(`${folder}/package.json`)) as Manifest;
  const { packages } = JSON.parse(read(`${folder}/package-lock.json`)) as Lock;

  test('names the exact version of every dependency', () => {
    const loose = Object.entries({ ...dependencies, ...devDependencies }).filter(
      ([, version]) => !/^(npm:@?[^@]+@)?\d+\.\d+\.\d+$/.test(version),
    );
    expect(loose).toEqual([]);
  });

  test('allows or forbids every install script', () => {
    const scripted = Object.entries(packages).filter(([, { hasInstallScript }]) => hasInstallScript === true);
    const names = scripted.map(([path]) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length));
    expect(names.filter(name => !(name in allowScripts))).toEqual([]);
  });

  test('has a lockfile that names no registry', () => {
    // `omit-lockfile-registry-resolved` in .npmrc ensures this, because the URL of one machine's mirror is useless on another.
    expect(Object.keys(packages).filter(path => packages[path]?.resolved !== undefined)).toEqual([]);
  });
});
