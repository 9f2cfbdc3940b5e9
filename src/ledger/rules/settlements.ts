import assert from 'node:assert/strict';
import { type CostLine, costLines, costOf, shareLines, tokensOf, tokensWithin } from '../../generation/price.ts';
import type { RecordState, SettleCommand, Settled, UsageBuckets } from '../ledger.ts';
import { dayOf, hourOf } from './calendar.ts';
import type { Query, Sql } from '../../lib/sqlite/database.ts';
import type { Dictionary } from '../sqlite/dictionary.ts';
import { drawsOnMoney, type Payers, type Sources } from './grants.ts';
import type { HoldFacts, Holds, VoidReason } from './holds.ts';
import type { KeyFinder } from './key-facts.ts';
import type { Moves } from './moves.ts';
import { type Payments, sourcesOf } from './payments.ts';

/** What settlements stand on. */
export interface SettlementParts {
  readonly sql: Sql;
  readonly keys: KeyFinder;
  readonly payments: Payments;
  readonly holds: Holds;
  readonly moves: Moves;
  readonly dictionary: Dictionary;
}

interface Stored {
  state: RecordState;
  input: bigint;
  cache_read: bigint;
  cache_write_5m: bigint;
  cache_write_1h: bigint;
  output: bigint;
  reasoning: bigint;
  images: bigint;
  cost: bigint;
  written_off: bigint;
  payers: Payers;
  plan_tokens: bigint;
  discount_permille: bigint;
}

type Value = string | number | bigint | null;

// Values are bound by position: by name costs twice as much.
const usageColumns = `id, request_id, account_id, key_id, model_id, free, external, payer, created_at_ms, state, usage_source,
  service_tier, input, cache_read, cache_write_5m, cache_write_1h, output, reasoning, images, cost, written_off, price_id,
  multiplier_permille, latency_ms, first_event_ms, provider, attempts, asked, admitted, admitted_tokens, expires_at_ms, payers,
  period_id, plan_tokens, discount_permille`;
const sumColumns = `requests, failed, input, cache_read, cache_write_5m, cache_write_1h, output, reasoning, images, cost, written_off,
  latency_ms`;
/** Raises the sums of a period and a group by one usage row. */
const raiseSums = `INSERT INTO usage_sum (account_id, period, grouped, number, group_id, ${sumColumns})
  VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET requests = requests + 1, failed = failed + excluded.failed, input = input + excluded.input,
    cache_read = cache_read + excluded.cache_read, cache_write_5m = cache_write_5m + excluded.cache_write_5m,
    cache_write_1h = cache_write_1h + excluded.cache_write_1h, output = output + excluded.output,
    reasoning = reasoning + excluded.reasoning, images = images + excluded.images, cost = cost + excluded.cost,
    written_off = written_off + excluded.written_off, latency_ms = latency_ms + excluded.latency_ms`;

/** Ends requests: by a charge or by giving the hold back, once. */
export class Settlements {
  readonly #parts: SettlementParts;
  readonly #find: Query<[number], Stored>;
  readonly #usage: Query<Value[], unknown>;
  readonly #sums: Query<Value[], unknown>;

  constructor(parts: SettlementParts) {
    this.#parts = parts;
    this.#find = parts.sql.prepare(
      `SELECT state, input, cache_read, cache_write_5m, cache_write_1h, output, reasoning, images, cost, written_off, payers,
         plan_tokens, discount_permille FROM usage WHERE id = ?`,
    );
    const places = usageColumns.replaceAll(/\w+/g, '?');
    this.#usage = parts.sql.prepare(`INSERT INTO usage (${usageColumns}) VALUES (${places})`);
    this.#sums = parts.sql.prepare(raiseSums);
  }

  settle(command: SettleCommand, nowMs: number): Settled {
    const { holds, keys, payments, moves, dictionary } = this.#parts;
    const lines = linesOf(command);
    const hold = holds.find(command.id);
    if (hold === undefined) return this.#again(command, lines);
    const key = keys.find({ id: hold.keyId });
    assert(key !== undefined, 'keys are never deleted');

    const { total, planTokens, cost } = bill(command, lines, hold, sourcesOf(payments.again(key, hold)));
    const writtenOff = total - cost;
    const priceId = command.costNanoUsd === undefined ? dictionary.price(command.prices) : null;
    this.#usage.run(...usageValues(command, hold, { cost, writtenOff, priceId, planTokens }));
    this.#raiseSums(hold, sumValues(command, { cost, writtenOff }));
    // A free request that the upstream failed is given back.
    holds.release(hold, key, { debit: cost, planTokens, freeTaken: command.state !== 'upstream_failed' }, nowMs);
    moves.writeOff(key, hold.id, writtenOff, nowMs);
    return { kind: 'settled', costNanoUsd: cost, writtenOffNanoUsd: writtenOff };
  }

  void(id: number, reason: VoidReason, nowMs: number): 'voided' | 'not_held' {
    const { holds } = this.#parts;
    const hold = holds.find(id);
    if (hold === undefined)
      return holds.voidedFor(id) === reason && this.#find.get(id) === undefined ? 'voided' : 'not_held';
    holds.void(hold, reason, nowMs);
    return 'voided';
  }

  /** By the hour and the day of its admission, for its model and for its key. */
  #raiseSums({ accountId, admittedAtMs, modelId, keyId }: HoldFacts, values: readonly Value[]): void {
    const [hour, day] = [hourOf(admittedAtMs), dayOf(admittedAtMs)];
    this.#sums.run(accountId, 'hour', 'model', hour, modelId, ...values);
    this.#sums.run(accountId, 'hour', 'key', hour, keyId, ...values);
    this.#sums.run(accountId, 'day', 'model', day, modelId, ...values);
    this.#sums.run(accountId, 'day', 'key', day, keyId, ...values);
  }

  /** The answer to a repeat: what was charged then; `conflict` where it was another charge. */
  #again(command: SettleCommand, lines: readonly CostLine[]): Settled {
    const stored = this.#find.get(command.id);
    if (stored === undefined) return { kind: 'not_held', costNanoUsd: 0n, writtenOffNanoUsd: 0n };
    const { payers, cost, written_off: writtenOff } = stored;
    const shares = {
      payers,
      planTokens: Number(stored.plan_tokens),
      discountPermille: Number(stored.discount_permille),
    };
    const same =
      stored.state === command.state &&
      sameBuckets(stored, command.usage) &&
      cost + writtenOff === totalOf(command, lines, shares);
    return { kind: same ? 'settled' : 'conflict', costNanoUsd: cost, writtenOffNanoUsd: writtenOff };
  }
}

/** What the request used by its arithmetic; none where another service says what it cost. Throws where a bucket has tokens and no price. */
function linesOf({ usage, prices, multiplierPermille, costNanoUsd }: SettleCommand): CostLine[] {
  return costNanoUsd === undefined ? costLines(usage, prices, multiplierPermille) : [];
}

/** How a request's tokens are shared between its payers. */
interface Shares {
  readonly payers: Payers;
  readonly planTokens: number;
  readonly discountPermille: number;
}

/** What is left for money to pay. */
function totalOf(command: SettleCommand, lines: readonly CostLine[], shares: Shares): bigint {
  if (shares.payers === 'free_request') return 0n;
  const { payers, planTokens, discountPermille } = shares;
  const shared = shareLines(lines, { tokens: planTokens, first: payers !== 'money_plan' });
  return (
    command.costNanoUsd ?? costOf(shared.filter(line => !line.byPlan).map(line => ({ ...line, discountPermille })))
  );
}

/**
 * Who pays what: each payer all that its hold covers, and of the rest as much as no other hold covers and no cap forbids. `total` is money's part, `cost`
 * what is debited of it.
 */
function bill(
  command: SettleCommand,
  lines: readonly CostLine[],
  hold: HoldFacts,
  left: Sources,
): { total: bigint; planTokens: number; cost: bigint } {
  const { payers, discountPermille } = hold;
  const covered = drawsOnMoney(payers) ? hold.held + left.nanoUsd : 0n;
  const planTokens = planPart(lines, hold, hold.planHeld + left.planTokens, covered);
  const total = totalOf(command, lines, { payers, planTokens, discountPermille });
  return { total, planTokens, cost: total < covered ? total : covered };
}

/** The tokens that the plan pays: the first that it can, or those that money has left. */
function planPart(lines: readonly CostLine[], hold: HoldFacts, planTokens: number, covered: bigint): number {
  const { payers, discountPermille } = hold;
  if (payers === 'money' || payers === 'free_request') return 0;
  const tokens = tokensOf(lines);
  if (payers !== 'money_plan') return Math.min(tokens, planTokens);
  const discountedLines = lines.map(line => ({ ...line, discountPermille }));
  return Math.min(tokens - tokensWithin(discountedLines, covered), planTokens);
}

function sameBuckets(stored: Stored, usage: UsageBuckets): boolean {
  return (
    stored.input === BigInt(usage.input) &&
    stored.cache_read === BigInt(usage.cacheRead) &&
    stored.cache_write_5m === BigInt(usage.cacheWrite5m) &&
    stored.cache_write_1h === BigInt(usage.cacheWrite1h) &&
    stored.output === BigInt(usage.output) &&
    stored.reasoning === BigInt(usage.reasoning) &&
    stored.images === BigInt(usage.images)
  );
}

/** What was debited, what was not, and by which prices. */
interface Charge {
  readonly cost: bigint;
  readonly writtenOff: bigint;
  readonly priceId: number | null;
  readonly planTokens: number;
}

/** The values of `usageColumns`. */
function usageValues(command: SettleCommand, hold: HoldFacts, charge: Charge): Value[] {
  const { usage, state, usageSource, serviceTier, firstEventMs } = command;
  return [
    hold.id,
    hold.requestId,
    hold.accountId,
    hold.keyId,
    hold.modelId,
    hold.free ? 1 : 0,
    hold.expiresAtMs === null ? 0 : 1,
    hold.payer,
    hold.admittedAtMs,
    state,
    usageSource,
    serviceTier,
    usage.input,
    usage.cacheRead,
    usage.cacheWrite5m,
    usage.cacheWrite1h,
    usage.output,
    usage.reasoning,
    usage.images,
    charge.cost,
    charge.writtenOff,
    charge.priceId,
    command.multiplierPermille,
    Math.round(command.latencyMs),
    firstEventMs === undefined ? null : Math.round(firstEventMs),
    command.provider,
    command.attempts,
    hold.asked,
    hold.admitted,
    hold.admittedTokens,
    hold.expiresAtMs,
    hold.payers,
    hold.periodId,
    charge.planTokens,
    hold.discountPermille,
  ];
}

/** The values of `sumColumns` but the count of requests. */
function sumValues(command: SettleCommand, charge: Pick<Charge, 'cost' | 'writtenOff'>): Value[] {
  const { usage, state } = command;
  return [
    state === 'upstream_failed' ? 1 : 0,
    usage.input,
    usage.cacheRead,
    usage.cacheWrite5m,
    usage.cacheWrite1h,
    usage.output,
    usage.reasoning,
    usage.images,
    charge.cost,
    charge.writtenOff,
    Math.round(command.latencyMs),
  ];
}
