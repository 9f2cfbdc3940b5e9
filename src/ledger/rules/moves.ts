import type { Query, Sql } from '../../lib/sqlite/database.ts';
import type { KeyFacts } from './key-facts.ts';

/** Money that moves without a request: each move is an entry, and takes only what no hold covers. */
export class Moves {
  readonly #entry: Query<[string, number, number | null, bigint, number | null, string, number], unknown>;
  readonly #planPrice: Query<[number, bigint, number, number], unknown>;
  readonly #toAccount: Query<[bigint, number], unknown>;
  readonly #toKey: Query<[bigint, number], unknown>;
  readonly #unsetKey: Query<[number], unknown>;

  constructor(sql: Sql) {
    this.#entry = sql.prepare(
      'INSERT INTO entry (kind, account_id, key_id, amount, usage_id, note, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)',
    );
    this.#planPrice = sql.prepare(
      `INSERT INTO entry (kind, account_id, amount, period_id, note, at_ms) VALUES ('plan_price', ?, ?, ?, '', ?)`,
    );
    this.#toAccount = sql.prepare('UPDATE account SET balance = balance + ? WHERE id = ?');
    this.#toKey = sql.prepare('UPDATE api_key SET balance = coalesce(balance, 0) + ? WHERE id = ?');
    this.#unsetKey = sql.prepare('UPDATE api_key SET balance = NULL WHERE id = ?');
  }

  /** Adds to an account, or takes from it where negative. The caller has seen that it may. */
  credit(accountId: number, amount: bigint, note: string, atMs: number): void {
    if (amount === 0n) return;
    this.#toAccount.run(amount, accountId);
    this.#entry.run('credit', accountId, null, amount, null, note, atMs);
  }

  /** Gives a key that balance of its own, null: none; `insufficient` where that takes what a hold covers or nobody has. */
  setKeyBalance(key: KeyFacts, balance: bigint | null, atMs: number): 'moved' | 'insufficient' {
    const amount = (balance ?? 0n) - (key.balance ?? 0n);
    const covered = amount > 0n ? key.accountBalance - key.accountHeld : (key.balance ?? 0n) - key.held;
    if ((amount > 0n ? amount : -amount) > covered) return 'insufficient';
    this.toKey(key, amount, atMs);
    if (balance === null) this.#unsetKey.run(key.id);
    return 'moved';
  }

  /** Moves an amount from the account to the key, or back where negative. The caller has seen that no hold covers it. */
  toKey(key: Pick<KeyFacts, 'id' | 'accountId'>, amount: bigint, atMs: number): void {
    this.#toKey.run(amount, key.id);
    if (amount === 0n) return;
    this.#toAccount.run(-amount, key.accountId);
    this.#entry.run('move', key.accountId, key.id, amount, null, '', atMs);
  }

  /** Debits a plan's price for a period. The caller has seen that the account can pay it. */
  planPrice(accountId: number, periodId: number, price: bigint, atMs: number): void {
    if (price === 0n) return;
    this.#toAccount.run(-price, accountId);
    this.#planPrice.run(accountId, price, periodId, atMs);
  }

  /** Records what a settled request cost and nobody paid. */
  writeOff(key: KeyFacts, usageId: number, amount: bigint, atMs: number): void {
    if (amount > 0n) this.#entry.run('write_off', key.accountId, key.id, amount, usageId, '', atMs);
  }
}
