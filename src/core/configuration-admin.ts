import type { AdminService } from '../gen/tollgate/v1/admin_pb.ts';
import { invalidField } from './account-fields.ts';
import { defined } from '../lib/defined.ts';
import type { PushedService } from '../lib/pushed-service.ts';

/** The configuration in use, as the operator sees it. */
export interface DescribedConfiguration {
  /** '' if there is no file. */
  readonly file: string;
  readonly readAtMs: number;
  /** A JSON object without secrets. */
  readonly settings: string;
  /** Changed keys of the file that take effect only after a restart. */
  readonly needsRestart: readonly string[];
}

/** The problems of a configuration; if it has none, what it would change. */
export interface CheckedConfiguration {
  readonly problems: readonly { readonly line?: number; readonly path: string; readonly message: string }[];
  readonly providers: number;
  readonly models: number;
  /** The changed settings, with their values as JSON; undefined: the setting is absent there. */
  readonly changes: readonly {
    readonly path: string;
    readonly before: string | undefined;
    readonly after: string | undefined;
  }[];
  readonly needsRestart: readonly string[];
}

/** How many bytes the gateway stores, and for how long. */
export interface StorageState {
  readonly engine: 'sqlite' | 'postgres';
  readonly dataDir: string;
  readonly freeBytes: number;
  readonly totalBytes: number;
  /** Why nothing can be written; undefined: it can. */
  readonly problem: string | undefined;
  readonly parts: readonly { readonly name: string; readonly bytes: number }[];
  /** `setting`: the key of the configuration; '' if there is none. */
  readonly retention: readonly { readonly name: string; readonly lifetimeMs: number; readonly setting: string }[];
}

/** The result of a check of the ledger. */
export interface LedgerCheck {
  /** In words; empty: all invariants hold. */
  readonly violations: readonly string[];
  readonly startedAtMs: number;
  readonly durationMs: number;
}

/** How the methods read the configuration, the storage and the state of the ledger. */
export interface ConfigurationAdminOptions {
  readonly configuration: {
    readonly describe: () => DescribedConfiguration;
    readonly check: (text: string) => Promise<CheckedConfiguration>;
  };
  readonly readStorage: () => Promise<StorageState>;
  readonly verifyLedger: () => Promise<LedgerCheck>;
}

type Methods = Pick<
  PushedService<typeof AdminService>,
  'getConfiguration' | 'checkConfiguration' | 'getStorage' | 'verifyLedger'
>;

/** The most characters of a checked text: parsing YAML takes about a second of CPU time for a million. */
const textMax = 262_144;
/** The most differences that one reply has. */
const changesMax = 1_000;

/** The methods of AdminService that show the configuration and the storage, and that check the ledger's invariants. */
export function configurationAdmin({ configuration, readStorage, verifyLedger }: ConfigurationAdminOptions): Methods {
  return {
    getConfiguration() {
      const { file, readAtMs, settings, needsRestart } = configuration.describe();
      return { file, readAtMs: BigInt(readAtMs), settingsJson: settings, needsRestart: [...needsRestart] };
    },
    async checkConfiguration({ text }) {
      if (text.length > textMax) {
        const message = `must have at most ${textMax} characters; check a larger file with \`tollgate config check FILE\``;
        throw invalidField('text', message);
      }
      const { problems, changes, needsRestart, ...counts } = await configuration.check(text);
      return {
        ...counts,
        problems: problems.map(({ line = 0, path, message }) => ({ line, path, message })),
        changes: changes.slice(0, changesMax).map(change => defined(change)),
        changeCount: changes.length,
        needsRestart: [...needsRestart],
      };
    },
    async getStorage() {
      const { freeBytes, totalBytes, problem = '', parts, retention, ...where } = await readStorage();
      return {
        ...where,
        freeBytes: BigInt(freeBytes),
        totalBytes: BigInt(totalBytes),
        problem,
        parts: parts.map(({ name, bytes }) => ({ name, bytes: BigInt(bytes) })),
        retention: retention.map(({ lifetimeMs, ...rest }) => ({ ...rest, lifetimeMs: BigInt(lifetimeMs) })),
      };
    },
    async verifyLedger() {
      const { violations, startedAtMs, durationMs } = await verifyLedger();
      return {
        violations: [...violations],
        startedAtMs: BigInt(startedAtMs),
        durationMs: BigInt(Math.round(durationMs)),
      };
    },
  };
}
