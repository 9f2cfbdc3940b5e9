-- Columns that change with every request stand together at the end: what the log has of an update is what lies between the first and the last byte that changed.

CREATE TABLE account_new (
  id bigint PRIMARY KEY,
  name text NOT NULL,
  created_at_ms bigint NOT NULL,
  period bigint,
  plans bigint NOT NULL DEFAULT 0,
  entries bigint NOT NULL DEFAULT 0,
  suspended text CHECK (suspended IN ('damaged', 'write_offs')),
  written_off bigint NOT NULL DEFAULT 0 CHECK (written_off >= 0),
  low_balance bigint,
  closed_at_ms bigint,
  config bigint NOT NULL DEFAULT 0,
  due_at_ms bigint,
  balance bigint NOT NULL CHECK (balance >= 0),
  held bigint NOT NULL DEFAULT 0 CHECK (held BETWEEN 0 AND balance),
  running bigint NOT NULL DEFAULT 0 CHECK (running >= 0)
) WITH (fillfactor = 50);

INSERT INTO account_new (id, name, created_at_ms, period, plans, entries, suspended, written_off, low_balance, closed_at_ms, config, due_at_ms, balance, held, running)
  SELECT id, name, created_at_ms, period, plans, entries, suspended, written_off, low_balance, closed_at_ms, config, due_at_ms, balance, held, running FROM account;
DROP TABLE account;
ALTER TABLE account_new RENAME TO account;
ALTER INDEX account_new_pkey RENAME TO account_pkey;
CREATE INDEX account_due ON account (due_at_ms) WHERE due_at_ms IS NOT NULL;

CREATE TABLE usage_sum_new (
  account_id bigint NOT NULL,
  period smallint NOT NULL CHECK (period IN (0, 1)),
  grouped smallint NOT NULL CHECK (grouped BETWEEN 0 AND 4),
  number bigint NOT NULL,
  group_id bigint NOT NULL,
  failed bigint NOT NULL,
  cache_write_5m bigint NOT NULL,
  cache_write_1h bigint NOT NULL,
  images bigint NOT NULL,
  written_off bigint NOT NULL,
  provider_cost bigint NOT NULL DEFAULT 0,
  margin bigint NOT NULL DEFAULT 0,
  reasoning bigint NOT NULL,
  cache_read bigint NOT NULL,
  input bigint NOT NULL,
  output bigint NOT NULL,
  cost bigint NOT NULL,
  latency_ms bigint NOT NULL,
  requests bigint NOT NULL,
  PRIMARY KEY (account_id, period, grouped, number, group_id)
) WITH (fillfactor = 70);

INSERT INTO usage_sum_new (account_id, period, grouped, number, group_id, failed, cache_write_5m, cache_write_1h, images, written_off, provider_cost, margin, reasoning, cache_read, input, output,
    cost, latency_ms, requests)
  SELECT account_id, period, grouped, number, group_id, failed, cache_write_5m, cache_write_1h, images, written_off, provider_cost, margin, reasoning, cache_read, input, output, cost, latency_ms,
    requests FROM usage_sum;
DROP TABLE usage_sum;
ALTER TABLE usage_sum_new RENAME TO usage_sum;
ALTER INDEX usage_sum_new_pkey RENAME TO usage_sum_pkey;

CREATE TABLE key_day_new (
  key_id bigint NOT NULL,
  day bigint NOT NULL,
  spent_own bigint NOT NULL DEFAULT 0 CHECK (spent_own BETWEEN 0 AND spent),
  spent bigint NOT NULL DEFAULT 0 CHECK (spent >= 0),
  held bigint NOT NULL DEFAULT 0 CHECK (held >= 0),
  requests bigint NOT NULL,
  last_used_at_ms bigint NOT NULL,
  PRIMARY KEY (key_id, day)
) WITH (fillfactor = 50);

INSERT INTO key_day_new (
    key_id, day, spent_own, spent, held, requests, last_used_at_ms
  ) SELECT
    key_id, day, spent_own, spent, held, requests, last_used_at_ms
  FROM key_day;
DROP TABLE key_day;
ALTER TABLE key_day_new RENAME TO key_day;
ALTER INDEX key_day_new_pkey RENAME TO key_day_pkey;

-- By size, so that nothing lies between them.
CREATE TABLE hold_new (
  id bigint PRIMARY KEY,
  account_id bigint NOT NULL,
  key_id bigint NOT NULL,
  admitted_at_ms bigint NOT NULL,
  asked bigint NOT NULL,
  admitted bigint NOT NULL,
  admitted_tokens bigint,
  held bigint NOT NULL CHECK (held >= 0),
  tokens bigint,
  output_pico bigint NOT NULL,
  expires_at_ms bigint,
  extension bigint,
  extended_tokens bigint,
  plan_held bigint NOT NULL,
  plan_output bigint NOT NULL,
  input_tokens bigint NOT NULL DEFAULT 0,
  boot bigint,
  model_id integer NOT NULL,
  period integer,
  discount_permille integer NOT NULL,
  requests integer NOT NULL DEFAULT 1,
  end_user_id integer,
  payer_group integer,
  tags_id integer,
  endpoint_id integer NOT NULL DEFAULT 1,
  batch_id integer,
  free smallint NOT NULL,
  payer smallint NOT NULL,
  payers smallint NOT NULL,
  first_spent smallint NOT NULL,
  text smallint NOT NULL DEFAULT 1,
  request varchar NOT NULL,
  groups text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

INSERT INTO hold_new (
    id, account_id, key_id, admitted_at_ms, asked, admitted, admitted_tokens, held, tokens, output_pico, expires_at_ms, extension, extended_tokens, plan_held, plan_output, input_tokens,
    boot, model_id, period, discount_permille, requests, end_user_id, payer_group, tags_id, endpoint_id, batch_id, free, payer, payers, first_spent, text, request, groups
  ) SELECT
    id, account_id, key_id, admitted_at_ms, asked, admitted, admitted_tokens, held, tokens, output_pico, expires_at_ms, extension, extended_tokens, plan_held, plan_output, input_tokens,
    boot, model_id, period, discount_permille, requests, end_user_id, payer_group, tags_id, endpoint_id, batch_id, free, payer, payers, first_spent, text, request, groups
  FROM hold;
DROP TABLE hold;
ALTER TABLE hold_new RENAME TO hold;
ALTER INDEX hold_new_pkey RENAME TO hold_pkey;
CREATE INDEX hold_of_account ON hold (account_id);
CREATE INDEX hold_expiry ON hold (account_id, expires_at_ms) WHERE expires_at_ms IS NOT NULL;
-- No index by instance: holds of instances that are gone are looked for when there is one, and otherwise seldom (see instances.ts).
