-- Sums of usage rows by the hour and by the day of their admission, once by model and once by key: they are asked for by one of the two or by
-- neither, so that no more of them are read than are answered, however many models and keys an account has. number: hours or days since 1970.
-- group_id: of the model or the key. failed: upstream_failed; cost: debited.
CREATE TABLE usage_sum (
  account_id INTEGER NOT NULL REFERENCES account (id),
  period TEXT NOT NULL CHECK (period IN ('hour', 'day')),
  grouped TEXT NOT NULL CHECK (grouped IN ('model', 'key')),
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

INSERT INTO usage_sum
  SELECT account_id, 'hour', 'model', hour, model_id, sum(requests), sum(failed), sum(input), sum(cache_read), sum(cache_write_5m),
    sum(cache_write_1h), sum(output), sum(reasoning), sum(images), sum(cost), sum(written_off), sum(latency_ms)
  FROM usage_hour GROUP BY account_id, hour, model_id;
INSERT INTO usage_sum
  SELECT account_id, 'hour', 'key', hour, key_id, sum(requests), sum(failed), sum(input), sum(cache_read), sum(cache_write_5m),
    sum(cache_write_1h), sum(output), sum(reasoning), sum(images), sum(cost), sum(written_off), sum(latency_ms)
  FROM usage_hour GROUP BY account_id, hour, key_id;
INSERT INTO usage_sum
  SELECT account_id, 'day', 'model', day, model_id, sum(requests), sum(failed), sum(input), sum(cache_read), sum(cache_write_5m),
    sum(cache_write_1h), sum(output), sum(reasoning), sum(images), sum(cost), sum(written_off), sum(latency_ms)
  FROM usage_day GROUP BY account_id, day, model_id;
INSERT INTO usage_sum
  SELECT account_id, 'day', 'key', day, key_id, sum(requests), sum(failed), sum(input), sum(cache_read), sum(cache_write_5m),
    sum(cache_write_1h), sum(output), sum(reasoning), sum(images), sum(cost), sum(written_off), sum(latency_ms)
  FROM usage_day GROUP BY account_id, day, key_id;
DROP TABLE usage_hour;
DROP TABLE usage_day;

-- Pages of one model's records of one key.
CREATE INDEX usage_key_model ON usage (key_id, model_id, created_at_ms);
