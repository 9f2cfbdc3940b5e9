import type { Step, StepResult } from '../../lib/postgres/connection.ts';
import { toArray } from '../../lib/postgres/values.ts';
import type { Limit, Webhook } from '../rows.ts';
import { RowCodec, type Stored } from '../sqlite/columns.ts';
import { limitTable, webhookTable } from '../sqlite/tables.ts';

/** The data of an account that only administrative commands change. */
export interface AccountConfig {
  /** The value of `account.config`; for account 0 that of `operator_config`. */
  readonly version: number;
  /** The limits of each scope, by id. The key is `scope id`, for example `key 7`. */
  readonly limits: ReadonlyMap<string, readonly Limit[]>;
  /** Includes disabled ones. */
  readonly webhooks: readonly Webhook[];
  readonly hasGroups: boolean;
}

const limitCodec = new RowCodec(limitTable);
const webhookCodec = new RowCodec(webhookTable);
const accountsMax = 50_000;

/** Caches configurations of accounts. Before one is used, its version is compared with that in the account's row, which is read while the account is locked. */
export class AccountConfigs {
  readonly #known = new Map<number, AccountConfig>();

  /** Returns the configuration if the cached one has this version; else undefined: it must be loaded. */
  find(accountId: number, version: number): AccountConfig | undefined {
    const known = this.#known.get(accountId);
    return known?.version === version ? known : undefined;
  }

  /** Returns the cached configuration, which may be out of date: only for guesses at what to load. */
  guess(accountId: number): AccountConfig | undefined {
    return this.#known.get(accountId);
  }

  forget(accountId: number): void {
    this.#known.delete(accountId);
  }

  /** Caches the results of `configSteps` for accounts with these versions. */
  addLoaded(versions: ReadonlyMap<number, number>, [limits, webhooks, groups]: readonly StepResult[]): void {
    if (this.#known.size > accountsMax) this.#known.clear();
    const ofAccount = Map.groupBy(
      (limits?.rows ?? []).map(row => limitCodec.read(row as Stored[])),
      ({ accountId }) => accountId,
    );
    const hooks = Map.groupBy(
      (webhooks?.rows ?? []).map(row => webhookCodec.read(row as Stored[])),
      ({ accountId }) => accountId,
    );
    const grouped = new Set((groups?.rows ?? []).map(([id]) => Number(id)));
    for (const [accountId, version] of versions) {
      const byScope = Map.groupBy(ofAccount.get(accountId) ?? [], ({ scope, scopeId }) => `${scope} ${scopeId}`);
      const config = { limits: byScope, webhooks: hooks.get(accountId) ?? [], hasGroups: grouped.has(accountId) };
      this.#known.set(accountId, { version, ...config });
    }
  }
}

/** Returns the statements that load the configuration of accounts. */
export function configSteps(accounts: Iterable<number>): Step[] {
  const values = [toArray(accounts)];
  const where = 'WHERE account_id = ANY($1::bigint[]) AND removed = 0';
  return [
    { text: `SELECT ${limitCodec.names.join(', ')} FROM usage_limit ${where} ORDER BY id`, values },
    { text: `SELECT ${webhookCodec.names.join(', ')} FROM webhook ${where} ORDER BY id`, values },
    { text: `SELECT DISTINCT account_id FROM key_group ${where}`, values },
  ];
}
