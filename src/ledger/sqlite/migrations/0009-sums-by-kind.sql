-- What is the same of many records: the model, the provider that answered and the path of the interface.
CREATE TABLE call_kind (
  id INTEGER PRIMARY KEY,
  model_id INTEGER NOT NULL REFERENCES model (id),
  provider_id INTEGER NOT NULL REFERENCES provider (id),
  endpoint_id INTEGER NOT NULL REFERENCES endpoint (id),
  UNIQUE (model_id, provider_id, endpoint_id)
) STRICT;
INSERT INTO call_kind (model_id, provider_id, endpoint_id) SELECT DISTINCT model_id, provider_id, endpoint_id FROM usage ORDER BY 1, 2, 3;

-- grouped: 0 by the kind of the call, instead of by model alone, 1 by key, 2 by group, 3 by end user, 4 by tag. Otherwise as before.
CREATE TABLE sum_by_kind (
  account_id INTEGER NOT NULL REFERENCES account (id),
  period INTEGER NOT NULL CHECK (period IN (0, 1)),
  grouped INTEGER NOT NULL CHECK (grouped BETWEEN 0 AND 4),
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
INSERT INTO sum_by_kind SELECT * FROM usage_sum WHERE grouped = 1 ORDER BY 1, 2, 3, 4, 5;
INSERT INTO sum_by_kind
  SELECT u.account_id, p.period, 0, u.created_at_ms / p.ms, k.id, count(*), sum(u.state = 3), sum(u.input), sum(u.cache_read), sum(u.cache_write_5m),
    sum(u.cache_write_1h), sum(u.output), sum(u.reasoning), sum(u.images), sum(u.cost), sum(u.written_off), sum(u.latency_ms)
  FROM usage u JOIN call_kind k ON k.model_id = u.model_id AND k.provider_id = u.provider_id AND k.endpoint_id = u.endpoint_id,
    (SELECT 0 AS period, 3600000 AS ms UNION ALL SELECT 1, 86400000) p
  GROUP BY 1, 2, 4, 5;
DROP TABLE usage_sum;
ALTER TABLE sum_by_kind RENAME TO usage_sum;
