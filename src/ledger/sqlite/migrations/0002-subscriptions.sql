-- An account's plan. cancelled: ends with its period. One at a time lives.
CREATE TABLE subscription (
  id INTEGER PRIMARY KEY,
  account_id INTEGER NOT NULL REFERENCES account (id),
  plan TEXT NOT NULL CHECK (plan IN ('core', 'core_pro')),
  period TEXT NOT NULL CHECK (period IN ('biweekly', 'monthly')),
  started_at_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'cancelled', 'ended'))
) STRICT;
CREATE UNIQUE INDEX subscription_lives ON subscription (account_id) WHERE state <> 'ended';

-- A paid period of a plan, and its tokens: used by settled requests, held by running ones. number: periods since the start, from 0; those
-- that nobody paid are left out. live: the present one of a subscription that lives.
CREATE TABLE plan_period (
  id INTEGER PRIMARY KEY,
  subscription_id INTEGER NOT NULL REFERENCES subscription (id),
  account_id INTEGER NOT NULL REFERENCES account (id),
  plan TEXT NOT NULL CHECK (plan IN ('core', 'core_pro')),
  number INTEGER NOT NULL CHECK (number >= 0),
  start_ms INTEGER NOT NULL,
  end_ms INTEGER NOT NULL CHECK (end_ms > start_ms),
  price INTEGER NOT NULL CHECK (price >= 0),
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  used INTEGER NOT NULL DEFAULT 0 CHECK (used >= 0),
  held INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0 AND used + held <= tokens),
  live INTEGER NOT NULL DEFAULT 1 CHECK (live IN (0, 1)),
  UNIQUE (subscription_id, number)
) STRICT;
CREATE UNIQUE INDEX plan_period_lives ON plan_period (account_id) WHERE live = 1;
CREATE INDEX plan_period_end ON plan_period (end_ms) WHERE live = 1;

-- A plan's free daily requests that were taken and not given back.
CREATE TABLE plan_day (
  account_id INTEGER NOT NULL REFERENCES account (id),
  day INTEGER NOT NULL,
  requests INTEGER NOT NULL CHECK (requests >= 0),
  PRIMARY KEY (account_id, day)
) STRICT, WITHOUT ROWID;

-- The live period of the account's plan; NULL: it has no plan.
ALTER TABLE account ADD COLUMN period_id INTEGER REFERENCES plan_period (id);

-- Who pays, in which order; free_request: one of the plan's free daily requests. period_id: whose tokens. plan_held: tokens held of them;
-- plan_output: the output tokens among those. first_spent: the first payer could not pay the whole input, so that the second alone pays more
-- output. discount_permille: taken off what money pays.
ALTER TABLE hold ADD COLUMN payers TEXT NOT NULL DEFAULT 'money'
  CHECK (payers IN ('money', 'plan', 'plan_money', 'money_plan', 'free_request'));
ALTER TABLE hold ADD COLUMN period_id INTEGER REFERENCES plan_period (id) CHECK ((period_id IS NULL) = (payers = 'money'));
ALTER TABLE hold ADD COLUMN plan_held INTEGER NOT NULL DEFAULT 0 CHECK (plan_held >= 0);
ALTER TABLE hold ADD COLUMN plan_output INTEGER NOT NULL DEFAULT 0 CHECK (plan_output BETWEEN 0 AND plan_held);
ALTER TABLE hold ADD COLUMN first_spent INTEGER NOT NULL DEFAULT 0 CHECK (first_spent IN (0, 1));
ALTER TABLE hold ADD COLUMN discount_permille INTEGER NOT NULL DEFAULT 0 CHECK (discount_permille BETWEEN 0 AND 1000);

-- plan_tokens: paid by the period. Without `free_request` and these tokens, cost + written_off is the arithmetic's sum.
ALTER TABLE usage ADD COLUMN payers TEXT NOT NULL DEFAULT 'money'
  CHECK (payers IN ('money', 'plan', 'plan_money', 'money_plan', 'free_request'));
ALTER TABLE usage ADD COLUMN period_id INTEGER REFERENCES plan_period (id) CHECK ((period_id IS NULL) = (payers = 'money'));
ALTER TABLE usage ADD COLUMN plan_tokens INTEGER NOT NULL DEFAULT 0
  CHECK (plan_tokens BETWEEN 0 AND input + cache_read + cache_write_5m + cache_write_1h + output);
ALTER TABLE usage ADD COLUMN discount_permille INTEGER NOT NULL DEFAULT 0 CHECK (discount_permille BETWEEN 0 AND 1000);

-- As before, with one kind more. plan_price: debited from the account for a period.
CREATE TABLE entry_with_plans (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('credit', 'move', 'write_off', 'plan_price')),
  account_id INTEGER NOT NULL REFERENCES account (id),
  key_id INTEGER REFERENCES api_key (id) CHECK ((key_id IS NULL) = (kind IN ('credit', 'plan_price'))),
  amount INTEGER NOT NULL CHECK (amount <> 0),
  usage_id INTEGER UNIQUE REFERENCES usage (id) CHECK ((usage_id IS NULL) = (kind <> 'write_off')),
  period_id INTEGER UNIQUE REFERENCES plan_period (id) CHECK ((period_id IS NULL) = (kind <> 'plan_price')),
  note TEXT NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;
INSERT INTO entry_with_plans (id, kind, account_id, key_id, amount, usage_id, note, at_ms)
  SELECT id, kind, account_id, key_id, amount, usage_id, note, at_ms FROM entry;
DROP TABLE entry;
ALTER TABLE entry_with_plans RENAME TO entry;
CREATE INDEX entry_account ON entry (account_id);
CREATE TRIGGER entry_is_never_changed BEFORE UPDATE ON entry BEGIN SELECT raise(ABORT, 'entries are only inserted'); END;
CREATE TRIGGER entry_is_never_deleted BEFORE DELETE ON entry BEGIN SELECT raise(ABORT, 'entries are only inserted'); END;
