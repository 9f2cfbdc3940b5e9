-- Rows as the rules read and write them (src/ledger/rows.ts): no number is made by the database, rolling minutes are rows, and what every request
-- writes is slim. Applied with the functions of `migrateLedger`: now_ms(), request_part(id, request_id), rolling_minute(at).

-- The last number given to accounts and keys.
INSERT INTO meta (name, value) VALUES
  ('account', (SELECT coalesce(max(id), 0) FROM account)),
  ('api_key', (SELECT coalesce(max(id), 0) FROM api_key)),
  ('management_key', (SELECT coalesce(max(id), 0) FROM management_key));

CREATE TABLE provider (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO provider (id, name) SELECT row_number() OVER (ORDER BY provider), provider FROM (SELECT DISTINCT provider FROM usage);

-- Admissions of the last minute of keys, and of accounts' free requests: ascending little-endian doubles, each time * 4096 + count - 1; see
-- src/ledger/rules/minutes.ts.
CREATE TABLE key_minute (
  key_id INTEGER PRIMARY KEY REFERENCES api_key (id),
  admissions BLOB NOT NULL
) STRICT;
CREATE TABLE free_minute (
  account_id INTEGER PRIMARY KEY REFERENCES account (id),
  admissions BLOB NOT NULL
) STRICT;
INSERT INTO key_minute SELECT key_id, rolling_minute(at) FROM (
    SELECT key_id, admitted_at_ms AS at FROM hold UNION ALL SELECT key_id, created_at_ms FROM usage
    UNION ALL SELECT key_id, admitted_at_ms FROM voided
  ) WHERE at > now_ms() - 60000 GROUP BY key_id;
INSERT INTO free_minute SELECT account_id, rolling_minute(at) FROM (
    SELECT account_id, admitted_at_ms AS at FROM hold WHERE free = 1
    UNION ALL SELECT account_id, created_at_ms FROM usage WHERE free = 1
    UNION ALL SELECT account_id, admitted_at_ms FROM voided WHERE free = 1
  ) WHERE at > now_ms() - 60000 GROUP BY account_id;

-- period: the number of the live period; NULL: no plan. plans: the last number given to a subscription or a period of the account; entries: to an
-- entry.
ALTER TABLE account ADD COLUMN period INTEGER;
ALTER TABLE account ADD COLUMN plans INTEGER NOT NULL DEFAULT 0;
ALTER TABLE account ADD COLUMN entries INTEGER NOT NULL DEFAULT 0;
UPDATE account SET period = period_id,
  plans = max(coalesce((SELECT max(p.id) FROM plan_period p WHERE p.account_id = account.id), 0),
    coalesce((SELECT max(s.id) FROM subscription s WHERE s.account_id = account.id), 0)),
  entries = coalesce((SELECT max(e.id) FROM entry e WHERE e.account_id = account.id), 0);

-- As before, numbered within the account.
CREATE TABLE subscription_of_account (
  account_id INTEGER NOT NULL REFERENCES account (id),
  number INTEGER NOT NULL,
  plan TEXT NOT NULL CHECK (plan IN ('core', 'core_pro')),
  period TEXT NOT NULL CHECK (period IN ('biweekly', 'monthly')),
  started_at_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'cancelled', 'ended')),
  PRIMARY KEY (account_id, number)
) STRICT, WITHOUT ROWID;
INSERT INTO subscription_of_account SELECT account_id, id, plan, period, started_at_ms, state FROM subscription;

-- subscription: its number. nth: periods since the start, from 0; those that nobody paid are left out.
CREATE TABLE period_of_account (
  account_id INTEGER NOT NULL REFERENCES account (id),
  number INTEGER NOT NULL,
  subscription INTEGER NOT NULL,
  plan TEXT NOT NULL CHECK (plan IN ('core', 'core_pro')),
  nth INTEGER NOT NULL CHECK (nth >= 0),
  start_ms INTEGER NOT NULL,
  end_ms INTEGER NOT NULL CHECK (end_ms > start_ms),
  price INTEGER NOT NULL CHECK (price >= 0),
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  used INTEGER NOT NULL CHECK (used >= 0),
  held INTEGER NOT NULL CHECK (held >= 0 AND used + held <= tokens),
  live INTEGER NOT NULL CHECK (live IN (0, 1)),
  PRIMARY KEY (account_id, number),
  FOREIGN KEY (account_id, subscription) REFERENCES subscription (account_id, number)
) STRICT, WITHOUT ROWID;
INSERT INTO period_of_account SELECT account_id, id, subscription_id, plan, number, start_ms, end_ms, price, tokens, used, held, live FROM plan_period;

CREATE TABLE entry_of_account (
  account_id INTEGER NOT NULL REFERENCES account (id),
  number INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('credit', 'move', 'write_off', 'plan_price')),
  key_id INTEGER REFERENCES api_key (id) CHECK ((key_id IS NULL) = (kind IN ('credit', 'plan_price'))),
  amount INTEGER NOT NULL CHECK (amount <> 0),
  usage_id INTEGER REFERENCES usage (id) CHECK ((usage_id IS NULL) = (kind <> 'write_off')),
  period INTEGER CHECK ((period IS NULL) = (kind <> 'plan_price')),
  note TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (account_id, number),
  FOREIGN KEY (account_id, period) REFERENCES plan_period (account_id, number)
) STRICT, WITHOUT ROWID;
INSERT INTO entry_of_account SELECT account_id, id, kind, key_id, amount, usage_id, period_id, note, at_ms FROM entry;

-- number: of an id's voids, because it may be admitted again after each.
CREATE TABLE voided_of_id (
  id INTEGER NOT NULL,
  number INTEGER NOT NULL,
  account_id INTEGER NOT NULL REFERENCES account (id),
  key_id INTEGER NOT NULL REFERENCES api_key (id),
  model_id INTEGER NOT NULL REFERENCES model (id),
  free INTEGER NOT NULL CHECK (free IN (0, 1)),
  admitted_at_ms INTEGER NOT NULL,
  held INTEGER NOT NULL CHECK (held >= 0),
  voided_at_ms INTEGER NOT NULL,
  reason TEXT NOT NULL CHECK (reason IN ('rejected', 'gateway_failure', 'cancelled', 'restarted', 'expired')),
  PRIMARY KEY (id, number)
) STRICT, WITHOUT ROWID;
INSERT INTO voided_of_id SELECT id, number, account_id, key_id, model_id, free, admitted_at_ms, held, voided_at_ms, reason FROM voided;

-- request: the random part of a public id that the gateway made of this id, as a signed integer; else the whole public id. Codes count from 0 in the order of src/ledger/sqlite/codes.ts. expires_at_ms: only of other services' holds.
CREATE TABLE slim_hold (
  id INTEGER PRIMARY KEY,
  request ANY NOT NULL,
  account_id INTEGER NOT NULL REFERENCES account (id),
  key_id INTEGER NOT NULL REFERENCES api_key (id),
  model_id INTEGER NOT NULL REFERENCES model (id),
  free INTEGER NOT NULL,
  payer INTEGER NOT NULL,
  payers INTEGER NOT NULL,
  admitted_at_ms INTEGER NOT NULL,
  asked INTEGER NOT NULL,
  admitted INTEGER NOT NULL,
  admitted_tokens INTEGER,
  held INTEGER NOT NULL CHECK (held >= 0),
  tokens INTEGER,
  output_pico INTEGER NOT NULL,
  expires_at_ms INTEGER,
  extension INTEGER,
  extended_tokens INTEGER,
  period INTEGER,
  plan_held INTEGER NOT NULL,
  plan_output INTEGER NOT NULL,
  first_spent INTEGER NOT NULL,
  discount_permille INTEGER NOT NULL,
  FOREIGN KEY (account_id, period) REFERENCES plan_period (account_id, number)
) STRICT;
INSERT INTO slim_hold SELECT id, request_part(id, request_id), account_id, key_id, model_id, free, payer = 'key_balance',
    CASE payers WHEN 'money' THEN 0 WHEN 'plan' THEN 1 WHEN 'plan_money' THEN 2 WHEN 'money_plan' THEN 3 ELSE 4 END,
    admitted_at_ms, asked, admitted, admitted_tokens, held, tokens, output_pico, expires_at_ms, extension, extended_tokens,
    period_id, plan_held, plan_output, first_spent, discount_permille
  FROM hold;

CREATE TABLE slim_usage (
  id INTEGER PRIMARY KEY,
  request ANY NOT NULL,
  account_id INTEGER NOT NULL REFERENCES account (id),
  key_id INTEGER NOT NULL REFERENCES api_key (id),
  model_id INTEGER NOT NULL REFERENCES model (id),
  free INTEGER NOT NULL,
  payer INTEGER NOT NULL,
  payers INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL,
  state INTEGER NOT NULL,
  usage_source INTEGER NOT NULL,
  service_tier INTEGER NOT NULL,
  input INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_write_5m INTEGER NOT NULL,
  cache_write_1h INTEGER NOT NULL,
  output INTEGER NOT NULL,
  reasoning INTEGER NOT NULL,
  images INTEGER NOT NULL,
  cost INTEGER NOT NULL CHECK (cost >= 0),
  written_off INTEGER NOT NULL CHECK (written_off >= 0),
  price_id INTEGER REFERENCES price (id),
  multiplier_permille INTEGER NOT NULL,
  discount_permille INTEGER NOT NULL,
  latency_ms INTEGER NOT NULL,
  first_event_ms INTEGER,
  provider_id INTEGER NOT NULL REFERENCES provider (id),
  attempts INTEGER NOT NULL,
  asked INTEGER NOT NULL,
  admitted INTEGER NOT NULL,
  admitted_tokens INTEGER,
  expires_at_ms INTEGER,
  period INTEGER,
  plan_tokens INTEGER NOT NULL,
  FOREIGN KEY (account_id, period) REFERENCES plan_period (account_id, number)
) STRICT;
INSERT INTO slim_usage SELECT u.id, request_part(u.id, u.request_id), u.account_id, u.key_id, u.model_id, u.free, u.payer = 'key_balance',
    CASE u.payers WHEN 'money' THEN 0 WHEN 'plan' THEN 1 WHEN 'plan_money' THEN 2 WHEN 'money_plan' THEN 3 ELSE 4 END, u.created_at_ms,
    CASE u.state WHEN 'completed' THEN 0 WHEN 'incomplete' THEN 1 WHEN 'client_aborted' THEN 2 ELSE 3 END, u.usage_source = 'estimated',
    CASE u.service_tier WHEN 'default' THEN 0 WHEN 'flex' THEN 1 ELSE 2 END,
    u.input, u.cache_read, u.cache_write_5m, u.cache_write_1h, u.output, u.reasoning, u.images, u.cost, u.written_off, u.price_id,
    u.multiplier_permille, u.discount_permille, u.latency_ms, u.first_event_ms, p.id, u.attempts, u.asked, u.admitted,
    u.admitted_tokens, u.expires_at_ms, u.period_id, u.plan_tokens
  FROM usage u JOIN provider p ON p.name = u.provider ORDER BY u.id;

-- period: 0 hours, 1 days since 1970; grouped: 0 by model, 1 by key. Otherwise as before.
CREATE TABLE sum_by_code (
  account_id INTEGER NOT NULL REFERENCES account (id),
  period INTEGER NOT NULL CHECK (period IN (0, 1)),
  grouped INTEGER NOT NULL CHECK (grouped IN (0, 1)),
  number INTEGER NOT NULL,
  group_id INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  input INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_write_5m INTEGER NOT NULL,
  cache_write_1h INTEGER NOT NULL,
  output INTEGER NOT NULL,
  reasoning INTEGER NOT NULL,
  images INTEGER NOT NULL,
  cost INTEGER NOT NULL,
  written_off INTEGER NOT NULL,
  latency_ms INTEGER NOT NULL,
  PRIMARY KEY (account_id, period, grouped, number, group_id)
) STRICT, WITHOUT ROWID;
INSERT INTO sum_by_code SELECT account_id, period = 'day', grouped = 'key', number, group_id, requests, failed, input, cache_read, cache_write_5m,
    cache_write_1h, output, reasoning, images, cost, written_off, latency_ms FROM usage_sum ORDER BY 1, 2, 3, 4, 5;

DROP TABLE usage_sum;
DROP TABLE voided;
DROP TABLE entry;
DROP TABLE hold;
DROP TABLE usage;
ALTER TABLE account DROP COLUMN period_id;
DROP TABLE plan_period;
DROP TABLE subscription;
ALTER TABLE subscription_of_account RENAME TO subscription;
ALTER TABLE period_of_account RENAME TO plan_period;
ALTER TABLE slim_usage RENAME TO usage;
ALTER TABLE slim_hold RENAME TO hold;
ALTER TABLE entry_of_account RENAME TO entry;
ALTER TABLE voided_of_id RENAME TO voided;
ALTER TABLE sum_by_code RENAME TO usage_sum;

CREATE UNIQUE INDEX subscription_lives ON subscription (account_id) WHERE state <> 'ended';
CREATE UNIQUE INDEX plan_period_lives ON plan_period (account_id) WHERE live = 1;
CREATE INDEX plan_period_end ON plan_period (end_ms) WHERE live = 1;
CREATE INDEX hold_expiry ON hold (expires_at_ms) WHERE expires_at_ms IS NOT NULL;
CREATE INDEX voided_listed ON voided (voided_at_ms) WHERE reason IN ('restarted', 'expired');
-- Pages of an account's records, of a key's, and of one model's of either.
CREATE INDEX usage_account ON usage (account_id, created_at_ms);
CREATE INDEX usage_key ON usage (key_id, created_at_ms);
CREATE INDEX usage_model ON usage (account_id, model_id, created_at_ms);
CREATE INDEX usage_key_model ON usage (key_id, model_id, created_at_ms);

CREATE TRIGGER usage_is_never_changed BEFORE UPDATE ON usage BEGIN SELECT raise(ABORT, 'usage rows are only inserted'); END;
CREATE TRIGGER usage_is_never_deleted BEFORE DELETE ON usage BEGIN SELECT raise(ABORT, 'usage rows are only inserted'); END;
CREATE TRIGGER voided_is_never_changed BEFORE UPDATE ON voided BEGIN SELECT raise(ABORT, 'voided rows are only inserted'); END;
CREATE TRIGGER voided_is_never_deleted BEFORE DELETE ON voided BEGIN SELECT raise(ABORT, 'voided rows are only inserted'); END;
CREATE TRIGGER entry_is_never_changed BEFORE UPDATE ON entry BEGIN SELECT raise(ABORT, 'entries are only inserted'); END;
CREATE TRIGGER entry_is_never_deleted BEFORE DELETE ON entry BEGIN SELECT raise(ABORT, 'entries are only inserted'); END;
