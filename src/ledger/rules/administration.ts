import type { Bootstrap, KeySettings, KeyState, NewKey, PlanName, PlanPeriodName } from '../ledger.ts';
import type { Query, Sql } from '../../lib/sqlite/database.ts';
import type { KeyFacts, KeyFinder } from './key-facts.ts';
import type { Moves } from './moves.ts';
import type { Subscriptions } from './subscriptions.ts';
import type { Windows } from './windows.ts';

/** The administrative commands by name, with what each takes. */
export interface AdminCommands {
  createAccount: { name: string; balance: bigint };
  addCredit: { accountId: number; amount: bigint; note: string };
  createKey: NewKey & { settings: KeySettings };
  updateKey: { keyId: number; accountId: number; settings: KeySettings };
  setKeyState: { keyId: number; accountId: number | undefined; state: KeyState };
  setMonthlyLimit: { keyId: number; limit: bigint | undefined };
  createManagementKey: NewKey & { scopes: readonly string[] };
  setManagementKeyScopes: { keyId: number; scopes: readonly string[] };
  setManagementKeyState: { keyId: number; state: KeyState };
  startSubscription: { accountId: number; plan: PlanName; period: PlanPeriodName };
  cancelSubscription: { accountId: number };
  bootstrap: Bootstrap;
}

/**
 * The id of what was made or changed (of a plan its account's), or why nothing was. `conflict`: the account has a plan already; `nothing_to_do`: the
 * ledger has an account already.
 */
export type AdminReply = number | 'not_found' | 'insufficient' | 'conflict' | 'nothing_to_do';

type Writes = Record<keyof AdminCommands, (command: never, nowMs: number) => AdminReply>;

const appliedMax = 1000;

/** What administration stands on. */
export interface AdministrationParts {
  readonly keys: KeyFinder;
  readonly moves: Moves;
  readonly windows: Windows;
  readonly subscriptions: Subscriptions;
}

/** Accounts, keys, credits, plans. Each command has an id of its own and is done once, however often it comes. */
export class Administration {
  readonly #keys: KeyFinder;
  readonly #moves: Moves;
  readonly #windows: Windows;
  readonly #subscriptions: Subscriptions;
  readonly #findApplied: Query<[string], { reply: string }>;
  readonly #addApplied: Query<[string, string], unknown>;
  readonly #pruneApplied: Query<[number], unknown>;
  readonly #account: Query<[number], { balance: bigint; held: bigint }>;
  readonly #anyAccount: Query<[], unknown>;
  readonly #addAccount: Query<[string, number], unknown>;
  readonly #addKey: Query<[number, Uint8Array, string, number], unknown>;
  readonly #settings: Query<[Record<string, string | number | null>], unknown>;
  readonly #state: Query<[KeyState, number], unknown>;
  readonly #monthlyLimit: Query<[bigint | null, number], unknown>;
  readonly #addManagementKey: Query<[number, Uint8Array, string, string, number], unknown>;
  readonly #scopes: Query<[string, number], unknown>;
  readonly #managementState: Query<[KeyState, number], unknown>;

  constructor(sql: Sql, { keys, moves, windows, subscriptions }: AdministrationParts) {
    this.#keys = keys;
    this.#moves = moves;
    this.#windows = windows;
    this.#subscriptions = subscriptions;
    this.#findApplied = sql.prepare('SELECT reply FROM applied WHERE id = ?');
    this.#addApplied = sql.prepare('INSERT INTO applied (id, reply) VALUES (?, ?)');
    this.#pruneApplied = sql.prepare('DELETE FROM applied WHERE number <= ?');
    this.#account = sql.prepare('SELECT balance, held FROM account WHERE id = ?');
    this.#anyAccount = sql.prepare('SELECT 1 FROM account LIMIT 1');
    this.#addAccount = sql.prepare('INSERT INTO account (name, balance, created_at_ms) VALUES (?, 0, ?)');
    this.#addKey = sql.prepare(
      `INSERT INTO api_key (account_id, hash, masked, created_at_ms, state, label, daily_limit, minute_limit, use_subs_first,
         fallback_to_payg) VALUES (?, ?, ?, ?, 'enabled', '', 0, 0, 1, 1)`,
    );
    this.#settings = sql.prepare(
      `UPDATE api_key SET label = coalesce(@label, label), daily_limit = coalesce(@dailyLimit, daily_limit),
         minute_limit = coalesce(@minuteLimit, minute_limit),
         allowed_models = CASE WHEN @modelsChange THEN @allowedModels ELSE allowed_models END,
         use_subs_first = coalesce(@useSubsFirst, use_subs_first),
         fallback_to_payg = coalesce(@fallbackToPayg, fallback_to_payg)
       WHERE id = @id`,
    );
    this.#state = sql.prepare('UPDATE api_key SET state = ? WHERE id = ?');
    this.#monthlyLimit = sql.prepare('UPDATE api_key SET monthly_limit = ? WHERE id = ?');
    this.#addManagementKey = sql.prepare(
      `INSERT INTO management_key (account_id, hash, masked, scopes, created_at_ms, state) VALUES (?, ?, ?, ?, ?, 'enabled')`,
    );
    this.#scopes = sql.prepare(`UPDATE management_key SET scopes = ? WHERE id = ? AND state <> 'revoked'`);
    this.#managementState = sql.prepare(`UPDATE management_key SET state = ? WHERE id = ? AND state <> 'revoked'`);
  }

  /** Does a command once; its repeat is answered as it was the first time. */
  apply<K extends keyof AdminCommands>(id: string, name: K, command: AdminCommands[K], nowMs: number): AdminReply {
    const known = this.#findApplied.get(id);
    if (known !== undefined) return JSON.parse(known.reply) as AdminReply;
    const write: (command: never, nowMs: number) => AdminReply = this.#writes[name];
    const reply = write(command as never, nowMs);
    const { lastInsertRowid } = this.#addApplied.run(id, JSON.stringify(reply));
    this.#pruneApplied.run(Number(lastInsertRowid) - appliedMax);
    return reply;
  }

  readonly #writes: Writes = {
    createAccount: (command: AdminCommands['createAccount'], nowMs) => this.#createAccount(command, nowMs),
    addCredit: (command: AdminCommands['addCredit'], nowMs) => this.#addCredit(command, nowMs),
    createKey: (command: AdminCommands['createKey'], nowMs) => this.#createKey(command, nowMs),
    updateKey: (command: AdminCommands['updateKey'], nowMs) => this.#updateKey(command, nowMs),
    setKeyState: (command: AdminCommands['setKeyState'], nowMs) => this.#setKeyState(command, nowMs),
    setMonthlyLimit: (command: AdminCommands['setMonthlyLimit']) => {
      const key = this.#living(command.keyId, undefined);
      if (key === undefined) return 'not_found';
      this.#monthlyLimit.run(command.limit ?? null, key.id);
      return key.id;
    },
    createManagementKey: (command: AdminCommands['createManagementKey'], nowMs) => {
      const { accountId, hash, masked, scopes } = command;
      if (this.#account.get(accountId) === undefined) return 'not_found';
      return Number(this.#addManagementKey.run(accountId, hash, masked, JSON.stringify(scopes), nowMs).lastInsertRowid);
    },
    setManagementKeyScopes: (command: AdminCommands['setManagementKeyScopes']) =>
      this.#scopes.run(JSON.stringify(command.scopes), command.keyId).changes === 0 ? 'not_found' : command.keyId,
    setManagementKeyState: (command: AdminCommands['setManagementKeyState']) =>
      this.#managementState.run(command.state, command.keyId).changes === 0 ? 'not_found' : command.keyId,
    startSubscription: (command: AdminCommands['startSubscription'], nowMs) =>
      this.#subscriptions.start(command, nowMs),
    cancelSubscription: (command: AdminCommands['cancelSubscription']) => this.#subscriptions.cancel(command.accountId),
    bootstrap: (command: Bootstrap, nowMs) => this.#bootstrap(command, nowMs),
  };

  #createAccount(command: AdminCommands['createAccount'], nowMs: number): number {
    const accountId = Number(this.#addAccount.run(command.name, nowMs).lastInsertRowid);
    this.#moves.credit(accountId, command.balance, 'first balance', nowMs);
    return accountId;
  }

  #addCredit(command: AdminCommands['addCredit'], nowMs: number): AdminReply {
    const { accountId, amount, note } = command;
    const account = this.#account.get(accountId);
    if (account === undefined) return 'not_found';
    if (account.balance - account.held + amount < 0n && amount < 0n) return 'insufficient';
    this.#moves.credit(accountId, amount, note, nowMs);
    return accountId;
  }

  #createKey(command: AdminCommands['createKey'], nowMs: number): AdminReply {
    const { accountId, hash, masked, settings } = command;
    const account = this.#account.get(accountId);
    if (account === undefined) return 'not_found';
    const own = settings.balance ?? 0n;
    if (own < 0n || own > account.balance - account.held) return 'insufficient';
    const keyId = Number(this.#addKey.run(accountId, hash, masked, nowMs).lastInsertRowid);
    const key = this.#living(keyId, accountId);
    return key === undefined ? 'not_found' : this.#change(key, settings, nowMs);
  }

  #updateKey(command: AdminCommands['updateKey'], nowMs: number): AdminReply {
    const key = this.#living(command.keyId, command.accountId);
    return key === undefined ? 'not_found' : this.#change(key, command.settings, nowMs);
  }

  #change(key: KeyFacts, settings: KeySettings, nowMs: number): AdminReply {
    const { balance, allowedModels } = settings;
    if (balance !== undefined && this.#moves.setKeyBalance(key, balance, nowMs) === 'insufficient')
      return 'insufficient';
    this.#settings.run({
      id: key.id,
      label: settings.label ?? null,
      dailyLimit: settings.dailyLimit ?? null,
      minuteLimit: settings.minuteLimit ?? null,
      modelsChange: allowedModels === undefined ? 0 : 1,
      allowedModels: allowedModels === undefined || allowedModels === null ? null : JSON.stringify(allowedModels),
      useSubsFirst: flag(settings.useSubsFirst),
      fallbackToPayg: flag(settings.fallbackToPayg),
    });
    this.#windows.forget(key.id);
    return key.id;
  }

  #setKeyState(command: AdminCommands['setKeyState'], nowMs: number): AdminReply {
    const key = this.#living(command.keyId, command.accountId);
    if (key === undefined) return 'not_found';
    this.#state.run(command.state, key.id);
    // What a hold covers stays until that ends.
    if (command.state === 'revoked' && key.balance !== null) this.#moves.toKey(key, key.held - key.balance, nowMs);
    return key.id;
  }

  #bootstrap(command: Bootstrap, nowMs: number): AdminReply {
    if (this.#anyAccount.get() !== undefined) return 'nothing_to_do';
    const { accountName: name, balance, apiKey, managementKey } = command;
    const accountId = this.#createAccount({ name, balance }, nowMs);
    this.#addKey.run(accountId, apiKey.hash, apiKey.masked, nowMs);
    const { hash, masked, scopes } = managementKey;
    this.#addManagementKey.run(accountId, hash, masked, JSON.stringify(scopes), nowMs);
    return accountId;
  }

  /** A key that is not revoked, of that account where one is named. */
  #living(keyId: number, accountId: number | undefined): KeyFacts | undefined {
    const key = this.#keys.find({ id: keyId });
    const other = accountId !== undefined && key?.accountId !== accountId;
    return key === undefined || key.state === 'revoked' || other ? undefined : key;
  }
}

function flag(value: boolean | undefined): number | null {
  return value === undefined ? null : Number(value);
}
