import { costLines, type PriceSheet, shareLines } from '../../generation/price.ts';
import { ledgerIdOf } from '../../lib/ids.ts';
import type { ActivityFilter, PaidLine, RecordState, UsageRow } from '../ledger.ts';
import type { Connection, Query } from '../../lib/sqlite/database.ts';
import type { Payer, Payers } from '../rows.ts';

interface UsageRecord {
  request_id: string;
  account_id: bigint;
  key_id: bigint;
  model: string;
  payer: Payer;
  created_at_ms: bigint;
  state: RecordState;
  usage_source: UsageRow['usageSource'];
  service_tier: UsageRow['serviceTier'];
  input: bigint;
  cache_read: bigint;
  cache_write_5m: bigint;
  cache_write_1h: bigint;
  output: bigint;
  reasoning: bigint;
  images: bigint;
  cost: bigint;
  written_off: bigint;
  multiplier_permille: bigint;
  latency_ms: bigint;
}

/** With the prices that applied; all null if another service set the cost. */
interface PricedRecord extends UsageRecord {
  payers: Payers;
  plan_tokens: bigint;
  discount_permille: bigint;
  price_id: bigint | null;
  price_input: bigint | null;
  price_cache_read: bigint | null;
  price_cache_write_5m: bigint | null;
  price_cache_write_1h: bigint | null;
  price_output: bigint | null;
  price_image: bigint | null;
}

type PageValues = { owner: number; model: number; start: number; end: number; limit: number; offset: number };

const columns = `u.request_id, u.account_id, u.key_id, u.payer, u.created_at_ms, u.state, u.usage_source, u.service_tier, u.input,
  u.cache_read, u.cache_write_5m, u.cache_write_1h, u.output, u.reasoning, u.images, u.cost, u.written_off,
  u.multiplier_permille, u.latency_ms`;

/** Reads usage records: pages, newest first, each from an index, and one record with its arithmetic. */
export class Activity {
  readonly #db: Connection;
  readonly #pages = new Map<string, Query<[PageValues], UsageRecord>>();
  readonly #model: Query<[string], { id: bigint }>;
  readonly #keyAccount: Query<[number], { account_id: bigint }>;
  readonly #one: Query<[number], PricedRecord>;

  constructor(db: Connection) {
    this.#db = db;
    this.#model = db.prepare('SELECT id FROM model WHERE name = ?');
    this.#keyAccount = db.prepare('SELECT account_id FROM api_key WHERE id = ?');
    this.#one = db.prepare(
      `SELECT ${columns}, u.payers, u.plan_tokens, u.discount_permille, m.name AS model, u.price_id, p.input AS price_input, p.cache_read AS price_cache_read,
         p.cache_write_5m AS price_cache_write_5m, p.cache_write_1h AS price_cache_write_1h, p.output AS price_output,
         p.image AS price_image
       FROM usage u JOIN model m ON m.id = u.model_id LEFT JOIN price p ON p.id = u.price_id WHERE u.id = ?`,
    );
  }

  list(filter: ActivityFilter): UsageRow[] {
    const { accountId, keyId, limit, offset } = filter;
    const model = filter.model === undefined ? undefined : this.#model.get(filter.model)?.id;
    if (filter.model !== undefined && model === undefined) return [];
    // A key belongs to one account, so the key's index suffices once its account is checked.
    if (keyId !== undefined && this.#keyAccount.get(keyId)?.account_id !== BigInt(accountId)) return [];
    return this.#page(keyId === undefined ? 'account_id' : 'key_id', model !== undefined)
      .all({
        owner: keyId ?? accountId,
        model: Number(model ?? 0n),
        start: filter.startMs ?? 0,
        end: filter.endMs ?? Number.MAX_SAFE_INTEGER,
        limit,
        offset,
      })
      .map(usageRow);
  }

  /** Returns one record with its arithmetic; no lines if another service set the cost. */
  find(accountId: number, requestId: string): { row: UsageRow; lines: PaidLine[] } | undefined {
    const id = ledgerIdOf(requestId);
    const record = id === undefined ? undefined : this.#one.get(id);
    if (record === undefined || record.request_id !== requestId || record.account_id !== BigInt(accountId))
      return undefined;
    return { row: usageRow(record), lines: paidLines(record) };
  }

  #page(owner: 'account_id' | 'key_id', byModel: boolean): Query<[PageValues], UsageRecord> {
    const name = `${owner} ${byModel}`;
    const known = this.#pages.get(name);
    if (known !== undefined) return known;
    const page = this.#db.prepare<[PageValues], UsageRecord>(
      `SELECT ${columns}, m.name AS model FROM (
         SELECT id FROM usage WHERE ${owner} = @owner ${byModel ? 'AND model_id = @model' : ''}
           AND created_at_ms >= @start AND created_at_ms < @end
           ORDER BY created_at_ms DESC, id DESC LIMIT @limit OFFSET @offset
       ) page JOIN usage u ON u.id = page.id JOIN model m ON m.id = u.model_id
       ORDER BY u.created_at_ms DESC, u.id DESC`,
    );
    this.#pages.set(name, page);
    return page;
  }
}

function usageRow(record: UsageRecord): UsageRow {
  return {
    requestId: record.request_id,
    model: record.model,
    keyId: Number(record.key_id),
    createdAtMs: Number(record.created_at_ms),
    costNanoUsd: record.cost,
    writtenOffNanoUsd: record.written_off,
    state: record.state,
    usageSource: record.usage_source,
    serviceTier: record.service_tier,
    latencyMs: Number(record.latency_ms),
    usage: {
      input: Number(record.input),
      cacheRead: Number(record.cache_read),
      cacheWrite5m: Number(record.cache_write_5m),
      cacheWrite1h: Number(record.cache_write_1h),
      output: Number(record.output),
      reasoning: Number(record.reasoning),
      images: Number(record.images),
    },
  };
}

function paidLines(record: PricedRecord): PaidLine[] {
  if (record.price_id === null) return [];
  const sheet: PriceSheet = {
    input: record.price_input,
    cacheRead: record.price_cache_read,
    cacheWrite5m: record.price_cache_write_5m,
    cacheWrite1h: record.price_cache_write_1h,
    output: record.price_output,
    image: record.price_image,
  };
  const { payers } = record;
  const lines = costLines(usageRow(record).usage, sheet, Number(record.multiplier_permille));
  if (payers === 'free_request') return lines.map(line => ({ ...line, discountPermille: 1000, paidBy: 'free' }));
  const discountPermille = Number(record.discount_permille);
  const paidBy = moneyPayer(record);
  const shared = shareLines(lines, { tokens: Number(record.plan_tokens), first: payers !== 'money_plan' });
  return shared.map(({ byPlan, ...line }) =>
    byPlan ? { ...line, paidBy: 'subscription' } : { ...line, discountPermille, paidBy },
  );
}

/** Returns who paid what the plan did not. If only the plan could pay, the rest was written off. */
function moneyPayer({
  payers,
  payer,
  cost,
  written_off: writtenOff,
  plan_tokens: planTokens,
}: PricedRecord): PaidLine['paidBy'] {
  if (payers === 'plan') return 'subscription';
  return cost + writtenOff === 0n && planTokens === 0n ? 'free' : payer;
}
