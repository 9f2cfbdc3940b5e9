-- Groups of keys, in each other. parent_id NULL: directly under the account. balance NULL: it spends from above. spent: what its balance has paid. tags: JSON.
CREATE TABLE key_group (
  id INTEGER PRIMARY KEY,
  account_id INTEGER NOT NULL REFERENCES account (id),
  parent_id INTEGER REFERENCES key_group (id),
  name TEXT NOT NULL,
  tags TEXT NOT NULL,
  balance INTEGER CHECK (balance >= 0),
  held INTEGER NOT NULL CHECK (held BETWEEN 0 AND coalesce(balance, 0)),
  running INTEGER NOT NULL CHECK (running >= 0),
  spent INTEGER NOT NULL CHECK (spent >= 0),
  removed INTEGER NOT NULL CHECK (removed IN (0, 1)),
  created_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX key_group_account ON key_group (account_id) WHERE removed = 0;
INSERT INTO meta (name, value) VALUES ('group', 0);

-- metadata: free JSON of the key's owner.
ALTER TABLE api_key ADD COLUMN group_id INTEGER REFERENCES key_group (id);
ALTER TABLE api_key ADD COLUMN tags TEXT NOT NULL DEFAULT '{}';
ALTER TABLE api_key ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';
CREATE INDEX api_key_group ON api_key (group_id) WHERE group_id IS NOT NULL;

-- Secrets that a rotation has replaced and that work until their time.
CREATE TABLE old_secret (
  hash BLOB PRIMARY KEY CHECK (length(hash) = 32),
  key_id INTEGER NOT NULL REFERENCES api_key (id),
  ends_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A name and a value; and what a request is tagged with, as JSON with its names in order.
CREATE TABLE tag (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  UNIQUE (name, value)
) STRICT;
CREATE TABLE tag_set (
  id INTEGER PRIMARY KEY,
  tags TEXT NOT NULL UNIQUE
) STRICT;
-- The paths of the interfaces.
CREATE TABLE endpoint (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO endpoint (id, name) VALUES (1, '');

-- payer_group: whose balance pays, where it is a group's.
ALTER TABLE hold ADD COLUMN payer_group INTEGER REFERENCES key_group (id);
ALTER TABLE hold ADD COLUMN tags_id INTEGER REFERENCES tag_set (id);
ALTER TABLE hold ADD COLUMN endpoint_id INTEGER NOT NULL DEFAULT 1 REFERENCES endpoint (id);
ALTER TABLE usage ADD COLUMN payer_group INTEGER REFERENCES key_group (id);
ALTER TABLE usage ADD COLUMN tags_id INTEGER REFERENCES tag_set (id);
ALTER TABLE usage ADD COLUMN endpoint_id INTEGER NOT NULL DEFAULT 1 REFERENCES endpoint (id);
CREATE INDEX usage_end_user ON usage (end_user_id, account_id, created_at_ms) WHERE end_user_id IS NOT NULL;

-- As before, with moves to and from groups.
CREATE TABLE entry_with_groups (
  account_id INTEGER NOT NULL REFERENCES account (id),
  number INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('credit', 'move', 'write_off', 'plan_price')),
  key_id INTEGER REFERENCES api_key (id),
  group_id INTEGER REFERENCES key_group (id),
  amount INTEGER NOT NULL CHECK (amount <> 0),
  usage_id INTEGER REFERENCES usage (id) CHECK ((usage_id IS NULL) = (kind <> 'write_off')),
  period INTEGER CHECK ((period IS NULL) = (kind <> 'plan_price')),
  note TEXT NOT NULL,
  reference TEXT,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (account_id, number),
  FOREIGN KEY (account_id, period) REFERENCES plan_period (account_id, number),
  CHECK ((key_id IS NULL) = (kind IN ('credit', 'plan_price') OR group_id IS NOT NULL)),
  CHECK (group_id IS NULL OR kind = 'move')
) STRICT, WITHOUT ROWID;
INSERT INTO entry_with_groups SELECT account_id, number, kind, key_id, NULL, amount, usage_id, period, note, reference, at_ms FROM entry;
DROP TABLE entry;
ALTER TABLE entry_with_groups RENAME TO entry;
CREATE UNIQUE INDEX entry_reference ON entry (reference) WHERE reference IS NOT NULL;
CREATE TRIGGER entry_is_never_changed BEFORE UPDATE ON entry BEGIN SELECT raise(ABORT, 'entries are only inserted'); END;
CREATE TRIGGER entry_is_never_deleted BEFORE DELETE ON entry BEGIN SELECT raise(ABORT, 'entries are only inserted'); END;

-- Management keys that had every scope have the new ones too.
UPDATE management_key
  SET scopes = '["keys:create","keys:read","keys:update","keys:delete","account:read","account:activity","account:balance","limits:read","limits:write","groups:read","groups:write"]'
  WHERE scopes = '["keys:create","keys:read","keys:update","keys:delete","account:read","account:activity","account:balance"]';
