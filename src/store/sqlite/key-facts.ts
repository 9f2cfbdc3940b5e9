import type { KeyState } from '../ledger.ts';
import type { Query, Sql } from './database.ts';

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
  account_balance: bigint;
  account_held: bigint;
}

const columns = `k.id, k.account_id, k.state, k.daily_limit, k.minute_limit, k.monthly_limit, k.allowed_models, k.balance, k.held,
  a.balance AS account_balance, a.held AS account_held`;

/** Finds keys for the writer, revoked ones included. */
export class KeyFinder {
  readonly #byHash: Query<[Uint8Array], Row>;
  readonly #byId: Query<[number], Row>;
  readonly #managementKey: Query<[Uint8Array], { state: KeyState }>;

  constructor(sql: Sql) {
    const from = `SELECT ${columns} FROM api_key k JOIN account a ON a.id = k.account_id`;
    this.#byHash = sql.prepare(`${from} WHERE k.hash = ?`);
    this.#byId = sql.prepare(`${from} WHERE k.id = ?`);
    this.#managementKey = sql.prepare('SELECT state FROM management_key WHERE hash = ?');
  }

  find(key: { readonly hash: Uint8Array } | { readonly id: number }): KeyFacts | undefined {
    const row = 'hash' in key ? this.#byHash.get(key.hash) : this.#byId.get(key.id);
    return row === undefined ? undefined : factsOf(row);
  }

  /** The state of the management key with that hash; undefined where none has it. */
  managementKeyState(hash: Uint8Array): KeyState | undefined {
    return this.#managementKey.get(hash)?.state;
  }
}

function factsOf(row: Row): KeyFacts {
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
    accountBalance: row.account_balance,
    accountHeld: row.account_held,
  };
}

/** A stored list of model ids; null allows all. */
export function modelList(stored: string | null): string[] | null {
  return stored === null ? null : (JSON.parse(stored) as string[]);
}
