/**
 * Measures the ledger without a gateway: commands per second with 64 callers, each answered after a synced commit, on an empty ledger and on one with a million records,
 * and pages of records. `node bench/ledger.ts` prints the table; `benchLedger` returns its rows.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { systemClock } from '../src/lib/clock.ts';
import { base62, IdSource, publicRequestId } from '../src/lib/ids.ts';
import type { Ledger, SettleCommand } from '../src/ledger/ledger.ts';
import { openSqliteLedger } from '../src/ledger/sqlite/sqlite-ledger.ts';
import { codes, encode } from '../src/ledger/sqlite/codes.ts';
import { ledgerPath, verifyLedgerFile } from '../src/ledger/sqlite/verify.ts';
import { plans } from '../test/ledger/fixture.ts';
import { readCpu, subtractCpu } from './process.ts';
import { type Row, formatNumber, table } from './row.ts';
import { median, percentile } from './statistics.ts';

const callers = 64;
/** How many accounts, keys and models the records are distributed over. */
export interface Shape {
  readonly accounts: number;
  readonly keys: number;
  readonly models: number;
}
const shape: Shape = { accounts: 200, keys: 1000, models: 50 };
const days = 90;
/** How many records `fillRecords` writes by default. */
export const rows = 1_000_000;
const pageRows = 100;

const makeHash = (key: number): Uint8Array => createHash('sha256').update(`key ${key}`).digest();
/** Returns the request id of a record by its number, from 1. */
export const makeRequestId = (number: number): string => `req_${base62(number, 10)}${'0'.repeat(11)}`;
const keys = Array.from({ length: shape.keys }, (_, key) => makeHash(key));
/** Maps consecutive numbers to values that are scattered over a range. */
const scattered = (number: number, range: number): number => (number * 2_654_435_761) % range;

const settleWith: Omit<SettleCommand, 'id'> = {
  state: 'completed',
  usage: { input: 900, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0, output: 300, reasoning: 0, images: 0 },
  usageSource: 'reported',
  serviceTier: 'default',
  latencyMs: 800,
  firstEventMs: 90,
  provider: 'local',
  attempts: 1,
  prices: {
    input: 1_000_000n,
    cacheRead: null,
    cacheWrite5m: null,
    cacheWrite1h: null,
    output: 4_000_000n,
    image: null,
  },
  multiplierPermille: 1000,
};

const text = { inputTokens: 1000, outputTokensMin: 16, outputTokensWanted: 1024 };

/** The result of a load. */
interface Load {
  /** Commands per second; an admit and a settle count as one each. */
  readonly rate: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** CPU time of an admit and a settle in all threads, including the callers, in µs. */
  readonly pairUs: number;
  /** The part of `pairUs` on the main thread (callers and the ledger's port), in µs. */
  readonly mainUs: number;
}

/** Makes accounts with money and keys; ids begin at 1. */
export async function fillAccounts(ledger: Ledger, shape: Shape): Promise<void> {
  for (let number = 0; number < shape.accounts; number++) {
    const { accountId } = await ledger.createAccount({ name: `account ${number}`, balance: 10n ** 15n });
    for (let key = number; key < shape.keys; key += shape.accounts) {
      const hash = keys[key] ?? makeHash(key);
      await ledger.createKey({ accountId, hash, masked: '', settings: {} });
    }
  }
}

const limitUnits = ['usd', 'requests', 'tokens', 'usd', 'tokens'] as const;
const limitWindows = ['day', 'month', 'hour', 'total', 'week'] as const;

/** Puts the keys of every account into a group that is in another group. */
export async function fillGroups(ledger: Ledger, { accounts }: Shape): Promise<void> {
  for (let accountId = 1; accountId <= accounts; accountId++) {
    const lower = await newGroup(ledger, accountId, await newGroup(ledger, accountId, null));
    const keys = await ledger.listKeys(accountId);
    for (const { keyId } of keys) await ledger.updateKey({ keyId, accountId, settings: { groupId: lower } });
  }
}

/** Makes limits so that 20 apply to every request (5 of its key, 5 of each of its two groups, 5 of its account). None is ever reached. */
export async function fillLimits(ledger: Ledger, { accounts }: Shape): Promise<void> {
  for (let accountId = 1; accountId <= accounts; accountId++) {
    const groups = (await ledger.listGroups(accountId)).map(({ groupId }) => ['group', groupId] as const);
    const keys = (await ledger.listKeys(accountId)).map(({ keyId }) => ['key', keyId] as const);
    for (const [scope, scopeId] of [['account', accountId] as const, ...groups, ...keys]) {
      const made = limitUnits.map((unit, index) =>
        ledger.createLimit({
          accountId,
          scope,
          scopeId,
          unit,
          window: limitWindows[index] ?? 'day',
          max: 10n ** 18n,
          timeZone: index % 2 === 0 ? 'UTC' : 'Europe/Berlin',
          models: null,
          endUsers: 'all',
          action: 'refuse',
          raised: null,
          locked: false,
        }),
      );
      await Promise.all(made);
    }
  }
}

async function newGroup(ledger: Ledger, accountId: number, parentId: number | null): Promise<number> {
  const group = await ledger.createGroup({ accountId, settings: { name: 'bench', parentId } });
  if (typeof group === 'string') throw new Error(group);
  return group.groupId;
}

/** Runs callers that admit and settle one request after the other, with scattered keys and models. */
async function load(ledger: Ledger, seconds: number): Promise<Load> {
  const ids = new IdSource(systemClock, ledger.lastId);
  const times: number[] = [];
  let counting = false;
  let running = true;
  const timed = async <T>(work: Promise<T>): Promise<T> => {
    const began = performance.now();
    const reply = await work;
    if (counting) times.push(performance.now() - began);
    return reply;
  };
  const caller = async (): Promise<void> => {
    while (running) {
      const id = ids.next();
      const hash = keys[scattered(id, shape.keys)] ?? makeHash(0);
      const admitted = await timed(
        ledger.admit({
          id,
          requestId: publicRequestId(id),
          key: { hash },
          model: `acme/${scattered(id, shape.models)}`,
          free: false,
          funds: { ...text, inputNanoUsd: 1_000_000n, outputPicoUsd: 4_000_000n, plan: true },
          text,
        }),
      );
      if (admitted.kind === 'denied') throw new Error(`denied: ${admitted.code}`);
      await timed(ledger.settle({ ...settleWith, id }));
    }
  };
  const all = Promise.all(Array.from({ length: callers }, caller));
  await sleep(1000);
  counting = true;
  const [began, cpuBefore] = [performance.now(), readCpu(process.pid)];
  await sleep(seconds * 1000);
  counting = false;
  const { totalMs, threadsMs } = subtractCpu(readCpu(process.pid), cpuBefore);
  const tookSeconds = (performance.now() - began) / 1000;
  const eachPairUs = (ms: number): number => (ms * 1000) / (times.length / 2);
  running = false;
  await all;
  times.sort((a, b) => a - b);
  return {
    rate: times.length / tookSeconds,
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
    pairUs: eachPairUs(totalMs),
    mainUs: eachPairUs(threadsMs.get('node-MainThread') ?? 0),
  };
}

/** Writes `count` records of the last 90 days and their sums to the file, without the engine. Every invariant holds afterwards. */
export function fillRecords(dataDir: string, shape: Shape, count = rows): void {
  const db = new Database(ledgerPath(dataDir));
  db.pragma('synchronous = OFF');
  const end = systemClock.now();
  const step = Math.floor((days * 86_400_000) / count);
  db.exec('BEGIN');
  const model = db.prepare('INSERT OR IGNORE INTO model (name) VALUES (?)');
  for (let number = 0; number < shape.models; number++) model.run(`acme/${number}`);
  // The codes in src/ledger/sqlite/codes.ts for completed, reported, default and paid with money of the account are 0. The random part of `makeRequestId` is 0, too.
  db.exec(`INSERT OR IGNORE INTO price (input, output) VALUES (1000000, 4000000);
    INSERT OR IGNORE INTO provider (name) VALUES ('local');
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ${count})
    INSERT INTO usage (id, request, account_id, key_id, model_id, free, payer, payers, created_at_ms, state, usage_source, service_tier, input,
      cache_read, cache_write_5m, cache_write_1h, output, reasoning, images, cost, written_off, price_id, multiplier_permille, discount_permille,
      latency_ms, first_event_ms, provider_id, attempts, asked, admitted, admitted_tokens, plan_tokens)
    SELECT n, 0, k.account_id, k.id, 1 + (n * 2654435761 >> 20) % ${shape.models}, 0, 0, 0,
      ${end} - (${count} - n) * ${step}, 0, 0, 0, 900, 0, 0, 0, 300, 0, 0, 2100000, 0,
      (SELECT id FROM price WHERE input = 1000000 AND output = 4000000 LIMIT 1), 1000, 0, 800, 90,
      (SELECT id FROM provider WHERE name = 'local'), 1, 5096000, 5096000, 1024, 0
      FROM n JOIN api_key k ON k.id = 1 + (n * 104729) % ${shape.keys};
    INSERT INTO call_kind (model_id, provider_id, endpoint_id) SELECT DISTINCT model_id, provider_id, endpoint_id FROM usage;`);
  const sums = 'count(*), 0, sum(input), 0, 0, 0, sum(output), 0, 0, sum(cost), 0, sum(latency_ms), 0, 0';
  for (const [period, ms] of [['hour', 3_600_000] as const, ['day', 86_400_000] as const]) {
    const kind = '(SELECT k.id FROM call_kind k WHERE k.model_id = usage.model_id)';
    for (const [grouped, id] of Object.entries({ kind, key: 'key_id' }) as ['kind' | 'key', string][]) {
      const sum = [encode(codes.period, period), encode(codes.grouped, grouped)];
      db.exec(`INSERT INTO usage_sum SELECT account_id, ${sum.join()}, created_at_ms / ${ms}, ${id}, ${sums}
        FROM usage GROUP BY 1, 4, 5`);
    }
  }
  db.exec(`INSERT INTO key_day SELECT key_id, created_at_ms / 86400000, count(*), sum(cost), 0, 0, max(created_at_ms) FROM usage GROUP BY 1, 2;
    UPDATE account SET balance = balance - (SELECT sum(cost) FROM usage u WHERE u.account_id = account.id);
    UPDATE meta SET value = ${count} WHERE name = 'last_id';
    COMMIT`);
  db.pragma('wal_checkpoint(TRUNCATE)');
  db.close();
}

/** Reads pages of the records of an account, a model, a key, and a model with a key: the newest page and the page that ends with the 10,000th record. Returns the time of the slowest of each, in ms. */
async function pages(ledger: Ledger): Promise<{ first: number; deep: number }> {
  const filters = [{}, { model: 'acme/7' }, { keyId: 1 }, { model: 'acme/7', keyId: 1 }];
  const measured = async (offset: number): Promise<number> => {
    const slowest: number[] = [];
    for (const filter of filters) {
      const times: number[] = [];
      for (let round = 0; round < 20; round++) {
        const began = performance.now();
        await ledger.listActivity({ accountId: 1, limit: pageRows, offset, ...filter });
        times.push(performance.now() - began);
      }
      slowest.push(median(times));
    }
    return Math.max(...slowest);
  };
  return { first: await measured(0), deep: await measured(10_000 - pageRows) };
}

async function measure(seconds: number): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-ledger-'));
  const open = (name: string): Promise<Ledger> =>
    openSqliteLedger({ dataDir: join(folder, name), clock: systemClock, dailyLimitUnit: 'dollars', plans });
  try {
    const fresh = await open('empty');
    await fillAccounts(fresh, shape);
    const empty = await load(fresh, seconds);
    await fillGroups(fresh, shape);
    const grouped = await load(fresh, seconds);
    await fillLimits(fresh, shape);
    const limited = await load(fresh, seconds);
    await fresh.close();

    const made = await open('full');
    await fillAccounts(made, shape);
    await made.close();
    fillRecords(join(folder, 'full'), shape);
    const filled = await open('full');
    const page = await pages(filled);
    const full = await load(filled, seconds);
    await filled.close();
    const violations = verifyLedgerFile(join(folder, 'full'));
    if (violations.length > 0) throw new Error(violations.join('\n'));

    const ownUs = ({ pairUs, mainUs }: Load): number => pairUs - mainUs;
    const formatLoad = ({ rate, p50Ms, p99Ms }: Load): string =>
      `${formatNumber(rate)} commands/s, p50 ${formatNumber(p50Ms)} ms, p99 ${formatNumber(p99Ms)} ms`;
    return [
      {
        what: 'ledger, 64 callers, empty',
        measured: formatLoad(empty),
        target: 'at least 15,000/s',
        reached: empty.rate >= 15_000,
      },
      {
        what: 'ledger, 64 callers, a million records',
        measured: `${formatLoad(full)}: ${formatNumber(full.rate / empty.rate)} of empty`,
        target: 'at least 0.6 of empty',
        reached: full.rate >= 0.6 * empty.rate,
      },
      {
        what: 'CPU of an admission and its settlement, 64 callers: ledger’s threads alone / with the callers’ thread',
        measured: `empty ${formatNumber(empty.pairUs - empty.mainUs)} / ${formatNumber(empty.pairUs)} µs, a million records ${formatNumber(full.pairUs - full.mainUs)} / ${formatNumber(full.pairUs)} µs`,
        target: 'at most 33 µs with the callers’ thread, empty',
        reached: empty.pairUs <= 33,
      },
      {
        what: 'the same with 20 limits that bind the key, in two groups, compared with no limits; ledger’s threads alone',
        measured: `${formatNumber(ownUs(limited))} µs: ${formatNumber(ownUs(limited) / ownUs(grouped))} times the ${formatNumber(ownUs(grouped))} µs without limits (without groups ${formatNumber(ownUs(empty))} µs)`,
        target: 'at most 1.25 times',
        reached: ownUs(limited) <= 1.25 * ownUs(grouped),
      },
      {
        what: 'activity page of a million records: newest, and up to the 10,000th of a filter',
        measured: `${formatNumber(page.first)} ms, ${formatNumber(page.deep)} ms`,
        target: 'under 5 ms',
        reached: page.first < 5 && page.deep < 5,
      },
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Measures in a separate process on all cores, because the bench pins itself to one. `seconds`: the duration of each of the two loads. */
export function benchLedger(seconds: number): Row[] {
  const node = [process.execPath, import.meta.filename, '--json', String(seconds)];
  const pinned = spawnSync('taskset', ['--version']).status === 0;
  const [program = '', ...args] = pinned ? ['taskset', '-c', `0-${cpus().length - 1}`, ...node] : node;
  const { status, stdout } = spawnSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  if (status !== 0) throw new Error('the bench of the ledger failed');
  return JSON.parse(stdout) as Row[];
}

if (import.meta.main) {
  const json = process.argv[2] === '--json';
  const result = await measure(Number((json ? process.argv[3] : process.argv[2]) ?? 5));
  process.stdout.write(
    json ? JSON.stringify(result) : `${table(result.map(row => ({ ...row, load: loadavg()[0] ?? 0 })))}\n`,
  );
}
