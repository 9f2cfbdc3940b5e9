-- What was done, and by whom: a chain of rows for each account, and one of the operator's own (account 0). Each row carries the hash of the row before it.
-- before, after: JSON without secrets; NULL: it did not exist.
CREATE TABLE audit (
  account_id INTEGER NOT NULL,
  audit_id INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL,
  actor_type TEXT NOT NULL,
  actor_id TEXT,
  action TEXT NOT NULL,
  resource_type TEXT NOT NULL,
  resource_id TEXT,
  before TEXT,
  after TEXT,
  address TEXT,
  request_id TEXT,
  previous_hash TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (account_id, audit_id)
) STRICT;
CREATE INDEX audit_created ON audit (created_at_ms);

-- Where each chain begins and ends: rows up to start_number were removed, and the last of them had start_hash.
CREATE TABLE audit_chain (
  account_id INTEGER PRIMARY KEY,
  start_number INTEGER NOT NULL,
  start_hash TEXT NOT NULL,
  number INTEGER NOT NULL CHECK (number >= start_number),
  hash TEXT NOT NULL
) STRICT;

-- Management keys that had every scope have the new ones too.
UPDATE management_key SET scopes = json_insert(scopes, '$[#]', 'audit:read', '$[#]', 'webhooks:read', '$[#]', 'webhooks:write')
  WHERE json_array_length(scopes) = 11;
