import process from 'node:process';
import type { Manifest } from './backup/manifest.ts';
import type { StoredBackup } from '../cli/ports.ts';
import { runCommandLine as run } from '../cli/program.ts';
import { readEnvironment } from '../config/env.ts';
import { systemClock } from '../lib/clock.ts';
import { readConfig } from './read-config.ts';
import { openBrowser } from './open-browser.ts';
import { runProgram } from './run-program.ts';

/** Runs the command that the process was started with, with everything that a command needs. Answers its exit code. */
export async function runCommandLine(): Promise<number> {
  // Who reads may have enough (`| head`): that is no failure, and a gateway outlives the reader of its banner.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
  return run(process.argv.slice(2), {
    streams: {
      out: text => void process.stdout.write(text),
      err: text => void process.stderr.write(text),
    },
    environment: () => readEnvironment(),
    serve: async options => {
      const { serve } = await import('./serve.ts');
      return serve(readEnvironment(), options);
    },
    loadConfig: path => readConfig(readEnvironment(), path),
    runProgram,
    openBrowser: url => openBrowser(url, process.env),
    verifyLedger: async dataDir => {
      const { verifyLedgerFile } = await import('../ledger/sqlite/verify.ts');
      return verifyLedgerFile(dataDir);
    },
    makeBackup: async (dataDir, target) => {
      const { makeBackup } = await import('./backup/make-backup.ts');
      return storedBackup(await makeBackup({ dataDir, target, now: () => systemClock.now() }));
    },
    restoreBackup: async (source, dataDir) => {
      const { restoreBackup } = await import('./backup/restore-backup.ts');
      return storedBackup(await restoreBackup({ source, dataDir }));
    },
  });
}

function storedBackup({ tollgate, created_at: createdAt, files }: Manifest): StoredBackup {
  return { tollgate, createdAt, files: files.length, bytes: files.reduce((sum, { bytes }) => sum + bytes, 0) };
}
