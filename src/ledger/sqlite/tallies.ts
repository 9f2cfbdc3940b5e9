import type { Query } from '../../lib/sqlite/database.ts';
import type { LimitScope } from '../ledger.ts';
import type { Tally, TallySpan } from '../rows.ts';
import { latestTimes } from '../rules/limits.ts';
import type { Sql } from './sql.ts';

interface TallyRecord {
  readonly model_id: bigint;
  readonly end_user_id: bigint | null;
  readonly at: bigint;
  readonly requests: bigint;
  readonly spent: bigint;
  readonly held: bigint;
  readonly tokens: bigint;
  readonly tokens_held: bigint;
  readonly running: bigint;
}

type TallyValues = { account: number; scope: number | string; start: number; end: number };

const scopes: Readonly<Record<LimitScope, string>> = {
  account: 'account_id = @account',
  group: 'account_id = @account AND groups LIKE @scope',
  key: 'account_id = @account AND key_id = @scope',
};
/** Indexed by their key first. */
const keyUsage = 'key_id = @scope';

/** Adds up the requests of a scope from the file. */
export class Tallies {
  readonly #sql: Sql;
  readonly #queries = new Map<string, Query<[TallyValues], TallyRecord>>();

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  read(span: TallySpan): Tally[] {
    const { accountId: account, scope, scopeId, startMs, endMs } = span;
    const values = {
      account,
      scope: scope === 'group' ? `%,${scopeId},%` : scopeId,
      start: Math.max(startMs, Number.MIN_SAFE_INTEGER),
      end: Math.min(endMs, Number.MAX_SAFE_INTEGER),
    };
    return this.#query(span).all(values).map(toTally);
  }

  #query({ scope, live, byTime }: TallySpan): Query<[TallyValues], TallyRecord> {
    const name = `${scope} ${live} ${byTime}`;
    const known = this.#queries.get(name);
    if (known !== undefined) return known;
    const query = this.#sql.prepare<[TallyValues], TallyRecord>(tallyText(scope, live, byTime));
    this.#queries.set(name, query);
    return query;
  }
}

/** A table of requests, with SQL for their time of admission and for the amounts that each adds. */
interface Source {
  readonly table: 'usage' | 'hold' | 'voided';
  readonly at: string;
  readonly sums: string;
}

const usedTokens = 'iif(text = 1, input + cache_read + cache_write_5m + cache_write_1h + output, 0)';
const heldTokens = 'iif(text = 1, input_tokens + coalesce(tokens, 0), 0)';
const holds: Source = { table: 'hold', at: 'admitted_at_ms', sums: `0, held, 0, ${heldTokens}, 1` };
const sources: readonly Source[] = [
  { table: 'usage', at: 'created_at_ms', sums: `cost, 0, ${usedTokens}, 0, 0` },
  holds,
  { table: 'voided', at: 'admitted_at_ms', sums: '0, 0, 0, 0, 0' },
];

function tallyText(scope: LimitScope, live: boolean, byTime: boolean): string {
  const parts = (live ? [holds] : sources).map(({ table, at, sums }) => {
    const where = table === 'usage' && scope === 'key' ? keyUsage : scopes[scope];
    const latest = `(SELECT ${at} FROM ${table} WHERE ${where} ORDER BY ${at} DESC LIMIT 1 OFFSET ${latestTimes})`;
    const start = byTime ? `min(@start, coalesce(${latest}, -9007199254740991))` : '@start';
    return `SELECT model_id, end_user_id, ${byTime ? at : '0'} AS at, iif(free = 1, requests, 1) AS requests, ${sums}
      FROM ${table} WHERE ${where} AND ${at} >= ${start} AND ${at} < @end`;
  });
  return `WITH request (model_id, end_user_id, at, requests, spent, held, tokens, tokens_held, running) AS (${parts.join(' UNION ALL ')})
    SELECT model_id, end_user_id, at, sum(requests) AS requests, sum(spent) AS spent, sum(held) AS held, sum(tokens) AS tokens,
      sum(tokens_held) AS tokens_held, sum(running) AS running FROM request GROUP BY model_id, end_user_id, at ORDER BY at`;
}

function toTally(record: TallyRecord): Tally {
  const { requests, spent, held, tokens, running } = record;
  return {
    modelId: Number(record.model_id),
    endUserId: record.end_user_id === null ? null : Number(record.end_user_id),
    admittedAtMs: Number(record.at),
    requests,
    spent,
    held,
    tokens,
    tokensHeld: record.tokens_held,
    running,
  };
}
