-- Money is in nano-dollars, times in ms since 1970 UTC, days are whole UTC days since 1970, hours likewise.

CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- last_id: the highest request id that the gateway itself made. probe: written to see whether the disk takes writes again.
INSERT INTO meta (name, value) VALUES ('last_id', 0), ('probe', 0);

-- What an administrative command answered, so that its repeat after a broken connection to the writer does nothing.
CREATE TABLE applied (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  reply TEXT NOT NULL
) STRICT;

-- Names of models are long and few: rows carry their number.
CREATE TABLE model (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

-- Versions of prices, in pico-dollars a token or picture; NULL: no price of its own.
CREATE TABLE price (
  id INTEGER PRIMARY KEY,
  input INTEGER,
  cache_read INTEGER,
  cache_write_5m INTEGER,
  cache_write_1h INTEGER,
  output INTEGER,
  image INTEGER
) STRICT;
CREATE UNIQUE INDEX price_once ON price (
  coalesce(input, -1), coalesce(cache_read, -1), coalesce(cache_write_5m, -1), coalesce(cache_write_1h, -1),
  coalesce(output, -1), coalesce(image, -1)
);

CREATE TABLE account (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  balance INTEGER NOT NULL CHECK (balance >= 0),
  held INTEGER NOT NULL DEFAULT 0 CHECK (held BETWEEN 0 AND balance),
  created_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE api_key (
  id INTEGER PRIMARY KEY,
  account_id INTEGER NOT NULL REFERENCES account (id),
  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  masked TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('enabled', 'disabled', 'revoked')),
  label TEXT NOT NULL,
  daily_limit INTEGER NOT NULL CHECK (daily_limit >= 0),
  minute_limit INTEGER NOT NULL CHECK (minute_limit >= 0),
  monthly_limit INTEGER CHECK (monthly_limit >= 0),
  allowed_models TEXT,
  balance INTEGER CHECK (balance >= 0),
  held INTEGER NOT NULL DEFAULT 0 CHECK (held BETWEEN 0 AND coalesce(balance, 0)),
  use_subs_first INTEGER NOT NULL CHECK (use_subs_first IN (0, 1)),
  fallback_to_payg INTEGER NOT NULL CHECK (fallback_to_payg IN (0, 1)),
  created_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX api_key_account ON api_key (account_id);

CREATE TABLE management_key (
  id INTEGER PRIMARY KEY,
  account_id INTEGER NOT NULL REFERENCES account (id),
  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  masked TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('enabled', 'disabled', 'revoked')),
  scopes TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX management_key_account ON management_key (account_id);

-- A key's day: what its caps count. requests: admitted; spent: settled cost of requests admitted that day, whoever paid;
-- spent_own: the part that the key's own balance paid; held: of requests admitted that day.
CREATE TABLE key_day (
  key_id INTEGER NOT NULL REFERENCES api_key (id),
  day INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  spent INTEGER NOT NULL DEFAULT 0 CHECK (spent >= 0),
  spent_own INTEGER NOT NULL DEFAULT 0 CHECK (spent_own BETWEEN 0 AND spent),
  held INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),
  last_used_at_ms INTEGER NOT NULL,
  PRIMARY KEY (key_id, day)
) STRICT, WITHOUT ROWID;

-- Admitted requests of free models.
CREATE TABLE free_day (
  account_id INTEGER NOT NULL REFERENCES account (id),
  day INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  PRIMARY KEY (account_id, day)
) STRICT, WITHOUT ROWID;

-- A request that was admitted and has not ended. It touches the balance of its payer and the day of its admission, by `held`.
-- asked, admitted, admitted_tokens: what a repeat of the admit is compared with and answered. tokens: output tokens held for, at
-- output_pico pico-dollars each; NULL: costs nothing. expires_at_ms: only of other services' holds. extension, extended_tokens: the last
-- extend and its answer.
CREATE TABLE hold (
  id INTEGER PRIMARY KEY,
  request_id TEXT NOT NULL,
  account_id INTEGER NOT NULL REFERENCES account (id),
  key_id INTEGER NOT NULL REFERENCES api_key (id),
  model_id INTEGER NOT NULL REFERENCES model (id),
  free INTEGER NOT NULL CHECK (free IN (0, 1)),
  payer TEXT NOT NULL CHECK (payer IN ('account', 'key_balance')),
  admitted_at_ms INTEGER NOT NULL,
  asked INTEGER NOT NULL CHECK (asked >= 0),
  admitted INTEGER NOT NULL CHECK (admitted >= 0),
  admitted_tokens INTEGER CHECK (admitted_tokens >= 0),
  held INTEGER NOT NULL CHECK (held >= 0),
  tokens INTEGER CHECK (tokens >= 0),
  output_pico INTEGER NOT NULL CHECK (output_pico >= 0),
  expires_at_ms INTEGER,
  extension INTEGER,
  extended_tokens INTEGER
) STRICT;
CREATE INDEX hold_key ON hold (key_id, admitted_at_ms);
CREATE INDEX hold_free ON hold (account_id, admitted_at_ms) WHERE free = 1;
CREATE INDEX hold_expiry ON hold (expires_at_ms) WHERE expires_at_ms IS NOT NULL;

-- A settled request. Token buckets do not overlap, reasoning is a part of output. price_id NULL: another service named the cost.
-- cost is what was debited of the payer; cost + written_off is the arithmetic's sum.
CREATE TABLE usage (
  id INTEGER PRIMARY KEY,
  request_id TEXT NOT NULL,
  account_id INTEGER NOT NULL REFERENCES account (id),
  key_id INTEGER NOT NULL REFERENCES api_key (id),
  model_id INTEGER NOT NULL REFERENCES model (id),
  free INTEGER NOT NULL CHECK (free IN (0, 1)),
  external INTEGER NOT NULL CHECK (external IN (0, 1)),
  payer TEXT NOT NULL CHECK (payer IN ('account', 'key_balance')),
  created_at_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('completed', 'incomplete', 'client_aborted', 'upstream_failed')),
  usage_source TEXT NOT NULL CHECK (usage_source IN ('reported', 'estimated')),
  service_tier TEXT NOT NULL CHECK (service_tier IN ('default', 'flex', 'priority')),
  input INTEGER NOT NULL CHECK (input >= 0),
  cache_read INTEGER NOT NULL CHECK (cache_read >= 0),
  cache_write_5m INTEGER NOT NULL CHECK (cache_write_5m >= 0),
  cache_write_1h INTEGER NOT NULL CHECK (cache_write_1h >= 0),
  output INTEGER NOT NULL CHECK (output >= 0),
  reasoning INTEGER NOT NULL CHECK (reasoning BETWEEN 0 AND output),
  images INTEGER NOT NULL CHECK (images >= 0),
  cost INTEGER NOT NULL CHECK (cost >= 0),
  written_off INTEGER NOT NULL CHECK (written_off >= 0),
  price_id INTEGER REFERENCES price (id),
  multiplier_permille INTEGER NOT NULL CHECK (multiplier_permille >= 0),
  latency_ms INTEGER NOT NULL,
  first_event_ms INTEGER,
  provider TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  asked INTEGER NOT NULL,
  admitted INTEGER NOT NULL,
  admitted_tokens INTEGER,
  expires_at_ms INTEGER
) STRICT;
CREATE INDEX usage_account ON usage (account_id, created_at_ms);
CREATE INDEX usage_key ON usage (key_id, created_at_ms);
CREATE INDEX usage_model ON usage (account_id, model_id, created_at_ms);
CREATE INDEX usage_free ON usage (account_id, created_at_ms) WHERE free = 1;
CREATE TRIGGER usage_is_never_changed BEFORE UPDATE ON usage BEGIN SELECT raise(ABORT, 'usage rows are only inserted'); END;
CREATE TRIGGER usage_is_never_deleted BEFORE DELETE ON usage BEGIN SELECT raise(ABORT, 'usage rows are only inserted'); END;

-- Holds that were given back; a request may be admitted again under the same id.
CREATE TABLE voided (
  number INTEGER PRIMARY KEY,
  id INTEGER NOT NULL,
  account_id INTEGER NOT NULL REFERENCES account (id),
  key_id INTEGER NOT NULL REFERENCES api_key (id),
  model_id INTEGER NOT NULL REFERENCES model (id),
  free INTEGER NOT NULL CHECK (free IN (0, 1)),
  admitted_at_ms INTEGER NOT NULL,
  held INTEGER NOT NULL CHECK (held >= 0),
  voided_at_ms INTEGER NOT NULL,
  reason TEXT NOT NULL CHECK (reason IN ('rejected', 'gateway_failure', 'cancelled', 'restarted', 'expired'))
) STRICT;
CREATE INDEX voided_id ON voided (id);
CREATE INDEX voided_key ON voided (key_id, admitted_at_ms);
CREATE INDEX voided_free ON voided (account_id, admitted_at_ms) WHERE free = 1;
CREATE INDEX voided_listed ON voided (voided_at_ms) WHERE reason IN ('restarted', 'expired');
CREATE TRIGGER voided_is_never_changed BEFORE UPDATE ON voided BEGIN SELECT raise(ABORT, 'voided rows are only inserted'); END;
CREATE TRIGGER voided_is_never_deleted BEFORE DELETE ON voided BEGIN SELECT raise(ABORT, 'voided rows are only inserted'); END;

-- Money that moved without a request, and what could not be debited. credit: added to the account (negative: taken). move: from the
-- account to the key (negative: back). write_off: debited from nobody.
CREATE TABLE entry (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('credit', 'move', 'write_off')),
  account_id INTEGER NOT NULL REFERENCES account (id),
  key_id INTEGER REFERENCES api_key (id) CHECK ((key_id IS NULL) = (kind = 'credit')),
  amount INTEGER NOT NULL CHECK (amount <> 0),
  usage_id INTEGER UNIQUE REFERENCES usage (id) CHECK ((usage_id IS NULL) = (kind <> 'write_off')),
  note TEXT NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX entry_account ON entry (account_id);
CREATE TRIGGER entry_is_never_changed BEFORE UPDATE ON entry BEGIN SELECT raise(ABORT, 'entries are only inserted'); END;
CREATE TRIGGER entry_is_never_deleted BEFORE DELETE ON entry BEGIN SELECT raise(ABORT, 'entries are only inserted'); END;

-- Sums of usage rows by the hour and by the day of their admission; failed: upstream_failed; cost: debited.
CREATE TABLE usage_hour (
  account_id INTEGER NOT NULL REFERENCES account (id),
  hour INTEGER NOT NULL,
  key_id INTEGER NOT NULL,
  model_id INTEGER NOT NULL,
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
  PRIMARY KEY (account_id, hour, key_id, model_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_day (
  account_id INTEGER NOT NULL REFERENCES account (id),
  day INTEGER NOT NULL,
  key_id INTEGER NOT NULL,
  model_id INTEGER NOT NULL,
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
  PRIMARY KEY (account_id, day, key_id, model_id)
) STRICT, WITHOUT ROWID;
