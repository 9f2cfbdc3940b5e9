/**
 * Checks what no linter checks: which folder may import which, and where files belong. The linter checks lengths (functions 70 lines, files 600, 4 parameters).
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { parseSync } from 'oxc-parser';
import { expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '..');
const src = resolve(root, 'src');

/** Each folder may import itself and the folders named here; nothing else below `src/`. `gateway` wires a running
 * gateway and alone picks the store engine; `main.ts` is the entry of all commands. */
const mayImport: Record<string, readonly string[]> = {
  lib: [],
  gen: [],
  errors: [],
  telemetry: ['lib'],
  config: ['lib', 'errors'],
  generation: ['lib', 'errors', 'gen'],
  codecs: ['lib', 'errors', 'gen', 'generation'],
  ledger: ['lib', 'errors', 'generation'],
  store: ['lib', 'errors', 'generation'],
  simulator: ['lib', 'errors', 'gen', 'generation'],
  upstreams: ['lib', 'errors', 'gen', 'generation', 'codecs', 'telemetry'],
  core: ['lib', 'errors', 'gen', 'generation', 'ledger', 'store', 'upstreams', 'telemetry'],
  rpc: ['lib', 'errors', 'gen', 'telemetry'],
  edge: ['lib', 'errors', 'gen', 'generation', 'codecs', 'rpc', 'telemetry'],
  cli: ['lib', 'gen', 'config', 'rpc'],
  dashboard: ['gen'],
  gateway: [
    'lib',
    'errors',
    'gen',
    'generation',
    'config',
    'ledger',
    'store',
    'simulator',
    'upstreams',
    'core',
    'rpc',
    'edge',
    'telemetry',
    'cli',
  ],
};
/** Folders whose sub-folders are alternatives: none may import another. */
const alternatives = ['codecs', 'store'];
/** Folders of pure functions: they do no I/O, read no clock and do not log. */
const pure = ['errors', 'generation', 'codecs'];
const pureBuiltins = new Set(['node:assert/strict', 'node:crypto']);
/** Packages that belong to one part of the program. A package that is not listed may be imported anywhere. */
const packageFolders: Record<string, readonly string[]> = {
  'better-sqlite3': ['lib/sqlite', 'ledger/sqlite'],
  commander: ['cli'],
  pg: ['lib/postgres'],
  fastify: ['edge', 'gateway'],
  pino: ['telemetry'],
  'openid-client': ['edge/dashboard'],
  undici: ['upstreams'],
};
/** Words in file names that say nothing about the purpose of a file. */
const emptyWords = /(^|[-./])(utils?|helpers?|managers?|common|misc)([-./]|$)/;

function filesBelow(folder: string): string[] {
  const path = resolve(root, folder);
  if (!existsSync(path)) return [];
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter(file => /\.tsx?$/.test(file) && !file.includes('node_modules/') && !file.startsWith('gen/'))
    .sort();
}

const all = filesBelow('src');
const files = all.filter(file => !file.endsWith('.test.ts'));

/** Returns what a file imports, re-exports, imports dynamically or starts as a worker: names of packages, and paths below `src/` for files of the project. */
function readImports(file: string): string[] {
  const text = readFileSync(resolve(src, file), 'utf8');
  const { module, errors } = parseSync(file, text);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`);
  const names = [
    ...module.staticImports.map(each => each.moduleRequest.value),
    ...module.staticExports.flatMap(each => each.entries.map(entry => entry.moduleRequest?.value)),
    // `import('x')` as an expression or a type, and the file of a worker.
    ...[...text.matchAll(/\bimport\(\s*['"]([^'"]+)['"]|\bnew URL\(\s*['"](\.[^'"]+)['"]/g)].map(([, a, b]) => a ?? b),
  ].filter(name => name !== undefined);
  return names.map(name => (name.startsWith('.') ? relative(src, resolve(src, dirname(file), name)) : name));
}

/** The files and folders outside of `rules` that the rules of the ledger may import. */
const rulesMayImport = [
  'ledger/rows.ts',
  'ledger/ledger.ts',
  'ledger/plans.ts',
  'ledger/history.ts',
  'ledger/webhooks.ts',
  // The formats of amounts and times in the audit and in events.
  'lib/dollars.ts',
  'lib/clock.ts',
  'lib/text-pattern.ts',
  'generation/price.ts',
  'lib/ids.ts',
  'lib/temporal.ts',
  'errors/',
];

const isOwn = (target: string): boolean => /\.tsx?$/.test(target);

/** Returns whether the rules of the ledger may import a file. Allowed are the rules, rows, the port's types, prices, and files without I/O. */
const isOfRules = (target: string): boolean =>
  target.startsWith('ledger/rules/') ||
  rulesMayImport.some(each => (each.endsWith('/') ? target.startsWith(each) : target === each));

/** Returns why `file` may not import the project's file `target`; undefined if it may. */
function forbidden(file: string, target: string): string | undefined {
  const [from = '', own = ''] = file.split('/');
  const [to = '', part = '', ...deeper] = target.split('/');
  const inside = deeper.length > 0; // in a sub-folder of `to`
  if (to === '..') return 'src imports nothing outside src';
  if (target.endsWith('.test.ts')) return 'nobody imports a test';
  if (to !== from && !mayImport[from]?.includes(to)) return `${from} may not import ${to}`;
  if (to === from && alternatives.includes(to) && inside && file.split('/').length > 2 && own !== part) {
    return 'one alternative imports another';
  }
  if (['store', 'ledger'].includes(to) && from !== to && from !== 'gateway' && inside)
    return 'only the wiring picks an engine';
  if (file.startsWith('ledger/rules/') && !isOfRules(target)) return 'rules know rows and prices alone';
  return undefined;
}

/** Returns why `file` may not import the package or builtin `name`; undefined if it may. */
function forbiddenPackage(file: string, name: string): string | undefined {
  const [from = ''] = file.split('/');
  const isPure = pure.includes(from) || file.startsWith('ledger/rules/');
  if (isPure && name.startsWith('node:') && !pureBuiltins.has(name)) return `${from} is pure`;
  const owners = packageFolders[name.startsWith('@') ? name.split('/', 2).join('/') : (name.split('/')[0] ?? name)];
  if (owners === undefined || owners.some(owner => file.startsWith(`${owner}/`))) return undefined;
  return `only ${owners.join(', ')} may import it`;
}

/** Returns the violations of import rules, as `file -> target: why`. */
function broken(among: readonly string[], why: (file: string, target: string) => string | undefined): string[] {
  return among.flatMap(file =>
    readImports(file).flatMap(target => {
      const reason = why(file, target);
      return reason === undefined ? [] : [`${file} -> ${target}: ${reason}`];
    }),
  );
}

test('every file below src except main.ts is in a folder of the table', () => {
  expect(
    all.filter(file => file !== 'main.ts' && !(file.includes('/') && file.slice(0, file.indexOf('/')) in mayImport)),
  ).toEqual([]);
});

test('folders import only the folders that they may import, also for types', () => {
  expect(
    broken(
      files.filter(file => file !== 'main.ts'),
      (file, target) => (isOwn(target) ? forbidden(file, target) : undefined),
    ),
  ).toEqual([]);
});

test('every import that the tables allow is used', () => {
  const imports = new Map(files.map(file => [file, readImports(file)]));
  const isUsed = (folder: string, matches: (target: string) => boolean): boolean =>
    imports.entries().some(([file, targets]) => file.startsWith(`${folder}/`) && targets.some(matches));
  const isPackage = (name: string) => (target: string) => target === name || target.startsWith(`${name}/`);
  const unused = [
    ...Object.entries(mayImport).flatMap(([from, allowed]) =>
      allowed.filter(to => !isUsed(from, target => target.startsWith(`${to}/`))).map(to => `${from} -> ${to}`),
    ),
    ...Object.entries(packageFolders).flatMap(([name, owners]) =>
      owners.filter(owner => !isUsed(owner, isPackage(name))).map(owner => `${owner} -> ${name}`),
    ),
    ...[...pureBuiltins]
      .filter(name => !['ledger/rules', ...pure].some(folder => isUsed(folder, target => target === name)))
      .map(name => `pure folders -> ${name}`),
    ...rulesMayImport
      .filter(name => !isUsed('ledger/rules', target => target.startsWith(name)))
      .map(name => `ledger/rules -> ${name}`),
  ];
  expect(unused).toEqual([]);
});

test('the map of AGENTS.md allows the same imports', () => {
  const rows = readFileSync(resolve(root, 'AGENTS.md'), 'utf8').matchAll(
    /^\| `src\/([a-z]+)[^|`]*`[^|]*\|[^|]*\| ([^|]*) \|$/gm,
  );
  const map = Object.fromEntries(
    Array.from(rows, ([, folder = '', allowed = '']) => [folder, allowed.match(/[a-z]+/g) ?? []]),
  );
  const shown = Object.fromEntries(
    Object.entries(map).map(([folder, words]) => [folder, words.filter(word => word in mayImport).sort()]),
  );
  const { gateway: _everything, ...table } = mayImport;
  expect(map['gateway']).toEqual(['everything']);
  expect(shown).toEqual({
    gateway: [],
    ...Object.fromEntries(Object.entries(table).map(([folder, allowed]) => [folder, [...allowed].sort()])),
  });
});

test('nothing imports main.ts, and every import of a file has its extension', () => {
  const bad = broken(all, (_, target) => {
    if (target === 'main.ts') return 'main.ts is the end of the line';
    return target.startsWith('.') ||
      existsSync(resolve(src, `${target}.ts`)) ||
      existsSync(resolve(src, target, 'index.ts'))
      ? 'name the file with its ending'
      : undefined;
  });
  expect(bad).toEqual([]);
});

test('packages are imported only in the folders to which they belong', () => {
  expect(
    broken(
      files.filter(file => file !== 'main.ts'),
      (file, target) => (isOwn(target) ? undefined : forbiddenPackage(file, target)),
    ),
  ).toEqual([]);
});

test('examples import nothing of the gateway except `src/gen`', () => {
  const examples = filesBelow('examples').map(file => relative(src, resolve(root, 'examples', file)));
  expect(examples.length).toBeGreaterThan(0);
  const isOutside = (target: string): boolean => isOwn(target) && !target.startsWith('../examples/');
  const bad = broken(examples, (_, target) =>
    isOutside(target) && !target.startsWith('gen/') ? 'an example may not import it' : undefined,
  );
  expect(bad).toEqual([]);
});

test('only `src/lib` reads the current time', () => {
  const bad = files.filter(
    file => !file.startsWith('lib/') && /\bnew Date\(\)|\bDate\.now\b/.test(readFileSync(resolve(src, file), 'utf8')),
  );
  expect(bad).toEqual([]);
});

test('code that handles answers gets time, timers and randomness from a `Runtime`', () => {
  const folders = ['core/', 'upstreams/', 'generation/', 'codecs/', 'edge/sinks/'];
  const direct = /\bperformance\.now\b|\bset(Timeout|Interval)\(|\bMath\.random\b/;
  const bad = files.filter(
    file => folders.some(folder => file.startsWith(folder)) && direct.test(readFileSync(resolve(src, file), 'utf8')),
  );
  expect(bad).toEqual([]);
});

test('no file has a meaningless name like `utils`', () => {
  const named = ['src', 'test', 'scripts', 'bench', 'examples'].flatMap(folder =>
    filesBelow(folder).map(file => `${folder}/${file}`),
  );
  expect(named.filter(file => emptyWords.test(file))).toEqual([]);
});

test('a test in `src` is beside the file that it tests, and there are no tests outside of `src` and `test`', () => {
  const alone = all.filter(
    file => file.endsWith('.test.ts') && !existsSync(resolve(src, file.replace(/(\.[a-z0-9-]+)*\.test\.ts$/, '.ts'))),
  );
  const outside = ['scripts', 'bench', 'examples', 'proto']
    .flatMap(filesBelow)
    .filter(file => file.endsWith('.test.ts'));
  expect([...alone, ...outside]).toEqual([]);
});
