import type { LimitFilter, LimitScope } from '../ledger.ts';
import type { Limit } from '../rows.ts';
import { CachedTable } from './cached-table.ts';
import type { Query } from '../../lib/sqlite/database.ts';
import type { Sql } from './sql.ts';
import { limitTable } from './tables.ts';

/** The most scopes whose limits are cached. */
const scopesMax = 50_000;

/** The table of limits; finds them by id or by scope. */
export class LimitTable {
  readonly #rows: CachedTable<Limit>;
  readonly #scopes: Readonly<Record<LimitScope, Map<number, readonly Limit[]>>> = {
    key: new Map(),
    group: new Map(),
    account: new Map(),
  };
  readonly #find: Query<[string, number], { id: bigint }>;
  readonly #findAll: Query<[number], { id: bigint }>;

  constructor(sql: Sql) {
    this.#rows = new CachedTable(sql, limitTable);
    this.#find = sql.prepare('SELECT id FROM usage_limit WHERE scope = ? AND scope_id = ? AND removed = 0');
    this.#findAll = sql.prepare('SELECT id FROM usage_limit WHERE account_id = ? AND removed = 0');
  }

  get(id: number): Limit | undefined {
    return this.#rows.get(id);
  }

  put(limit: Limit): void {
    this.#rows.put(limit);
    this.#scopes[limit.scope].delete(limit.scopeId);
  }

  /** Returns the limits of a scope that are not removed, by id. */
  of(scope: LimitScope, scopeId: number): readonly Limit[] {
    const known = this.#scopes[scope].get(scopeId);
    if (known !== undefined) return known;
    const ids = new Set(this.#find.all(scope, scopeId).map(({ id }) => Number(id)));
    for (const { id, ...limit } of this.#rows.changed()) {
      if (limit.scope === scope && limit.scopeId === scopeId) ids.add(id);
    }
    const limits = [...ids].sort((a, b) => a - b).flatMap(id => this.#rows.get(id) ?? []);
    const found = limits.filter(({ removed }) => !removed);
    if (this.#scopes[scope].size >= scopesMax) this.#scopes[scope].clear();
    this.#scopes[scope].set(scopeId, found);
    return found;
  }

  /** Returns the limits of an account, or of one scope, as the file has them: without changes that are not written yet. */
  list({ accountId, scope, scopeId }: LimitFilter): readonly Limit[] {
    const limits = this.#findAll.all(accountId).flatMap(({ id }) => this.#rows.get(Number(id)) ?? []);
    return limits.filter(
      limit => (scope ?? limit.scope) === limit.scope && (scopeId ?? limit.scopeId) === limit.scopeId,
    );
  }

  write(): void {
    this.#rows.write();
  }

  settle(): void {
    this.#rows.settle();
  }

  clear(): void {
    this.#rows.clear();
    for (const scopes of Object.values(this.#scopes)) scopes.clear();
  }
}
