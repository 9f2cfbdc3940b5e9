import assert from 'node:assert/strict';
import type { VoidedHoldRow } from '../ledger.ts';
import { dayOf } from './calendar.ts';
import type { Query, Sql } from '../../lib/sqlite/database.ts';
import type { Payer } from './funds.ts';
import type { Payers } from './grants.ts';
import type { KeyFacts, KeyFinder } from './key-facts.ts';
import type { Moves } from './moves.ts';
import type { Plans } from './plans.ts';

/**
 * A hold as stored. It touches its payer's balance and its key's day of admission by `held`, its period by `planHeld`, and as a free request the account's
 * day of admission; nothing else.
 */
export interface HoldFacts {
  readonly id: number;
  readonly requestId: string;
  readonly accountId: number;
  readonly keyId: number;
  readonly modelId: number;
  readonly free: boolean;
  /** Whose money, where money pays. */
  readonly payer: Payer;
  readonly payers: Payers;
  /** null where no plan pays. */
  readonly periodId: number | null;
  /** Tokens held of the plan, and the output tokens among them. */
  readonly planHeld: number;
  readonly planOutput: number;
  readonly firstSpent: boolean;
  readonly discountPermille: number;
  readonly admittedAtMs: number;
  readonly asked: bigint;
  readonly admitted: bigint;
  /** null: costs nothing. */
  readonly admittedTokens: number | null;
  readonly held: bigint;
  readonly tokens: number | null;
  readonly outputPicoUsd: bigint;
  /** null: the gateway's own. */
  readonly expiresAtMs: number | null;
  /** The command that extended it last, and the tokens it granted. */
  readonly extension: number | null;
  readonly extendedTokens: number | null;
}

/** A new hold: nothing was extended yet. */
export type NewHold = Omit<HoldFacts, 'admitted' | 'admittedTokens' | 'extension' | 'extendedTokens'>;

/** What a hold is given more of. `tokens`: all output tokens held then; `planTokens`: more of the plan; `extension`: the command. */
export interface Extension {
  readonly nanoUsd: bigint;
  readonly planTokens: number;
  readonly tokens: number | null;
  readonly granted: number;
  readonly expiresAtMs: number | null;
  readonly extension: number;
}

/** How a hold ends: what its payers pay. A free request that is not taken is given back. */
export interface Release {
  readonly debit: bigint;
  readonly planTokens: number;
  readonly freeTaken: boolean;
}

const unpaid: Release = { debit: 0n, planTokens: 0, freeTaken: false };

/** Why a hold was given back. */
export type VoidReason = VoidedHoldRow['reason'] | 'rejected' | 'gateway_failure' | 'cancelled';

interface Row {
  id: bigint;
  request_id: string;
  account_id: bigint;
  key_id: bigint;
  model_id: bigint;
  free: bigint;
  payer: Payer;
  admitted_at_ms: bigint;
  asked: bigint;
  admitted: bigint;
  admitted_tokens: bigint | null;
  held: bigint;
  tokens: bigint | null;
  output_pico: bigint;
  expires_at_ms: bigint | null;
  extension: bigint | null;
  extended_tokens: bigint | null;
  payers: Payers;
  period_id: bigint | null;
  plan_held: bigint;
  plan_output: bigint;
  first_spent: bigint;
  discount_permille: bigint;
}

const columns = `id, request_id, account_id, key_id, model_id, free, payer, admitted_at_ms, asked, admitted, admitted_tokens, held, tokens,
  output_pico, expires_at_ms, payers, period_id, plan_held, plan_output, first_spent, discount_permille`;

const numberOrNull = (value: bigint | null): number | null => (value === null ? null : Number(value));

/** The live holds. */
export class Holds {
  readonly #keys: KeyFinder;
  readonly #moves: Moves;
  readonly #plans: Plans;
  readonly #find: Query<[number], Row>;
  readonly #insert: Query<(string | number | bigint | null)[], unknown>;
  readonly #extend: Query<[bigint, number, number, number | null, number | null, number, number, number], unknown>;
  readonly #delete: Query<[number], unknown>;
  readonly #account: Query<[bigint, bigint, number], unknown>;
  readonly #key: Query<[bigint, bigint, number], unknown>;
  readonly #day: Query<[bigint, bigint, bigint, number, number], unknown>;
  readonly #void: Query<[Record<string, string | number | bigint>], unknown>;
  readonly #lastVoid: Query<[number], { reason: VoidReason }>;
  readonly #nextExpiry: Query<[], { at: bigint | null }>;
  readonly #expired: Query<[number], Row>;
  readonly #own: Query<[], Row>;
  #nextExpiryMs: number | undefined;

  constructor(sql: Sql, { keys, moves, plans }: { keys: KeyFinder; moves: Moves; plans: Plans }) {
    this.#keys = keys;
    this.#moves = moves;
    this.#plans = plans;
    this.#find = sql.prepare('SELECT * FROM hold WHERE id = ?');
    // By position: by name costs twice as much.
    this.#insert = sql.prepare(`INSERT INTO hold (${columns}) VALUES (${columns.replaceAll(/\w+/g, '?')})`);
    this.#extend = sql.prepare(
      `UPDATE hold SET held = held + ?, plan_held = plan_held + ?, plan_output = plan_output + ?, tokens = ?, expires_at_ms = ?,
         extension = ?, extended_tokens = ? WHERE id = ?`,
    );
    this.#delete = sql.prepare('DELETE FROM hold WHERE id = ?');
    this.#account = sql.prepare('UPDATE account SET balance = balance - ?, held = held + ? WHERE id = ?');
    this.#key = sql.prepare('UPDATE api_key SET balance = balance - ?, held = held + ? WHERE id = ?');
    this.#day = sql.prepare(
      'UPDATE key_day SET held = held + ?, spent = spent + ?, spent_own = spent_own + ? WHERE key_id = ? AND day = ?',
    );
    this.#void = sql.prepare(
      `INSERT INTO voided (id, account_id, key_id, model_id, free, admitted_at_ms, held, voided_at_ms, reason)
       VALUES (@id, @accountId, @keyId, @modelId, @free, @admittedAtMs, @held, @atMs, @reason)`,
    );
    this.#lastVoid = sql.prepare('SELECT reason FROM voided WHERE id = ? ORDER BY number DESC LIMIT 1');
    this.#nextExpiry = sql.prepare('SELECT min(expires_at_ms) AS at FROM hold WHERE expires_at_ms IS NOT NULL');
    this.#expired = sql.prepare('SELECT * FROM hold WHERE expires_at_ms <= ? ORDER BY expires_at_ms, id');
    this.#own = sql.prepare('SELECT * FROM hold WHERE expires_at_ms IS NULL ORDER BY id');
  }

  find(id: number): HoldFacts | undefined {
    const row = this.#find.get(id);
    return row === undefined ? undefined : factsOf(row);
  }

  /** Stores a hold and raises what it touches; the key's day is raised where the request is counted. */
  place(hold: NewHold): void {
    this.#insert.run(...valuesOf(hold));
    this.#raise(hold, hold.held);
    if (hold.periodId !== null) this.#plans.touch(hold.periodId, { used: 0, held: hold.planHeld });
    if (hold.payers === 'free_request') this.#plans.countFree(hold.accountId, hold.admittedAtMs, 1);
    this.#expiryIs(hold.expiresAtMs);
  }

  /** Holds more. */
  extend(hold: HoldFacts, more: Extension): void {
    const { nanoUsd, planTokens, tokens, granted, expiresAtMs, extension } = more;
    this.#extend.run(nanoUsd, planTokens, planTokens, tokens, expiresAtMs, extension, granted, hold.id);
    this.#raise(hold, nanoUsd);
    if (nanoUsd > 0n) this.#day.run(nanoUsd, 0n, 0n, hold.keyId, dayOf(hold.admittedAtMs));
    if (hold.periodId !== null) this.#plans.touch(hold.periodId, { used: 0, held: planTokens });
    this.#expiryIs(expiresAtMs);
  }

  /** Ends a hold: what it touched is lowered, what its payers pay is taken from them. What a revoked key then has moves to the account. */
  release(hold: HoldFacts, key: KeyFacts, { debit, planTokens, freeTaken }: Release, atMs: number): void {
    this.#delete.run(hold.id);
    if (hold.periodId !== null) this.#plans.touch(hold.periodId, { used: planTokens, held: -hold.planHeld });
    if (hold.payers === 'free_request' && !freeTaken) this.#plans.countFree(hold.accountId, hold.admittedAtMs, -1);
    const own = hold.payer === 'key_balance';
    if (hold.held > 0n || debit > 0n) {
      if (own) this.#key.run(debit, -hold.held, hold.keyId);
      else this.#account.run(debit, -hold.held, hold.accountId);
      this.#day.run(-hold.held, debit, own ? debit : 0n, hold.keyId, dayOf(hold.admittedAtMs));
    }
    if (!own || key.state !== 'revoked' || key.balance === null) return;
    const left = key.balance - debit - (key.held - hold.held);
    this.#moves.toKey(key, -left, atMs);
  }

  /** Gives a hold back. */
  void(hold: HoldFacts, reason: VoidReason, atMs: number): void {
    const key = this.#keys.find({ id: hold.keyId });
    assert(key !== undefined, 'keys are never deleted');
    this.release(hold, key, unpaid, atMs);
    const { id, accountId, keyId, modelId, admittedAtMs, held } = hold;
    this.#void.run({ id, accountId, keyId, modelId, free: hold.free ? 1 : 0, admittedAtMs, held, atMs, reason });
  }

  /** Why the hold of that id was last given back; undefined where it never was. */
  voidedFor(id: number): VoidReason | undefined {
    return this.#lastVoid.get(id)?.reason;
  }

  /** Gives back the holds that have expired by now, so that no command sees one. */
  sweep(nowMs: number): void {
    this.#nextExpiryMs ??= Number(this.#nextExpiry.get()?.at ?? Number.POSITIVE_INFINITY);
    if (nowMs < this.#nextExpiryMs) return;
    for (const row of this.#expired.all(nowMs)) this.void(factsOf(row), 'expired', Number(row.expires_at_ms));
    this.#nextExpiryMs = undefined;
  }

  /** Gives back the gateway's own holds, which a process that is gone has left; answers how many. */
  voidOwn(nowMs: number): number {
    const left = this.#own.all();
    for (const row of left) this.void(factsOf(row), 'restarted', nowMs);
    return left.length;
  }

  /** Forgets what is in memory, because a batch was undone. */
  clear(): void {
    this.#nextExpiryMs = undefined;
  }

  #raise(hold: Pick<HoldFacts, 'payer' | 'accountId' | 'keyId'>, by: bigint): void {
    if (by === 0n) return;
    if (hold.payer === 'key_balance') this.#key.run(0n, by, hold.keyId);
    else this.#account.run(0n, by, hold.accountId);
  }

  #expiryIs(expiresAtMs: number | null): void {
    if (expiresAtMs === null || this.#nextExpiryMs === undefined) return;
    this.#nextExpiryMs = Math.min(this.#nextExpiryMs, expiresAtMs);
  }
}

/** The values of `columns`. */
function valuesOf(hold: NewHold): (string | number | bigint | null)[] {
  const { id, requestId, accountId, keyId, modelId, free, payer, admittedAtMs, asked, held, tokens } = hold;
  const request = [id, requestId, accountId, keyId, modelId, free ? 1 : 0, payer, admittedAtMs];
  const money = [asked, held, tokens, held, tokens, hold.outputPicoUsd, hold.expiresAtMs];
  const plan = [hold.payers, hold.periodId, hold.planHeld, hold.planOutput, hold.firstSpent ? 1 : 0];
  return [...request, ...money, ...plan, hold.discountPermille];
}

function factsOf(row: Row): HoldFacts {
  return {
    id: Number(row.id),
    requestId: row.request_id,
    accountId: Number(row.account_id),
    keyId: Number(row.key_id),
    modelId: Number(row.model_id),
    free: row.free === 1n,
    payer: row.payer,
    admittedAtMs: Number(row.admitted_at_ms),
    asked: row.asked,
    admitted: row.admitted,
    admittedTokens: numberOrNull(row.admitted_tokens),
    held: row.held,
    tokens: numberOrNull(row.tokens),
    outputPicoUsd: row.output_pico,
    expiresAtMs: numberOrNull(row.expires_at_ms),
    extension: numberOrNull(row.extension),
    extendedTokens: numberOrNull(row.extended_tokens),
    payers: row.payers,
    periodId: numberOrNull(row.period_id),
    planHeld: Number(row.plan_held),
    planOutput: Number(row.plan_output),
    firstSpent: row.first_spent === 1n,
    discountPermille: Number(row.discount_permille),
  };
}
