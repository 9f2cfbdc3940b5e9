-- Limits: how much of a unit a scope may use in a window. max, raised_max: nano-dollars where unit is usd, else a count. window: NULL with concurrent.
-- models: a JSON list of ids and patterns; NULL: all. field: the field of a key, or the account's free window, that made the row.
CREATE TABLE usage_limit (
  id INTEGER PRIMARY KEY,
  account_id INTEGER NOT NULL REFERENCES account (id),
  scope TEXT NOT NULL CHECK (scope IN ('account', 'group', 'key')),
  scope_id INTEGER NOT NULL,
  unit TEXT NOT NULL CHECK (unit IN ('usd', 'requests', 'tokens', 'concurrent')),
  per TEXT CHECK (per IN ('minute', 'hour', 'day', 'week', 'month', 'total')),
  time_zone TEXT NOT NULL,
  max INTEGER NOT NULL CHECK (max >= 0),
  models TEXT,
  end_users TEXT NOT NULL CHECK (end_users IN ('all', 'each')),
  action TEXT NOT NULL CHECK (action IN ('refuse', 'alert')),
  raised_max INTEGER CHECK (raised_max >= 0),
  raised_until_ms INTEGER CHECK ((raised_until_ms IS NULL) = (raised_max IS NULL)),
  locked INTEGER NOT NULL CHECK (locked IN (0, 1)),
  field TEXT CHECK (field IN ('minute_limit', 'daily_limit', 'monthly_limit', 'free_minute', 'free_day')),
  removed INTEGER NOT NULL CHECK (removed IN (0, 1)),
  created_at_ms INTEGER NOT NULL,
  CHECK ((per IS NULL) = (unit = 'concurrent'))
) STRICT;
CREATE INDEX usage_limit_scope ON usage_limit (scope, scope_id) WHERE removed = 0;
CREATE INDEX usage_limit_account ON usage_limit (account_id) WHERE removed = 0;

-- What is used and held of a limit in a window: what its requests say, added up. number: of the window; 0 where there is only one. end_user: 0 all of them,
-- or requests without one. rolling: the amounts of a rolling minute by the time of their admission.
CREATE TABLE limit_use (
  limit_id INTEGER NOT NULL REFERENCES usage_limit (id),
  number INTEGER NOT NULL,
  end_user INTEGER NOT NULL,
  used INTEGER NOT NULL CHECK (used >= 0),
  held INTEGER NOT NULL CHECK (held >= 0),
  rolling BLOB,
  PRIMARY KEY (limit_id, number, end_user)
) STRICT, WITHOUT ROWID;

-- The free-model windows of each account, and what the fields of keys said. Their uses are counted from the requests when they are first asked for.
INSERT INTO usage_limit (account_id, scope, scope_id, unit, per, time_zone, max, models, end_users, action, locked, field, removed, created_at_ms)
  SELECT a.id, 'account', a.id, 'requests', w.per, 'UTC', w.max, '["*:free"]', 'all', 'refuse', 1, w.field, 0, a.created_at_ms
    FROM account a, (SELECT 1 AS place, 'minute' AS per, 20 AS max, 'free_minute' AS field UNION ALL SELECT 2, 'day', 200, 'free_day') w
    ORDER BY a.id, w.place;
INSERT INTO usage_limit (account_id, scope, scope_id, unit, per, time_zone, max, end_users, action, locked, field, removed, created_at_ms)
  SELECT k.account_id, 'key', k.id, f.unit, f.per, 'UTC', f.max, 'all', 'refuse', f.field = 'monthly_limit', f.field, 0, k.created_at_ms
    FROM api_key k JOIN (
      SELECT id, 1 AS place, 'requests' AS unit, 'minute' AS per, minute_limit AS max, 'minute_limit' AS field FROM api_key WHERE minute_limit > 0
      UNION ALL SELECT id, 2, daily_unit(), 'day', iif(daily_unit() = 'usd', daily_limit * 1000000000, daily_limit), 'daily_limit'
        FROM api_key WHERE daily_limit > 0
      UNION ALL SELECT id, 3, 'usd', 'month', monthly_limit, 'monthly_limit' FROM api_key WHERE monthly_limit IS NOT NULL
    ) f ON f.id = k.id ORDER BY k.id, f.place;
INSERT INTO meta (name, value) SELECT 'limit', coalesce(max(id), 0) FROM usage_limit;
-- uses: 1 where limit_use is whole, 0 while a writer has some of it in memory.
INSERT INTO meta (name, value) VALUES ('uses', 1);

ALTER TABLE api_key DROP COLUMN daily_limit;
ALTER TABLE api_key DROP COLUMN minute_limit;
ALTER TABLE api_key DROP COLUMN monthly_limit;
DROP TABLE key_minute;
DROP TABLE free_minute;
DROP TABLE free_day;

-- The users of an account's own service, as requests name them.
CREATE TABLE end_user (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

-- text: tokens count. requests: as how many the request counts. groups: the ids of the key's group and of those above it, nearest first, a comma before and
-- after each. input_tokens: estimated. A payer's running requests are those that it pays or may pay.
ALTER TABLE hold ADD COLUMN text INTEGER NOT NULL DEFAULT 1;
ALTER TABLE hold ADD COLUMN requests INTEGER NOT NULL DEFAULT 1;
ALTER TABLE hold ADD COLUMN end_user_id INTEGER REFERENCES end_user (id);
ALTER TABLE hold ADD COLUMN groups TEXT;
ALTER TABLE hold ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN text INTEGER NOT NULL DEFAULT 1;
ALTER TABLE usage ADD COLUMN requests INTEGER NOT NULL DEFAULT 1;
ALTER TABLE usage ADD COLUMN end_user_id INTEGER REFERENCES end_user (id);
ALTER TABLE usage ADD COLUMN groups TEXT;
ALTER TABLE voided ADD COLUMN requests INTEGER NOT NULL DEFAULT 1;
ALTER TABLE voided ADD COLUMN end_user_id INTEGER REFERENCES end_user (id);
ALTER TABLE voided ADD COLUMN groups TEXT;
CREATE INDEX voided_account ON voided (account_id, admitted_at_ms);
ALTER TABLE account ADD COLUMN running INTEGER NOT NULL DEFAULT 0 CHECK (running >= 0);
ALTER TABLE api_key ADD COLUMN running INTEGER NOT NULL DEFAULT 0 CHECK (running >= 0);
UPDATE account SET running = (SELECT count(*) FROM hold WHERE account_id = account.id AND payer = 0 AND tokens IS NOT NULL);
UPDATE api_key SET running = (SELECT count(*) FROM hold WHERE key_id = api_key.id AND payer = 1 AND tokens IS NOT NULL);

-- Images have no tokens that count.
DROP TRIGGER usage_is_never_changed;
UPDATE usage SET text = 0 WHERE images > 0;
CREATE TRIGGER usage_is_never_changed BEFORE UPDATE ON usage BEGIN SELECT raise(ABORT, 'usage rows are only inserted'); END;
