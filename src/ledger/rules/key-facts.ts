import assert from 'node:assert/strict';
import type { KeyState } from '../ledger.ts';
import type { Query, Sql } from '../../lib/sqlite/database.ts';

/** What the writer decides on about a key: always read anew, so that every change holds from the next command on. */
export interface KeyFacts {
  readonly id: number;
  readonly accountId: number;
  readonly state: KeyState;
  readonly dailyLimit: number;
  readonly minuteLimit: number;
  readonly monthlyLimit: bigint | null;
  readonly allowedModels: readonly string[] | null;
  /** null: spends from the account. */
  readonly balance: bigint | null;
  readonly held: bigint;
  /** The plan pays before money. */
  readonly useSubsFirst: boolean;
  /** Money pays at all. */
  readonly fallbackToPayg: boolean;
  /** The live period of the account's plan; null: it has none. */
  readonly periodId: number | null;
  readonly accountBalance: bigint;
  readonly accountHeld: bigint;
}

interface Row {
  id: bigint;
  account_id: bigint;
  state: KeyState;
  daily_limit: bigint;
  minute_limit: bigint;
  monthly_limit: bigint | null;
  allowed_models: string | null;
  balance: bigint | null;
  held: bigint;
  use_subs_first: bigint;
  fallback_to_payg: bigint;
}

interface AccountRow {
  balance: bigint;
  held: bigint;
  period_id: bigint | null;
}

const columns = `id, account_id, state, daily_limit, minute_limit, monthly_limit, allowed_models, balance, held, use_subs_first,
  fallback_to_payg`;

/** Finds keys for the writer, revoked ones included. */
export class KeyFinder {
  readonly #byHash: Query<[Uint8Array], Row>;
  readonly #byId: Query<[number], Row>;
  readonly #account: Query<[bigint], AccountRow>;
  readonly #managementKey: Query<[Uint8Array], { state: KeyState }>;

  constructor(sql: Sql) {
    // Two point reads and no join: a join costs five times as much here (5 us, measured with SQLite 3.54).
    this.#byHash = sql.prepare(`SELECT ${columns} FROM api_key WHERE hash = ?`);
    this.#byId = sql.prepare(`SELECT ${columns} FROM api_key WHERE id = ?`);
    this.#account = sql.prepare('SELECT balance, held, period_id FROM account WHERE id = ?');
    this.#managementKey = sql.prepare('SELECT state FROM management_key WHERE hash = ?');
  }

  find(key: { readonly hash: Uint8Array } | { readonly id: number }): KeyFacts | undefined {
    const row = 'hash' in key ? this.#byHash.get(key.hash) : this.#byId.get(key.id);
    if (row === undefined) return undefined;
    const account = this.#account.get(row.account_id);
    assert(account !== undefined, 'a key has an account');
    return factsOf(row, account);
  }

  /** The state of the management key with that hash; undefined where none has it. */
  managementKeyState(hash: Uint8Array): KeyState | undefined {
    return this.#managementKey.get(hash)?.state;
  }
}

function factsOf(row: Row, account: AccountRow): KeyFacts {
  return {
    id: Number(row.id),
    accountId: Number(row.account_id),
    state: row.state,
    dailyLimit: Number(row.daily_limit),
    minuteLimit: Number(row.minute_limit),
    monthlyLimit: row.monthly_limit,
    allowedModels: modelList(row.allowed_models),
    balance: row.balance,
    held: row.held,
    useSubsFirst: row.use_subs_first === 1n,
    fallbackToPayg: row.fallback_to_payg === 1n,
    periodId: account.period_id === null ? null : Number(account.period_id),
    accountBalance: account.balance,
    accountHeld: account.held,
  };
}

/** A stored list of model ids; null allows all. */
export function modelList(stored: string | null): string[] | null {
  return stored === null ? null : (JSON.parse(stored) as string[]);
}
