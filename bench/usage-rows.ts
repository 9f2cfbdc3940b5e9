import type Database from 'better-sqlite3';

const dayMs = 86_400_000;
const hourMs = 3_600_000;
const [models, providers, keys, endUsers, tagSets] = [8, 4, 40, 500, 12];

/** The number of rows and the time over which they are spread. */
export interface UsageRows {
  readonly rows: number;
  readonly startMs: number;
  readonly endMs: number;
  /** One request in this many has the rare provider, and another one in this many has the rare set of tags. */
  readonly rareEvery: number;
}

/**
 * Fills a new ledger with settled requests of account 1 and the sums that their settles would have made. `note` is called after each step. The account's balance does not match them, so `tollgate ledger verify` fails.
 */
export function addUsageRows(
  db: Database.Database,
  of: UsageRows,
  note: (step: string) => void = () => undefined,
): void {
  for (const step of [addNames, addUsage, addSums]) {
    db.transaction(step)(db, of);
    note(step.name);
  }
}

/** Adds the models, providers, tags and other names to which records refer. The last provider and the last set of tags are the rare ones. */
function addNames(db: Database.Database, { startMs }: UsageRows): void {
  const model = db.prepare('INSERT INTO model (id, name) VALUES (?, ?)');
  for (let id = 1; id <= models; id++) model.run(id, `acme/model-${id}`);
  const provider = db.prepare('INSERT INTO provider (id, name) VALUES (?, ?)');
  for (let id = 1; id <= providers; id++) provider.run(id, `provider-${id}`);
  db.exec("INSERT INTO endpoint (id, name) VALUES (2, '/v1/chat/completions')");
  db.exec('INSERT INTO price (id, input, output) VALUES (1, 1000000, 4000000)');
  db.exec(`INSERT INTO call_kind (id, model_id, provider_id, endpoint_id)
    SELECT row_number() OVER (), m.id, p.id, 2 FROM model m, provider p`);
  const key = db.prepare(
    `INSERT INTO api_key (id, account_id, hash, masked, created_at_ms, state, label, held, running, use_subs_first, fallback_to_payg, tags)
     VALUES (?, 1, randomblob(32), 'sk-tg-…', ?, 'enabled', ?, 0, 0, 1, 1, '{}')`,
  );
  for (let id = 2; id <= keys; id++) key.run(id, startMs, `key ${id}`);
  db.prepare("UPDATE meta SET value = ? WHERE name = 'api_key'").run(keys);
  const user = db.prepare('INSERT INTO end_user (id, name) VALUES (?, ?)');
  for (let id = 1; id <= endUsers; id++) user.run(id, `user-${id}`);
  const tag = db.prepare("INSERT INTO tag (id, name, value) VALUES (?, 'team', ?)");
  const tagSet = db.prepare('INSERT INTO tag_set (id, tags) VALUES (?, ?)');
  for (let id = 1; id <= tagSets; id++) {
    tag.run(id, `team-${id}`);
    tagSet.run(id, JSON.stringify({ team: `team-${id}` }));
  }
}

/** Returns an SQL expression for a number of at least 0 and below `below`, which depends on the row's number. */
const mixed = (salt: number, below: string | number): string => `(((n * 2654435761 + ${salt}) >> 7) % ${below})`;

function addUsage(db: Database.Database, { rows, startMs, endMs, rareEvery }: UsageRows): void {
  const indexes = db
    .prepare<[], { name: string; sql: string }>(
      "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'usage' AND sql IS NOT NULL",
    )
    .all();
  for (const { name } of indexes) db.exec(`DROP INDEX ${name}`);
  const values = {
    id: 'n',
    request: 'n * 7919',
    account_id: '1',
    key_id: `1 + ${mixed(1, keys)}`,
    model_id: `1 + ${mixed(2, models)}`,
    free: '0',
    payer: '0',
    payers: '0',
    created_at_ms: `${startMs} + n * ${(endMs - startMs) / rows}`,
    state: `iif(n % 97 = 0, 3, iif(n % 31 = 0, 2, 0))`,
    usage_source: '0',
    service_tier: '0',
    input: `100 + ${mixed(3, 4000)}`,
    cache_read: mixed(4, 2000),
    cache_write_5m: '0',
    cache_write_1h: '0',
    output: `20 + ${mixed(5, 900)}`,
    reasoning: '0',
    images: '0',
    cost: `(100 + ${mixed(3, 4000)}) * 1000 + (20 + ${mixed(5, 900)}) * 4000`,
    written_off: '0',
    price_id: '1',
    multiplier_permille: '1000',
    discount_permille: '0',
    latency_ms: `200 + ${mixed(6, 9000)}`,
    first_event_ms: `100 + ${mixed(7, 900)}`,
    provider_id: `iif(n % ${rareEvery} = 0, ${providers}, 1 + ${mixed(8, providers - 1)})`,
    attempts: '1',
    asked: '0',
    admitted: '10000000',
    admitted_tokens: '2048',
    plan_tokens: '0',
    end_user_id: `1 + ${mixed(9, endUsers)}`,
    tags_id: `iif(n % ${rareEvery} = 1, ${tagSets}, 1 + ${mixed(10, tagSets - 1)})`,
    endpoint_id: '2',
  };
  const names = Object.keys(values).join(', ');
  const insert = db.prepare(
    `INSERT INTO usage (${names}) WITH RECURSIVE seq (n) AS (SELECT CAST(@from AS INTEGER) UNION ALL SELECT n + 1 FROM seq WHERE n < @to)
     SELECT ${Object.values(values)
       .map((value, index) => (Object.keys(values)[index] === 'created_at_ms' ? `CAST(${value} AS INTEGER)` : value))
       .join(', ')} FROM seq`,
  );
  const step = 500_000;
  for (let from = 1; from <= rows; from += step) insert.run({ from, to: Math.min(rows, from + step - 1) });
  for (const { sql } of indexes) db.exec(sql);
}

function addSums(db: Database.Database): void {
  const sums = `count(*), sum(u.state = 3), sum(u.input), sum(u.cache_read), 0, 0, sum(u.output), 0, 0, sum(u.cost), 0, sum(u.latency_ms), 0, 0`;
  const kind = '(SELECT id FROM call_kind k WHERE k.model_id = u.model_id AND k.provider_id = u.provider_id)';
  for (const [grouped, group] of [kind, 'u.key_id', undefined, 'u.end_user_id', 'u.tags_id'].entries()) {
    if (group === undefined) continue;
    db.exec(
      `INSERT INTO usage_sum SELECT 1, 0, ${grouped}, u.created_at_ms / ${hourMs}, ${group}, ${sums} FROM usage u GROUP BY 4, 5`,
    );
  }
  const added = `sum(requests), sum(failed), sum(input), sum(cache_read), 0, 0, sum(output), 0, 0, sum(cost), 0, sum(latency_ms), 0, 0`;
  db.exec(
    `INSERT INTO usage_sum SELECT 1, 1, grouped, number / ${dayMs / hourMs}, group_id, ${added} FROM usage_sum WHERE period = 0 GROUP BY 3, 4, 5`,
  );
}
