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

-- Holds of instances that are gone are looked for when there is one, and otherwise seldom: see instances.ts.
DROP INDEX hold_boot;
