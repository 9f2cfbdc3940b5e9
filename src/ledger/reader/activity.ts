import type { PaidLine } from '../activity.ts';
import { readTimeline } from '../timeline.ts';
import { readToolCharges } from '../tool-charges.ts';
import { readUnpriced } from '../unpriced.ts';
import { namePiece } from '../../generation/endpoints.ts';
import { costLines, type PriceSheet, shareLines, toolLines } from '../../generation/price.ts';
import { parseLedgerId, formatRequestId } from '../../lib/ids.ts';
import type { Connection, Query } from '../../lib/sqlite/database.ts';
import type { ActivityFilter, Tags, UsageBuckets, UsageRow } from '../ledger.ts';
import type { ColumnStore } from '../columns/column-store.ts';
import { hourMs } from '../rules/calendar.ts';
import { codes, decode } from '../sqlite/codes.ts';
import { ColumnRecords } from './column-records.ts';
import { FilterHours } from './filter-hours.ts';
import { type Stored, toRow } from './to-row.ts';

type UsageRecord = UsageBuckets & {
  readonly id: number;
  readonly request: bigint | string;
  readonly accountId: number;
  readonly keyId: number;
  readonly model: string;
  readonly createdAtMs: number;
  readonly state: number;
  readonly usageSource: number;
  readonly serviceTier: number;
  readonly tierName: string | null;
  readonly cost: bigint;
  readonly writtenOff: bigint;
  readonly providerCost: bigint | null;
  readonly latencyMs: number;
  readonly endUser: string | null;
  readonly batchId: string | null;
  readonly tags: string | null;
  readonly unpriced: string | null;
};

/** A record with the prices that applied; they are all null if another service computed the cost. */
type PricedRecord = UsageRecord & {
  readonly admitted: bigint;
  readonly firstEventMs: number | null;
  readonly provider: string;
  readonly attemptCount: number;
  readonly timeline: string | null;
  readonly tools: string | null;
  /** The public path. */
  readonly endpoint: string;
  readonly payer: number;
  readonly payers: number;
  readonly planTokens: number;
  readonly discountPermille: number;
  readonly multiplierPermille: number;
  readonly priceId: number | null;
  readonly priceInput: bigint | null;
  readonly priceCacheRead: bigint | null;
  readonly priceCacheWrite5m: bigint | null;
  readonly priceCacheWrite1h: bigint | null;
  readonly priceOutput: bigint | null;
  readonly priceImage: bigint | null;
};

type PageValues = {
  owner: number;
  model: number;
  start: number;
  end: number;
  limit: number;
  offset: number;
  endUser: string;
  batchId: string;
  provider: string;
  endpoint: string;
  group: string;
  tagPath: string;
  tagValue: string;
};

const columns = `u.id, u.request, u.account_id AS accountId, u.key_id AS keyId, m.name AS model, u.created_at_ms AS createdAtMs, u.state,
  u.usage_source AS usageSource, u.service_tier AS serviceTier, u.tier_name AS tierName, u.input, u.cache_read AS cacheRead, u.cache_write_5m AS cacheWrite5m,
  u.cache_write_1h AS cacheWrite1h, u.output, u.reasoning, u.images, u.cost, u.written_off AS writtenOff, u.provider_cost AS providerCost, u.latency_ms AS latencyMs, u.unpriced,
  (SELECT name FROM end_user WHERE id = u.end_user_id) AS endUser,
  (SELECT name FROM batch WHERE id = u.batch_id) AS batchId, (SELECT tags FROM tag_set WHERE id = u.tags_id) AS tags`;
const priceColumns = `u.admitted, u.first_event_ms AS firstEventMs, u.attempts AS attemptCount, u.course AS timeline, u.tools, (SELECT name FROM provider WHERE id = u.provider_id) AS provider,
  (SELECT name FROM endpoint WHERE id = u.endpoint_id) AS endpoint, u.payer, u.payers, u.plan_tokens AS planTokens, u.discount_permille AS discountPermille,
  u.multiplier_permille AS multiplierPermille, u.price_id AS priceId, p.input AS priceInput, p.cache_read AS priceCacheRead,
  p.cache_write_5m AS priceCacheWrite5m, p.cache_write_1h AS priceCacheWrite1h, p.output AS priceOutput, p.image AS priceImage`;
const amounts = ['request', 'cost', 'writtenOff', 'providerCost'] as const;
const prices = [
  'admitted',
  'priceInput',
  'priceCacheRead',
  'priceCacheWrite5m',
  'priceCacheWrite1h',
  'priceOutput',
  'priceImage',
] as const;

const nothing = { attempts: [], extensions: [] };

/** If more rows than this precede a page, it is read without the help of stored sums. */
const skippedMax = 5_000;

/** Reads records: pages of them, newest first, and one record with the calculation of its cost. */
export class Activity {
  readonly #db: Connection;
  readonly #pages = new Map<string, Query<[PageValues], Stored<UsageRecord>>>();
  readonly #model: Query<[string], { id: bigint }>;
  readonly #keyAccount: Query<[number], { account_id: bigint }>;
  readonly #one: Query<[number], Stored<PricedRecord>>;
  readonly #hours: FilterHours;
  readonly #columns: ColumnRecords | undefined;

  /** `files`: the column files; undefined: there are none. */
  constructor(db: Connection, files?: ColumnStore) {
    this.#db = db;
    this.#columns = files === undefined ? undefined : new ColumnRecords(db, files);
    this.#model = db.prepare('SELECT id FROM model WHERE name = ?');
    this.#hours = new FilterHours(db);
    this.#keyAccount = db.prepare('SELECT account_id FROM api_key WHERE id = ?');
    this.#one = db.prepare(
      `SELECT ${columns}, ${priceColumns}
       FROM usage u JOIN model m ON m.id = u.model_id LEFT JOIN price p ON p.id = u.price_id WHERE u.id = ?`,
    );
  }

  list(filter: ActivityFilter): UsageRow[] {
    const { accountId, keyId, limit, offset } = filter;
    const model = filter.model === undefined ? undefined : this.#model.get(filter.model)?.id;
    if (filter.model !== undefined && model === undefined) return [];
    // A key belongs to one account, so the key's index suffices once its account is checked.
    if (keyId !== undefined && this.#keyAccount.get(keyId)?.account_id !== BigInt(accountId)) return [];
    const { tag, endUser, groupId, provider, endpoint, batchId } = filter;
    const conditions = [
      ...(model === undefined ? [] : ['model_id = @model']),
      ...(endUser === undefined ? [] : ['end_user_id = (SELECT id FROM end_user WHERE name = @endUser)']),
      ...(batchId === undefined ? [] : ['batch_id = (SELECT id FROM batch WHERE name = @batchId)']),
      ...(provider === undefined ? [] : ['provider_id = (SELECT id FROM provider WHERE name = @provider)']),
      ...(endpoint === undefined ? [] : ['endpoint_id = (SELECT id FROM endpoint WHERE name = @endpoint)']),
      ...(groupId === undefined ? [] : ['groups LIKE @group']),
      ...(tag === undefined
        ? []
        : ['tags_id IN (SELECT id FROM tag_set WHERE json_extract(tags, @tagPath) = @tagValue)']),
    ];
    const page = this.#page(keyId === undefined ? 'account_id' : 'key_id', conditions);
    const values: PageValues = {
      endUser: endUser ?? '',
      batchId: batchId ?? '',
      provider: provider ?? '',
      endpoint: endpoint ?? '',
      group: `%,${groupId ?? 0},%`,
      tagPath: `$."${tag?.name ?? ''}"`,
      tagValue: tag?.value ?? '',
      owner: keyId ?? accountId,
      model: Number(model ?? 0n),
      start: filter.startMs ?? 0,
      end: filter.endMs ?? Number.MAX_SAFE_INTEGER,
      limit,
      offset,
    };
    return this.#readParts(page, values, filter).map(stored => usageRow(toRow<UsageRecord>(stored, amounts)));
  }

  /** Reads a page, the newest part of its span first. Column files show which parts have records that match. */
  #readParts(
    page: Query<[PageValues], Stored<UsageRecord>>,
    values: PageValues,
    filter: ActivityFilter,
  ): Stored<UsageRecord>[] {
    const { start, end, limit, offset } = values;
    const wanted = offset + limit;
    if (this.#columns === undefined || wanted > skippedMax || !needsColumns(filter)) {
      return this.#read(page, values, filter);
    }
    const rows: Stored<UsageRecord>[] = [];
    for (const { from, to, isInFile } of this.#columns.listParts(filter, { from: start, to: end }, wanted)) {
      if (rows.length >= wanted) break;
      const part = { ...values, start: from, end: to, limit: wanted - rows.length, offset: 0 };
      rows.push(...(isInFile ? page.all(part) : this.#read(page, part, { ...filter, startMs: from, endMs: to })));
    }
    return rows.slice(offset, wanted);
  }

  /** Reads a page. If no index fits the filter, reads only the hours in which stored sums show that there are matching records. */
  #read(
    page: Query<[PageValues], Stored<UsageRecord>>,
    values: PageValues,
    filter: ActivityFilter,
  ): Stored<UsageRecord>[] {
    const { start, end, limit, offset } = values;
    const wanted = offset + limit;
    const hours = wanted > skippedMax ? undefined : this.#hours.find(filter);
    if (hours === undefined) return page.all(values);
    const rows: Stored<UsageRecord>[] = [];
    for (const hour of hours) {
      if (rows.length >= wanted) break;
      const span = { start: Math.max(start, hour * hourMs), end: Math.min(end, (hour + 1) * hourMs) };
      rows.push(...page.all({ ...values, ...span, limit: wanted - rows.length, offset: 0 }));
    }
    return rows.slice(offset);
  }

  /** Returns one record with the calculation of its cost; without lines if another service computed the cost. */
  find(accountId: number, requestId: string): { row: UsageRow; lines: PaidLine[] } | undefined {
    const id = parseLedgerId(requestId);
    const stored = id === undefined ? undefined : this.#one.get(id);
    if (stored === undefined) return undefined;
    const record = toRow<PricedRecord>(stored, [...amounts, ...prices]);
    const row = usageRow(record);
    if (row.requestId !== requestId || record.accountId !== accountId) return undefined;
    const { admitted: admittedNanoUsd, firstEventMs, provider, attemptCount } = record;
    const { attempts, extensions } = record.timeline === null ? nothing : readTimeline(record.timeline);
    const timeline = { admittedNanoUsd, firstEventMs, provider, attemptCount, attempts, extensions };
    return { row: { ...row, timeline }, lines: paidLines(record, row) };
  }

  #page(owner: 'account_id' | 'key_id', conditions: readonly string[]): Query<[PageValues], Stored<UsageRecord>> {
    const name = [owner, ...conditions].join(' AND ');
    const known = this.#pages.get(name);
    if (known !== undefined) return known;
    const page = this.#db.prepare<[PageValues], Stored<UsageRecord>>(
      `SELECT ${columns} FROM (
         SELECT id FROM usage WHERE ${[`${owner} = @owner`, ...conditions].join(' AND ')}
           AND created_at_ms >= @start AND created_at_ms < @end
           ORDER BY created_at_ms DESC, id DESC LIMIT @limit OFFSET @offset
       ) page JOIN usage u ON u.id = page.id JOIN model m ON m.id = u.model_id
       ORDER BY u.created_at_ms DESC, u.id DESC`,
    );
    this.#pages.set(name, page);
    return page;
  }
}

/** Returns true if few of many records may match a filter, and no index finds them. */
function needsColumns({ model, keyId, endUser, provider, endpoint, groupId, tag, batchId }: ActivityFilter): boolean {
  if (batchId !== undefined) return false;
  const isIndexed = (provider ?? endpoint ?? groupId ?? tag) === undefined;
  return !isIndexed || (endUser !== undefined && (model ?? keyId) !== undefined);
}

function usageRow(record: UsageRecord): UsageRow {
  const { input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images } = record;
  return {
    requestId: formatRequestId(record.id, record.request),
    model: record.model,
    keyId: record.keyId,
    createdAtMs: record.createdAtMs,
    costNanoUsd: record.cost,
    writtenOffNanoUsd: record.writtenOff,
    providerCostNanoUsd: record.providerCost ?? undefined,
    state: decode(codes.state, record.state),
    usageSource: decode(codes.usageSource, record.usageSource),
    serviceTier: record.tierName ?? decode(codes.serviceTier, record.serviceTier),
    latencyMs: record.latencyMs,
    usage: { input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, images },
    endUser: record.endUser ?? undefined,
    batchId: record.batchId ?? undefined,
    tags: record.tags === null ? {} : (JSON.parse(record.tags) as Tags),
    unpriced: readUnpriced(record.unpriced),
  };
}

function paidLines(record: PricedRecord, { usage }: UsageRow): PaidLine[] {
  if (record.priceId === null) return [];
  const sheet: PriceSheet = {
    input: record.priceInput,
    cacheRead: record.priceCacheRead,
    cacheWrite5m: record.priceCacheWrite5m,
    cacheWrite1h: record.priceCacheWrite1h,
    output: record.priceOutput,
    image: record.priceImage,
  };
  const { discountPermille, planTokens } = record;
  const payers = decode(codes.payers, record.payers);
  const lines = costLines(usage, sheet, record.multiplierPermille, namePiece(record.endpoint));
  if (payers === 'free_request') return lines.map(line => ({ ...line, discountPermille: 1000, paidBy: 'free' }));
  const paidBy = payers === 'plan' ? 'subscription' : moneyPayer(record);
  const shared = shareLines(lines, { tokens: planTokens, first: payers !== 'money_plan' });
  const tokenLines = shared.map(
    ({ byPlan, ...line }): PaidLine =>
      byPlan ? { ...line, paidBy: 'subscription' } : { ...line, discountPermille, paidBy },
  );
  const tools = toolLines(readToolCharges(record.tools));
  return [...tokenLines, ...tools.map(line => ({ ...line, paidBy: moneyPayer(record) }))];
}

/** Returns whose balance paid the part that the plan did not pay. */
function moneyPayer({ payer, cost, writtenOff, planTokens }: PricedRecord): PaidLine['paidBy'] {
  return cost + writtenOff === 0n && planTokens === 0 ? 'free' : decode(codes.payer, payer);
}
