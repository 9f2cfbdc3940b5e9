import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

/** The files that `npm run test:postgres` runs: every test that opens a ledger or starts a gateway, except those that are listed here with a reason. */

const root = resolve(import.meta.dirname, '../..');

/** Modules that start a gateway or open a ledger or a document store. A test that imports one of them, directly or through others, tests an engine. */
const openers = new Set([
  'test/gateway.ts',
  'test/ledger/fixture.ts',
  'src/ledger/sqlite/sqlite-ledger.ts',
  'src/ledger/postgres/postgres-ledger.ts',
  'src/store/sqlite/documents/sqlite-documents.ts',
  'src/store/postgres/database.ts',
]);

/** Folders whose tests all count as tests of an engine. */
const always = /^test\/(?:attacks|browser|clients|e2e|ledger|postgres)\//;

/** Tests that do not run on PostgreSQL, and why. */
export const leftOut: Readonly<Record<string, string>> = {
  'test/answer-cost.test.ts': 'Counts the promises and bytes of an answer with SQLite.',
  'test/documents/documents.test.ts':
    'About the store of documents in SQLite; `test/postgres/stores.test.ts` is about the other.',
  'test/documents/kill.test.ts': 'Kills a process that writes documents to SQLite.',
  'test/e2e/backup.e2e.test.ts': 'About `tollgate backup`, which copies a data directory.',
  'test/e2e/upgrade.e2e.test.ts': 'Migrates files of older versions of SQLite’s ledger.',
  'test/ledger/engine-faults.test.ts': 'Breaks single statements of SQLite’s engine.',
  'test/ledger/faults.test.ts': 'Ends the thread that writes to SQLite, and fills its disk.',
  'test/ledger/kill.test.ts': 'Kills a process that writes to SQLite; `test/postgres/gateways.test.ts` kills gateways.',
  'test/ledger/migration.test.ts': 'Migrates files of older versions of SQLite’s ledger.',
  'test/ledger/model.test.ts':
    'Compares SQLite’s engine with the model; `test/postgres/ledger-model.test.ts` does it with PostgreSQL’s.',
  'test/ledger/power-cut.test.ts': 'Cuts the power under SQLite’s files.',
  'test/ledger/reader.test.ts': 'Ends the thread that reads SQLite.',
  'test/ledger/rows-read.test.ts': 'Counts what statements of SQLite read.',
  'test/ledger/tampered.e2e.test.ts': 'Changes copies of SQLite’s file.',
  'test/ledger/worker-ledger.test.ts': 'Workers share a ledger in SQLite.',
  'test/package/deploy.test.ts': 'Reads the files of `deploy`, and starts no gateway.',
  'test/package/package.e2e.test.ts': 'About the files of the package.',
  'test/storage/batch-faults.test.ts': 'Makes the calls fail with which batches and SQLite write to the disk.',
  'test/storage/gateway-faults.test.ts': 'Makes the calls fail with which SQLite writes to the disk.',
  'test/storage/log-faults.test.ts': 'About the log, which does not depend on the engine.',
  'test/storage/storage-faults.test.ts': 'Makes the calls fail with which SQLite writes to the disk.',
  'test/workers/workers.e2e.test.ts':
    'Workers share a ledger in SQLite; on PostgreSQL there are more gateways instead.',
};

const imports = /(?:from|import\(?)\s*'(\.{1,2}\/[^']+)'/g;

/** Returns a file and all files that it imports, as paths in the repository. */
function listImports(path: string, seen: Set<string>): Set<string> {
  if (seen.has(path) || !existsSync(join(root, path))) return seen;
  seen.add(path);
  // The imports of modules that open an engine do not matter.
  if (openers.has(path) || !/\.[cm]?tsx?$/.test(path)) return seen;
  for (const [, name = ''] of readFileSync(join(root, path), 'utf8').matchAll(imports)) {
    listImports(relative(root, resolve(root, dirname(path), name)), seen);
  }
  return seen;
}

/** Returns the tests that open an engine, as paths in the repository, without those of `test/long`, which have a separate command. */
export function listEngineTests(): string[] {
  return globSync(['test/**/*.test.ts', 'src/**/*.test.ts'], {
    cwd: root,
    exclude: ['**/node_modules/**', 'test/long/**'],
  })
    .filter(path => always.test(path) || [...listImports(path, new Set())].some(each => openers.has(each)))
    .toSorted();
}

/** Returns the tests that run on PostgreSQL. */
export function listPostgresTests(): string[] {
  return listEngineTests().filter(path => !(path in leftOut));
}
