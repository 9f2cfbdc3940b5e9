import type { Step, StepResult } from '../../lib/postgres/connection.ts';
import { toArray } from '../../lib/postgres/values.ts';
import type { Limit, Webhook } from '../rows.ts';
import { RowCodec, type Stored } from '../sqlite/columns.ts';
import { limitTable, webhookTable } from '../sqlite/tables.ts';

/** What of an account changes by its administration alone. */
export interface AccountConfig {
  /** Of `account.config`, or, of account 0, of `operator_config`. */
  readonly version: number;
  /** By `scope id`, each by their ids. */
  readonly limits: ReadonlyMap<string, readonly Limit[]>;
  /** With those that are disabled. */
  readonly webhooks: readonly Webhook[];
  readonly hasGroups: boolean;
}

const limitCodec = new RowCodec(limitTable);
const webhookCodec = new RowCodec(webhookTable);
const accountsMax = 50_000;

/** Configurations as they were last loaded. Each is compared with the version in its account's row, which is read under the account's lock, before it is used. */
export class AccountConfigs {
  readonly #known = new Map<number, AccountConfig>();

  /** Returns a configuration of that version; undefined: it must be loaded. */
  find(accountId: number, version: number): AccountConfig | undefined {
    const known = this.#known.get(accountId);
    return known?.version === version ? known : undefined;
  }

  /** Returns what is known without a look at its version: good for guesses alone. */
  guess(accountId: number): AccountConfig | undefined {
    return this.#known.get(accountId);
  }

  forget(accountId: number): void {
    this.#known.delete(accountId);
  }

  /** Takes what `configSteps` returned for accounts of these versions. */
  take(versions: ReadonlyMap<number, number>, [limits, webhooks, groups]: readonly StepResult[]): void {
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
