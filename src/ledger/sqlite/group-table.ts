import type { Query } from '../../lib/sqlite/database.ts';
import type { Group } from '../rows.ts';
import { CachedTable } from './cached-table.ts';
import type { Sql } from './sql.ts';
import { groupTable } from './tables.ts';

/** The table of groups; finds them by id or by account. */
export class GroupTable {
  readonly #rows: CachedTable<Group>;
  readonly #find: Query<[number], { id: bigint }>;

  constructor(sql: Sql) {
    this.#rows = new CachedTable(sql, groupTable);
    this.#find = sql.prepare('SELECT id FROM key_group WHERE account_id = ? AND removed = 0');
  }

  get(id: number): Group | undefined {
    return this.#rows.get(id);
  }

  put(group: Group): void {
    this.#rows.put(group);
  }

  /** Returns the groups of an account that were not removed, in the order of their ids. */
  of(accountId: number): readonly Group[] {
    const stored = this.#find.all(accountId).map(({ id }) => Number(id));
    const changed = this.#rows.changed().filter(group => group.accountId === accountId);
    const ids = new Set([...stored, ...changed.map(({ id }) => id)]);
    const groups = [...ids].sort((a, b) => a - b).flatMap(id => this.#rows.get(id) ?? []);
    return groups.filter(({ removed }) => !removed);
  }

  write(): void {
    this.#rows.write();
  }

  settle(): void {
    this.#rows.settle();
  }

  clear(): void {
    this.#rows.clear();
  }
}
