import { codes, encode } from './codes.ts';

/**
 * An invariant of a ledger, as one query that returns its violations. A `fast` one reads only accounts, keys, days,
 * plans and holds; a `full` one also reads every record.
 */
export interface Invariant {
  readonly name: string;
  readonly level: 'fast' | 'full';
  /** Selects one text column, `what`, one row per violation. */
  readonly sql: string;
}

/** SQL for the time since which all records exist. Older records were removed; their sums were kept. */
export const activityStart = "coalesce((SELECT value FROM meta WHERE name = 'activity_start'), 0)";

const money = encode(codes.payers, 'money');
const plan = encode(codes.payers, 'plan');
const free = encode(codes.payers, 'free_request');

/** The invariants of plans: their periods, prices, tokens and free requests. */
export const planInvariants: readonly Invariant[] = [
  {
    name: 'an account with a plan names the plan’s only live period, and an account without a plan names none',
    level: 'fast',
    sql: `SELECT 'account ' || a.id AS what FROM account a
        LEFT JOIN subscription s ON s.account_id = a.id AND s.state <> 'ended'
        LEFT JOIN plan_period p ON p.account_id = a.id AND p.live = 1
      WHERE p.number IS DISTINCT FROM a.period OR (p.number IS NULL) <> (s.number IS NULL) OR p.subscription IS DISTINCT FROM s.number`,
  },
  {
    name: 'the periods of a plan do not overlap, and only the last one can be live',
    level: 'fast',
    sql: `SELECT 'account ' || a.account_id || ', period ' || a.number AS what FROM plan_period a JOIN plan_period b
        ON b.account_id = a.account_id AND b.subscription = a.subscription AND b.nth > a.nth WHERE b.start_ms < a.end_ms OR a.live = 1
      UNION ALL SELECT 'account ' || p.account_id || ', period ' || p.number FROM plan_period p
        JOIN subscription s ON s.account_id = p.account_id AND s.number = p.subscription
        WHERE s.plan <> p.plan OR p.start_ms < s.started_at_ms`,
  },
  {
    name: 'each period was paid for once, with an entry of its price',
    level: 'fast',
    sql: `SELECT 'account ' || account_id || ', period ' || number || ' lacks a payment of ' || sum(price) AS what FROM (
        SELECT account_id, number, price FROM plan_period
        UNION ALL SELECT account_id, period, amount FROM entry WHERE kind = 'plan_price'
      ) GROUP BY account_id, number HAVING sum(price) <> 0`,
  },
  {
    name: 'the tokens that are held of a period are those of its live holds',
    level: 'fast',
    sql: `SELECT 'account ' || account_id || ', period ' || number || ' holds ' || sum(held) || ' more than its holds' AS what FROM (
        SELECT account_id, number, held FROM plan_period
        UNION ALL SELECT account_id, period, -plan_held FROM hold WHERE plan_held > 0
      ) GROUP BY account_id, number HAVING sum(held) <> 0`,
  },
  {
    name: 'a hold draws on its payers only, and holds no more of the plan’s output tokens than output tokens in all',
    level: 'fast',
    sql: `SELECT 'hold ' || id AS what FROM hold WHERE plan_output > coalesce(tokens, 0) OR plan_output > plan_held
        OR (period IS NULL) <> (payers = ${money})
        OR (payers IN (${plan}, ${free}) AND held <> 0) OR (payers IN (${money}, ${free}) AND plan_held <> 0)`,
  },
  {
    name: 'the used tokens of a period are those that its requests took from it',
    level: 'full',
    sql: `SELECT 'account ' || account_id || ', period ' || number || ' used ' || sum(used) || ' more than it paid' AS what FROM (
        SELECT account_id, number, used FROM plan_period WHERE start_ms >= ${activityStart}
        UNION ALL SELECT u.account_id, u.period, -u.plan_tokens FROM usage u
          JOIN plan_period p ON p.account_id = u.account_id AND p.number = u.period AND p.start_ms >= ${activityStart}
          WHERE u.plan_tokens > 0
      ) GROUP BY account_id, number HAVING sum(used) <> 0`,
  },
  {
    name: 'a record was charged to its payers only',
    level: 'full',
    sql: `SELECT 'request ' || id AS what FROM usage WHERE (period IS NULL) <> (payers = ${money})
        OR (payers IN (${plan}, ${free}) AND cost <> 0) OR (payers = ${free} AND written_off <> 0)
        OR (payers IN (${money}, ${free}) AND plan_tokens <> 0)`,
  },
  {
    name: 'the number of a plan’s free requests of a day is that of those that run or did not fail',
    level: 'full',
    sql: `SELECT 'account ' || account_id || ', day ' || day || ': ' || sum(n) || ' too many' AS what FROM (
        SELECT account_id, day, requests AS n FROM plan_day
        UNION ALL SELECT account_id, admitted_at_ms / 86400000, -requests FROM hold WHERE payers = ${free}
        UNION ALL SELECT account_id, created_at_ms / 86400000, -requests FROM usage
          WHERE payers = ${free} AND state <> ${encode(codes.state, 'upstream_failed')}
      ) WHERE day >= ${activityStart} / 86400000 GROUP BY account_id, day HAVING sum(n) <> 0`,
  },
];

/** The buckets of tokens, in the order in which they are paid for, with the price of each. */
const paid = [
  ['input', 'p.input'],
  ['cache_write_5m', 'coalesce(p.cache_write_5m, p.input)'],
  ['cache_write_1h', 'coalesce(p.cache_write_1h, p.input)'],
  ['cache_read', 'coalesce(p.cache_read, p.input)'],
  ['output', 'p.output'],
] as const;

/** SQL for the tokens of a bucket that money paid for: those that the plan did not pay for. The plan pays for buckets in the order of `paid`, or from its end if money pays first. */
function byMoney(index: number): string {
  const bucket = `u.${paid[index]?.[0] ?? ''}`;
  const sum = (from: number, to: number): string =>
    ['0', ...paid.slice(from, to).map(([name]) => `u.${name}`)].join(' + ');
  const before = `iif(u.payers = ${encode(codes.payers, 'money_plan')}, ${sum(index + 1, paid.length)}, ${sum(0, index)})`;
  return `(${bucket} - min(${bucket}, max(0, u.plan_tokens - (${before}))))`;
}

const listed = [
  ...paid.map(([, price], index) => `${byMoney(index)} * coalesce(${price}, 0)`),
  'u.images * coalesce(p.image, 0)',
];

/** SQL for the cost of calls of tools that are priced per call: whole nano-dollars, without factors. */
const ofTools = `coalesce((SELECT sum(CAST(json_extract(value, '$[1]') AS BIGINT) * CAST(json_extract(value, '$[2]') AS BIGINT)) FROM json_each(u.tools)), 0)`;

/**
 * The cost in money is the exact sum × multiplier × (1 − discount), rounded once, half up. The query splits the first product at 10^6 before it
 * multiplies by the discount, because the full product does not fit into 64 bits.
 */
export const arithmetic: Invariant = {
  name: 'a record’s cost is the sum of tokens × price for the tokens that money paid, × factor, rounded once (half up)',
  level: 'full',
  sql: `SELECT 'request ' || id || ' cost ' || total AS what FROM (
      SELECT u.id, u.cost + u.written_off - ${ofTools} AS total, 1000 - u.discount_permille AS factor, (${listed.join(' + ')}) * u.multiplier_permille AS micro
      FROM usage u JOIN price p ON p.id = u.price_id WHERE u.payers <> ${free}
    ) WHERE total <> micro / 1000000 * factor / 1000
      + (micro / 1000000 * factor % 1000 * 1000000 + micro % 1000000 * factor + 500000000) / 1000000000`,
};
