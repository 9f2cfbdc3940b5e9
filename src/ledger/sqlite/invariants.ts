import type { SumChange } from '../rows.ts';
import { dayMs, hourMs } from '../rules/calendar.ts';
import type { Connection } from '../../lib/sqlite/database.ts';
import { checkAudit } from './audit-invariants.ts';
import { codes, encode } from './codes.ts';
import { checkLimitUses } from './limit-invariants.ts';
import { activityStart, arithmetic, type Invariant, planInvariants } from './plan-invariants.ts';

const buckets = [
  'input',
  'cache_read',
  'cache_write_5m',
  'cache_write_1h',
  'output',
  'reasoning',
  'images',
  'cost',
  'written_off',
  'latency_ms',
];
/** Columns that are summed over records with a known provider cost. */
const known = { provider_cost: 'provider_cost', margin: 'cost - provider_cost' } as const;

const account = encode(codes.payer, 'account');
const keyBalance = encode(codes.payer, 'key_balance');
const groupBalance = encode(codes.payer, 'group_balance');

/** The column by which records are summed for each grouping. End users and tags are only compared in total, because values beyond the maximum number of a day are summed as one, `(other)`. */
const groupColumns = {
  kind: '(SELECT k.id FROM call_kind k WHERE k.model_id = u.model_id AND k.provider_id = u.provider_id AND k.endpoint_id = u.endpoint_id)',
  key: 'key_id',
  group: "CAST(substr(groups, 2, instr(substr(groups, 2), ',') - 1) AS INTEGER)",
  end_user: 'iif(end_user_id IS NULL, NULL, 0)',
  tag: 'iif(tags_id IS NULL, NULL, 0)',
} as const;

const isKept = `created_at_ms >= ${activityStart}`;
const firstDay = `${activityStart} / ${dayMs}`;

/**
 * Returns the invariant that the stored sums by a period and a grouping equal those of the usage rows. For end users and for tags it compares
 * only the totals.
 */
function sumsInvariant(period: 'hour' | 'day', grouped: SumChange['grouped']): Invariant {
  const storedColumns = [...buckets, ...Object.keys(known)].map(bucket => `sum(${bucket})`).join(', ');
  const recordColumns = [...buckets, ...Object.values(known)].map(bucket => `coalesce(sum(${bucket}), 0)`).join(', ');
  const isWhole = grouped === 'end_user' || grouped === 'tag';
  const ms = period === 'hour' ? hourMs : dayMs;
  const storedSums = `SELECT account_id, number, ${isWhole ? '0 AS group_id' : 'group_id'}, sum(requests), sum(failed), ${storedColumns} FROM usage_sum
    WHERE period = ${encode(codes.period, period)} AND grouped = ${encode(codes.grouped, grouped)} AND number >= ${activityStart} / ${ms} GROUP BY 1, 2, 3`;
  // A record is part of one sum for each of its tags.
  const from = grouped === 'tag' ? 'usage u JOIN tag_set t ON t.id = u.tags_id, json_each(t.tags)' : 'usage u';
  const recordSums = `SELECT account_id, created_at_ms / ${ms} AS number, ${groupColumns[grouped]} AS group_id, count(*), sum(iif(state = ${encode(codes.state, 'upstream_failed')}, 1, 0)), ${recordColumns}
    FROM ${from} WHERE ${groupColumns[grouped]} IS NOT NULL AND ${isKept} GROUP BY 1, 2, 3`;
  return {
    name: `the stored sums by ${period} and ${grouped} equal those of the records`,
    level: 'full',
    sql: `SELECT 'account ' || account_id || ', ${period} ' || number || ', ${grouped} ' || group_id AS what
      FROM (SELECT * FROM (${storedSums} EXCEPT ${recordSums}) UNION SELECT * FROM (${recordSums} EXCEPT ${storedSums}))`,
  };
}

/** Every invariant. */
export const invariants: readonly Invariant[] = [
  {
    name: 'an account’s balance is its credits, less what was moved to keys and groups and what its plans and requests cost',
    level: 'fast',
    sql: `SELECT 'account ' || a.id || ' has ' || a.balance || ', but its entries and costs add up to ' || due AS what FROM (
        SELECT id, balance,
          coalesce((SELECT sum(amount) FROM entry e
            WHERE e.account_id = account.id AND e.key_id IS NULL AND e.group_id IS NULL), 0)
          - coalesce((SELECT sum(d.spent - d.spent_own) FROM key_day d JOIN api_key k ON k.id = d.key_id
            WHERE k.account_id = account.id), 0)
          + coalesce((SELECT sum(g.spent) FROM key_group g WHERE g.account_id = account.id), 0) AS due
        FROM account) a WHERE a.balance <> due`,
  },
  {
    name: 'a key’s balance is what was moved to it, less what it paid',
    level: 'fast',
    sql: `SELECT 'key ' || k.id || ' has ' || coalesce(CAST(k.balance AS TEXT), 'no balance') || ', but its entries and costs add up to ' || due AS what FROM (
        SELECT id, balance,
          coalesce((SELECT sum(e.amount) FROM entry e WHERE e.account_id = api_key.account_id
            AND e.key_id = api_key.id), 0)
          - coalesce((SELECT sum(spent_own) FROM key_day d WHERE d.key_id = api_key.id), 0) AS due
        FROM api_key) k WHERE coalesce(k.balance, 0) <> due`,
  },
  {
    name: 'a group’s balance is what was moved to it, less what it paid',
    level: 'fast',
    sql: `SELECT 'group ' || g.id || ' has ' || coalesce(CAST(g.balance AS TEXT), 'no balance') || ', but its entries and costs add up to ' || due AS what FROM (
        SELECT id, balance, coalesce((SELECT sum(e.amount) FROM entry e WHERE e.account_id = key_group.account_id
            AND e.group_id = key_group.id), 0) - spent AS due
        FROM key_group) g WHERE coalesce(g.balance, 0) <> due`,
  },
  {
    name: 'the amount that a group has spent is what its balance paid for records',
    level: 'full',
    sql: `SELECT 'group ' || id || ' has spent ' || sum(spent) || ' more than its records cost' AS what FROM (
        SELECT id, spent FROM key_group UNION ALL SELECT payer_group, -cost FROM usage WHERE payer_group IS NOT NULL
      ) GROUP BY id HAVING sum(spent) < 0 OR (sum(spent) <> 0 AND ${activityStart} = 0)`,
  },
  {
    name: 'a group, its parent and its keys belong to one account, and a removed group has no other group or unrevoked key left',
    level: 'fast',
    sql: `SELECT 'group ' || g.id AS what FROM key_group g JOIN key_group p ON p.id = g.parent_id
        WHERE p.account_id <> g.account_id OR (p.removed = 1 AND g.removed = 0)
      UNION ALL SELECT 'key ' || k.id FROM api_key k JOIN key_group g ON g.id = k.group_id
        WHERE k.account_id <> g.account_id OR (g.removed = 1 AND k.state <> 'revoked')`,
  },
  {
    name: 'the held amount of a balance is the sum of its live holds, and the balance covers it',
    level: 'fast',
    sql: `SELECT 'account ' || id || ' has ' || held || ' of ' || balance || ' held, but its holds add up to ' || due AS what FROM (
        SELECT id, held, balance,
          coalesce((SELECT sum(h.held) FROM hold h WHERE h.account_id = account.id AND h.payer = ${account}), 0) AS due
        FROM account) WHERE held <> due OR held > balance
      UNION ALL SELECT 'key ' || id || ' has ' || held || ' of ' || coalesce(balance, 0) || ' held, but its holds add up to ' || due FROM (
        SELECT id, held, balance,
          coalesce((SELECT sum(h.held) FROM hold h WHERE h.key_id = api_key.id AND h.payer = ${keyBalance}), 0) AS due
        FROM api_key) WHERE held <> due OR held > coalesce(balance, 0)
      UNION ALL SELECT 'group ' || id || ' has ' || held || ' of ' || coalesce(balance, 0) || ' held, but its holds add up to ' || due FROM (
        SELECT id, held, balance, coalesce((SELECT sum(h.held) FROM hold h WHERE h.payer_group = key_group.id), 0) AS due
        FROM key_group) WHERE held <> due OR held > coalesce(balance, 0)
      UNION ALL SELECT 'hold ' || id || ' must name a group exactly if a group pays' FROM hold
        WHERE (payer = ${groupBalance}) <> (payer_group IS NOT NULL)`,
  },
  {
    name: 'the number of running requests of a balance is the number of its live holds that cost something',
    level: 'fast',
    sql: `SELECT 'account ' || id || ': ' || running AS what FROM account a WHERE running <>
        (SELECT count(*) FROM hold h WHERE h.account_id = a.id AND h.payer = ${account} AND h.tokens IS NOT NULL)
      UNION ALL SELECT 'key ' || id || ': ' || running FROM api_key k WHERE running <>
        (SELECT count(*) FROM hold h WHERE h.key_id = k.id AND h.payer = ${keyBalance} AND h.tokens IS NOT NULL)
      UNION ALL SELECT 'group ' || id || ': ' || running FROM key_group g WHERE running <>
        (SELECT count(*) FROM hold h WHERE h.payer_group = g.id AND h.tokens IS NOT NULL)`,
  },
  {
    name: 'the amount that a key holds for a day is the sum of the live holds admitted that day',
    level: 'fast',
    sql: `SELECT 'key ' || key_id || ', day ' || day || ' holds ' || sum(held) || ' more than its holds' AS what FROM (
        SELECT key_id, day, held FROM key_day WHERE held > 0
        UNION ALL SELECT key_id, admitted_at_ms / 86400000, -held FROM hold
      ) GROUP BY key_id, day HAVING sum(held) <> 0`,
  },
  {
    name: 'a request is live or settled, never both',
    level: 'fast',
    sql: `SELECT 'request ' || id AS what FROM hold WHERE id IN (SELECT id FROM usage)`,
  },
  {
    name: 'an id belongs to one request: a voided hold with the same id has the same key and model',
    level: 'full',
    sql: ['hold', 'usage']
      .map(
        table => `SELECT 'request ' || v.id AS what FROM voided v JOIN ${table} r ON r.id = v.id
          WHERE r.expires_at_ms IS NULL AND (r.key_id <> v.key_id OR r.model_id <> v.model_id)`,
      )
      .join(' UNION ALL '),
  },
  {
    name: 'the balance of a revoked key is only what its holds still need',
    level: 'fast',
    sql: `SELECT 'key ' || id AS what FROM api_key WHERE state = 'revoked' AND coalesce(balance, 0) <> held`,
  },
  {
    name: 'a hold and its key belong to one account',
    level: 'fast',
    sql: `SELECT 'hold ' || h.id AS what FROM hold h JOIN api_key k ON k.id = h.key_id WHERE k.account_id <> h.account_id`,
  },
  {
    name: 'the counters of ids and numbers are not below the highest one in use',
    level: 'fast',
    sql: `SELECT 'account ' || a.id AS what FROM account a
        WHERE a.entries < (SELECT coalesce(max(number), 0) FROM entry WHERE account_id = a.id)
          OR a.plans < (SELECT coalesce(max(number), 0) FROM plan_period WHERE account_id = a.id)
          OR a.plans < (SELECT coalesce(max(number), 0) FROM subscription WHERE account_id = a.id)
      UNION ALL SELECT m.name FROM meta m WHERE m.value < CASE m.name WHEN 'account' THEN (SELECT max(id) FROM account)
        WHEN 'api_key' THEN (SELECT max(id) FROM api_key) WHEN 'limit' THEN (SELECT max(id) FROM usage_limit) WHEN 'group' THEN (SELECT max(id) FROM key_group) WHEN 'management_key' THEN (SELECT max(id) FROM management_key) WHEN 'session' THEN (SELECT max(id) FROM session) END`,
  },
  {
    name: 'the unused request ids are enough for at least a day',
    level: 'fast',
    sql: `SELECT 'the highest id ' || value || ': no request can be admitted' AS what FROM meta
      WHERE name = 'last_id' AND value > ${2 ** 53 - 1 - 86_400_000 * 4096}`,
  },
  {
    name: 'no request of the gateway has an id above the last one that it issued',
    level: 'full',
    sql: `SELECT 'request ' || id AS what FROM (
        SELECT id FROM hold WHERE expires_at_ms IS NULL UNION ALL SELECT id FROM usage WHERE expires_at_ms IS NULL
      ) WHERE id > (SELECT value FROM meta WHERE name = 'last_id')`,
  },
  {
    name: 'what a key has spent on a day is what its records of that day cost',
    level: 'full',
    sql: `SELECT 'key ' || key_id || ', day ' || day || ' has spent ' || sum(spent) || ' too much, ' || sum(own) || ' of its own balance' AS what FROM (
        SELECT key_id, day, spent, spent_own AS own FROM key_day WHERE day >= ${firstDay}
        UNION ALL SELECT key_id, created_at_ms / 86400000, -cost, iif(payer = ${keyBalance}, -cost, 0) FROM usage WHERE ${isKept}
      ) GROUP BY key_id, day HAVING sum(spent) <> 0 OR sum(own) <> 0`,
  },
  {
    name: 'the number of a key’s requests of a day is that of those held, settled and voided',
    level: 'full',
    sql: `SELECT 'key ' || key_id || ', day ' || day || ': ' || sum(n) || ' too many' AS what FROM (
        SELECT key_id, day, requests AS n FROM key_day
        UNION ALL SELECT key_id, admitted_at_ms / 86400000, -1 FROM hold
        UNION ALL SELECT key_id, created_at_ms / 86400000, -1 FROM usage
        UNION ALL SELECT key_id, admitted_at_ms / 86400000, -1 FROM voided
      ) WHERE day >= ${firstDay} GROUP BY key_id, day HAVING sum(n) <> 0`,
  },
  {
    name: 'each record with a written-off amount has a write-off entry of the same amount',
    level: 'full',
    sql: `SELECT 'request ' || id || ': the entry has ' || sum(written_off) || ' more than the record' AS what FROM (
        SELECT usage_id AS id, written_off FROM entry WHERE kind = 'write_off'
          AND (${activityStart} = 0 OR usage_id IN (SELECT id FROM usage WHERE ${isKept}))
        UNION ALL SELECT id, -written_off FROM usage WHERE written_off > 0 AND ${isKept}
      ) GROUP BY id HAVING sum(written_off) <> 0`,
  },
  ...planInvariants,
  arithmetic,
  ...codes.grouped.flatMap(grouped => [sumsInvariant('hour', grouped), sumsInvariant('day', grouped)]),
];

/**
 * Returns the violated invariants, in words for the operator; empty if all hold. Reads one snapshot, so that writers can go
 * on meanwhile.
 */
export function checkInvariants(db: Connection, level: 'fast' | 'full'): string[] {
  return db.transaction(() => {
    const found = invariants.flatMap(each => (level === 'full' || each.level === 'fast' ? violations(db, each) : []));
    if (level === 'full') found.push(...checkLimitUses(db), ...checkAudit(db), ...damage(db));
    return found;
  })();
}

function violations(db: Connection, invariant: Invariant): string[] {
  const rows = db.prepare<[], { what: string }>(`${invariant.sql} LIMIT 20`).all();
  return rows.map(row => describeViolation(invariant.name, row.what));
}

/** Returns the text for the operator about a violated invariant. */
export function describeViolation(name: string, what: string): string {
  return `violated: ${name}; ${what}`;
}

/** Returns the damage that SQLite itself finds in the file. */
function damage(db: Connection): string[] {
  const checked = db.prepare<[], { quick_check: string }>('PRAGMA quick_check').all();
  const orphans = db.prepare<[], { table: string }>('PRAGMA foreign_key_check').all();
  return [
    ...checked.map(row => row.quick_check).filter(text => text !== 'ok'),
    ...orphans.map(row => `a row of the table ${row.table} refers to a row that does not exist`),
  ];
}
