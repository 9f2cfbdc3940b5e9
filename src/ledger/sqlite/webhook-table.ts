import type { Query } from '../../lib/sqlite/database.ts';
import type { Webhook } from '../rows.ts';
import { CachedTable } from './cached-table.ts';
import type { Sql } from './sql.ts';
import { webhookTable } from './tables.ts';

/** The most accounts whose webhooks are cached. */
const accountsMax = 50_000;

/** The table of webhooks; finds them by id or by account. */
export class WebhookTable {
  readonly #rows: CachedTable<Webhook>;
  readonly #accounts = new Map<number, readonly Webhook[]>();
  readonly #find: Query<[number], { id: bigint }>;

  constructor(sql: Sql) {
    this.#rows = new CachedTable(sql, webhookTable);
    this.#find = sql.prepare('SELECT id FROM webhook WHERE account_id = ? AND removed = 0');
  }

  get(id: number): Webhook | undefined {
    return this.#rows.get(id);
  }

  put(webhook: Webhook): void {
    this.#rows.put(webhook);
    this.#accounts.delete(webhook.accountId);
  }

  /** Returns the webhooks of an account that receive events, by id. */
  of(accountId: number): readonly Webhook[] {
    const known = this.#accounts.get(accountId);
    if (known !== undefined) return known;
    const found = this.all(accountId).filter(({ disabled }) => !disabled);
    if (this.#accounts.size >= accountsMax) this.#accounts.clear();
    this.#accounts.set(accountId, found);
    return found;
  }

  /** Returns the webhooks of an account that are not removed, by id. */
  all(accountId: number): readonly Webhook[] {
    const stored = this.#find.all(accountId).map(({ id }) => Number(id));
    const changed = this.#rows.changed().filter(webhook => webhook.accountId === accountId);
    const ids = new Set([...stored, ...changed.map(({ id }) => id)]);
    const webhooks = [...ids].sort((a, b) => a - b).flatMap(id => this.#rows.get(id) ?? []);
    return webhooks.filter(({ removed }) => !removed);
  }

  write(): void {
    this.#rows.write();
  }

  settle(): void {
    this.#rows.settle();
  }

  clear(): void {
    this.#rows.clear();
    this.#accounts.clear();
  }
}
