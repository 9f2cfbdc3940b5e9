import type { Environment } from '../config/env.ts';
import type { Config } from '../config/settings.ts';
import type { Streams } from './output.ts';

/** A backup that was made or restored. */
export interface StoredBackup {
  /** The version that made it. */
  readonly tollgate: string;
  /** The moment that it shows, as an ISO time. */
  readonly createdAt: string;
  readonly files: number;
  readonly bytes: number;
}

/** What the command line can't do by itself: `main.ts` wires it. */
export interface CommandLinePorts {
  readonly streams: Streams;
  /** Reads the environment; throws `ConfigError`. Not called for help. */
  readonly environment: () => Environment;
  /** Runs the gateway until it has stopped, and answers the exit code. `configPath` is `--config`. */
  readonly serve: (options: { readonly configPath?: string }) => Promise<number>;
  /** Reads and checks a configuration file, the one in use where none is named; throws `ConfigError`. */
  readonly loadConfig: (path: string | undefined) => Config | Promise<Config>;
  /** Runs a program until it ends, with that environment, and answers its exit code; throws `CommandFailure` if it can't be started. */
  readonly runProgram: (command: readonly string[], env: Readonly<Record<string, string>>) => Promise<number>;
  /** Opens an address in the browser of whoever runs the command, where there is one. Returns at once, and never throws. */
  readonly openBrowser: (url: string) => void;
  /** Violated invariants of a data directory's ledger in words; throws where there is no ledger. Works beside a running gateway. */
  readonly verifyLedger: (dataDir: string) => readonly string[] | Promise<readonly string[]>;
  /** Backs a data directory up to a new folder; throws with the reason in words. Works beside a running gateway. */
  readonly makeBackup: (dataDir: string, target: string) => Promise<StoredBackup>;
  /** Puts a backup into an empty data directory; throws with the reason in words. */
  readonly restoreBackup: (source: string, dataDir: string) => Promise<StoredBackup>;
}
