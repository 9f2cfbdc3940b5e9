import assert from 'node:assert/strict';
import type { VoidedHoldRow } from '../ledger.ts';
import { dayOf } from './calendar.ts';
import type { Query, Sql } from './database.ts';
import type { Payer } from './funds.ts';
import type { KeyFacts, KeyFinder } from './key-facts.ts';
import type { Moves } from './moves.ts';

/** A hold as stored. It touches its payer's balance and its key's day of admission by `held`, and nothing else. */
export interface HoldFacts {
  readonly id: number;
  readonly requestId: string;
  readonly accountId: number;
  readonly keyId: number;
  readonly modelId: number;
  readonly free: boolean;
  readonly payer: Payer;
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
}

const numberOrNull = (value: bigint | null): number | null => (value === null ? null : Number(value));

/** The live holds. */
export class Holds {
  readonly #keys: KeyFinder;
  readonly #moves: Moves;
  readonly #find: Query<[number], Row>;
  readonly #insert: Query<[Record<string, string | number | bigint | null>], unknown>;
  readonly #extend: Query<[bigint, number | null, number | null, number, number, number], unknown>;
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

  constructor(sql: Sql, keys: KeyFinder, moves: Moves) {
    this.#keys = keys;
    this.#moves = moves;
    this.#find = sql.prepare('SELECT * FROM hold WHERE id = ?');
    this.#insert = sql.prepare(
      `INSERT INTO hold (id, request_id, account_id, key_id, model_id, free, payer, admitted_at_ms, asked, admitted,
         admitted_tokens, held, tokens, output_pico, expires_at_ms)
       VALUES (@id, @requestId, @accountId, @keyId, @modelId, @free, @payer, @admittedAtMs, @asked, @held,
         @tokens, @held, @tokens, @outputPicoUsd, @expiresAtMs)`,
    );
    this.#extend = sql.prepare(
      `UPDATE hold SET held = held + ?, tokens = ?, expires_at_ms = ?, extension = ?, extended_tokens = ? WHERE id = ?`,
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

  /** Stores a hold and raises its payer's `held`; the key's day is raised where the request is counted. */
  place(hold: NewHold): void {
    this.#insert.run({ ...hold, free: hold.free ? 1 : 0 });
    this.#raise(hold, hold.held);
    this.#expiryIs(hold.expiresAtMs);
  }

  /** Holds more. `tokens`: all of them; `extension`: the command. */
  extend(
    hold: HoldFacts,
    more: { by: bigint; tokens: number | null; granted: number; expiresAtMs: number | null; extension: number },
  ): void {
    this.#extend.run(more.by, more.tokens, more.expiresAtMs, more.extension, more.granted, hold.id);
    this.#raise(hold, more.by);
    if (more.by > 0n) this.#day.run(more.by, 0n, 0n, hold.keyId, dayOf(hold.admittedAtMs));
    this.#expiryIs(more.expiresAtMs);
  }

  /** Ends a hold: what it touched is lowered, `debit` is taken from its payer. What a revoked key then has moves to the account. */
  release(hold: HoldFacts, key: KeyFacts, debit: bigint, atMs: number): void {
    this.#delete.run(hold.id);
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
    this.release(hold, key, 0n, atMs);
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
  };
}
