-- Addresses that are told of events. account_id 0: the operator's. events: a JSON list of types. secret: sealed with the server secret.
CREATE TABLE webhook (
  id INTEGER PRIMARY KEY,
  account_id INTEGER NOT NULL,
  url TEXT NOT NULL,
  events TEXT NOT NULL,
  secret TEXT NOT NULL,
  disabled INTEGER NOT NULL CHECK (disabled IN (0, 1)),
  removed INTEGER NOT NULL CHECK (removed IN (0, 1)),
  created_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_account ON webhook (account_id) WHERE removed = 0;

-- What happened, written with what made it happen. scope: events of one scope are delivered in their order. data: JSON.
CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  account_id INTEGER NOT NULL,
  type TEXT NOT NULL,
  scope TEXT NOT NULL,
  data TEXT NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;

-- An event for a webhook. until_ms: when a further failure is the last one.
CREATE TABLE delivery (
  event_id INTEGER NOT NULL REFERENCES event (id),
  webhook_id INTEGER NOT NULL REFERENCES webhook (id),
  scope TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),
  attempts INTEGER NOT NULL,
  next_at_ms INTEGER NOT NULL,
  until_ms INTEGER NOT NULL,
  status INTEGER,
  error TEXT,
  ended_at_ms INTEGER CHECK ((ended_at_ms IS NULL) = (state = 'pending')),
  PRIMARY KEY (event_id, webhook_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_webhook ON delivery (webhook_id, event_id);
CREATE INDEX delivery_waiting ON delivery (webhook_id, scope, event_id) WHERE state = 'pending';

-- What was told of already. name: of what; number: of the window, or the time that was told of.
CREATE TABLE event_mark (
  name TEXT PRIMARY KEY,
  number INTEGER NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- An event is sent when a balance falls below it; NULL: none is.
ALTER TABLE account ADD COLUMN low_balance INTEGER;
ALTER TABLE api_key ADD COLUMN low_balance INTEGER;
ALTER TABLE key_group ADD COLUMN low_balance INTEGER;

-- When the account was closed; NULL: it is open.
ALTER TABLE account ADD COLUMN closed_at_ms INTEGER;

-- Old records and holds that were given back are removed; activity_start of meta: from when on all are there. Their sums stay.
DROP TRIGGER usage_is_never_deleted;
CREATE TRIGGER usage_is_never_deleted BEFORE DELETE ON usage WHEN old.created_at_ms >= coalesce((SELECT value FROM meta WHERE name = 'activity_start'), 0)
  BEGIN SELECT raise(ABORT, 'usage rows are only inserted'); END;
DROP TRIGGER voided_is_never_deleted;
CREATE TRIGGER voided_is_never_deleted BEFORE DELETE ON voided WHEN old.admitted_at_ms >= coalesce((SELECT value FROM meta WHERE name = 'activity_start'), 0)
  BEGIN SELECT raise(ABORT, 'voided rows are only inserted'); END;
