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

/** The command line's access to the world outside: `main.ts` wires it. */
export interface CommandLinePorts {
  readonly streams: Streams;
  /** Reads the environment; throws `ConfigError`. Not called for help. */
  readonly environment: () => Environment;
  /**
   * Runs the gateway until it has stopped, and returns the exit code. `configPath` is `--config`, `workers` is
   * `--workers`. Throws `ConfigError`.
   */
  readonly serve: (options: { readonly configPath?: string; readonly workers?: string }) => Promise<number>;
  /** Reads and checks a configuration file, by default the one in use; throws `ConfigError`. */
  readonly loadConfig: (path: string | undefined) => Promise<Config>;
  /**
   * Runs a program with that environment until it ends, and returns its exit code; throws `CommandFailure` if it
   * can't be started.
   */
  readonly runProgram: (command: readonly string[], env: Readonly<Record<string, string>>) => Promise<number>;
  /** Opens an address in the user's browser, if there is one. Returns at once, and never throws. */
  readonly openBrowser: (url: string) => void;
  /**
   * Returns violated invariants of a data directory's ledger in words; throws if there is no ledger. Works while a
   * gateway runs.
   */
  readonly verifyLedger: (dataDir: string) => readonly string[] | Promise<readonly string[]>;
  /** Backs a data directory up to a new folder; throws with the reason in words. Works while a gateway runs. */
  readonly makeBackup: (dataDir: string, target: string) => Promise<StoredBackup>;
  /**
   * Moves the data directory of a stopped gateway to a PostgreSQL database, and reports each table; throws with a reason for the operator.
   * `already`: an earlier run had moved all of it.
   */
  readonly migrateStore: (
    dataDir: string,
    url: string,
    progress: (table: string, rows: number) => void,
  ) => Promise<{ readonly already: boolean; readonly rows: number }>;
  /** Puts a backup into an empty data directory; throws with the reason in words. */
  readonly restoreBackup: (source: string, dataDir: string) => Promise<StoredBackup>;
}
