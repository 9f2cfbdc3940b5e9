import type { Environment } from '../config/env.ts';
import type { Config } from '../config/settings.ts';
import type { Streams } from './output.ts';

/** A backup that was made or restored. */
export interface StoredBackup {
  /** The version of Tollgate that made it. */
  readonly tollgate: string;
  /** The time of the state that the backup contains, in ISO 8601. */
  readonly createdAt: string;
  readonly files: number;
  readonly bytes: number;
}

/** The rights that a restore has ended because they ended after the backup; undefined as a whole: an older version wrote the backup, and nothing was done. */
export interface RevokedSince {
  /** The data directory that was asked which keys still work; undefined: none was found. */
  readonly asked: string | undefined;
  readonly disabledKeys: number;
  readonly rotatedKeys: number;
  readonly endedSessions: number;
}

/** The outside of the command line; `main.ts` provides it. */
export interface CommandLinePorts {
  readonly streams: Streams;
  /** Reads the environment variables; throws `ConfigError`. Not called if only help is printed. */
  readonly environment: () => Environment;
  /**
   * Runs the gateway until it has stopped, and returns the exit code. `configPath` is `--config`, `workers` is
   * `--workers`. Throws `ConfigError`.
   */
  readonly serve: (options: { readonly configPath?: string; readonly workers?: string }) => Promise<number>;
  /** Reads and checks a configuration file; `path` undefined means the one that `serve` would use. Throws `ConfigError`. */
  readonly loadConfig: (path: string | undefined) => Promise<Config>;
  /**
   * Runs a program with the given environment until it ends, and returns its exit code; throws `CommandFailure` if it can't be started.
   */
  readonly runProgram: (command: readonly string[], env: Readonly<Record<string, string>>) => Promise<number>;
  /** Opens an address in the user's browser, if there is one. Returns at once, and never throws. */
  readonly openBrowser: (url: string) => void;
  /**
   * Returns the violated invariants of a data directory's ledger, in words; throws if there is no ledger. Works while a gateway runs.
   */
  readonly verifyLedger: (dataDir: string) => readonly string[] | Promise<readonly string[]>;
  /** Backs up a data directory to a new folder; throws with a reason for the operator. Works while a gateway runs. */
  readonly makeBackup: (dataDir: string, target: string) => Promise<StoredBackup>;
  /**
   * Moves the data directory of a stopped gateway to a PostgreSQL database, and reports each table. `already`: an earlier run had moved
   * everything. Throws with a reason for the operator.
   */
  readonly migrateStore: (
    dataDir: string,
    url: string,
    progress: (table: string, rows: number) => void,
  ) => Promise<{ readonly already: boolean; readonly rows: number }>;
  /**
   * Restores a backup into an empty data directory, and disables the keys that no longer work in `oldDataDir` (absent: the data directory
   * whose folder `backups` has the backup, if any); throws with a reason for the operator.
   */
  readonly restoreBackup: (
    source: string,
    dataDir: string,
    oldDataDir: string | undefined,
  ) => Promise<StoredBackup & { readonly revoked: RevokedSince | undefined }>;
}
