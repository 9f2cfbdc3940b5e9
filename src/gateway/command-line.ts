import process from 'node:process';
import type { Manifest } from './backup/manifest.ts';
import type { CommandLinePorts, StoredBackup } from '../cli/ports.ts';
import { runCommandLine as run } from '../cli/program.ts';
import { readEnvironment, type Variables } from '../config/env.ts';
import { systemClock } from '../lib/clock.ts';
import { openBrowser } from './open-browser.ts';
import { runProgram } from './run-program.ts';

/** Runs the command that the process was started with. Returns its exit code. */
export async function runCommandLine(): Promise<number> {
  // If the reader of the output stops early (`| head`), that is not a failure, and a running gateway continues.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
  return run(process.argv.slice(2), {
    ...commandLinePorts(process.env),
    streams: {
      out: text => void process.stdout.write(text),
      err: text => void process.stderr.write(text),
    },
  });
}

/**
 * Returns what commands need in addition to the standard streams. What few commands need is loaded on demand, so that commands answer within half a second.
 */
export function commandLinePorts(variables: Variables): Omit<CommandLinePorts, 'streams'> {
  const environment = () => readEnvironment(variables);
  return {
    environment,
    serve: async ({ workers, ...options }) => {
      const { serve } = await import('./serve.ts');
      const given = workers === undefined ? variables : { ...variables, TOLLGATE_WORKERS: workers };
      return serve(readEnvironment(given), options);
    },
    loadConfig: async path => {
      const { readConfig } = await import('./read-config.ts');
      return readConfig(environment(), path);
    },
    runProgram,
    openBrowser: url => openBrowser(url, variables),
    verifyLedger: async dataDir => {
      const { databaseUrl } = environment();
      if (databaseUrl !== undefined) {
        const { verifyDatabase } = await import('../ledger/postgres/verify.ts');
        return verifyDatabase(databaseUrl);
      }
      const { verifyLedgerFile } = await import('../ledger/sqlite/verify.ts');
      return verifyLedgerFile(dataDir);
    },
    makeBackup: async (dataDir, target) => {
      const { makeBackup } = await import('./backup/make-backup.ts');
      return storedBackup(await makeBackup({ dataDir, target, now: () => systemClock.now() }));
    },
    migrateStore: async (dataDir, url, progress) => {
      const [{ runMigration }, { readConfig }] = await Promise.all([
        import('./migrate/run-migration.ts'),
        import('./read-config.ts'),
      ]);
      return runMigration(await readConfig(environment(), undefined), { dataDir, url, progress });
    },
    restoreBackup: async (source, dataDir, oldDataDir) => {
      const { restoreBackup } = await import('./backup/restore-backup.ts');
      const { manifest, revoked } = await restoreBackup({ source, dataDir, oldDataDir });
      return { ...storedBackup(manifest), revoked };
    },
  };
}

function storedBackup({ tollgate, created_at: createdAt, files }: Manifest): StoredBackup {
  return { tollgate, createdAt, files: files.length, bytes: files.reduce((sum, { bytes }) => sum + bytes, 0) };
}
