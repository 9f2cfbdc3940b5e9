/** The ports of the command line as in `main.ts`, without a gateway to serve and without the standard streams. */
import type { CommandLinePorts } from '../../src/cli/ports.ts';
import { loadConfig } from '../../src/config/config.ts';
import { readEnvironment, type Variables } from '../../src/config/env.ts';
import { runProgram } from '../../src/gateway/run-program.ts';
import { verifyDatabase } from '../../src/ledger/postgres/verify.ts';
import { verifyLedgerFile } from '../../src/ledger/sqlite/verify.ts';

/** Returns ports with these environment variables. `serve` ends at once with 3, so that its exit code can be recognized. */
export function makePorts(variables: Variables): Omit<CommandLinePorts, 'streams'> {
  const environment = () => readEnvironment(variables);
  return {
    environment,
    serve: ({ configPath }) => Promise.resolve(configPath === undefined ? 3 : 4),
    loadConfig: async path =>
      loadConfig({ ...(path === undefined ? {} : { path }), environment: environment(), builtInIds: [] }),
    runProgram,
    openBrowser: () => undefined,
    verifyLedger: async dataDir => {
      const { databaseUrl } = environment();
      return databaseUrl === undefined ? verifyLedgerFile(dataDir) : verifyDatabase(databaseUrl);
    },
    makeBackup: () => Promise.reject(new Error('no backup here')),
    migrateStore: () => Promise.reject(new Error('no database here')),
    restoreBackup: () => Promise.reject(new Error('no backup here')),
  };
}
