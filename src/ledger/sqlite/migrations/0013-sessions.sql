-- Sessions of people at the dashboard. account_id NULL: the operator's. key_hash: the secret of the key that signed in, with which the session ends; NULL: none did.
CREATE TABLE session (
  id INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  role TEXT NOT NULL CHECK (role IN ('operator', 'owner', 'member', 'viewer')),
  account_id INTEGER REFERENCES account (id),
  key_hash BLOB CHECK (length(key_hash) = 32),
  subject TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  ends_at_ms INTEGER NOT NULL,
  CHECK ((role = 'operator') = (account_id IS NULL))
) STRICT;
CREATE INDEX session_end ON session (ends_at_ms);
INSERT INTO meta (name, value) VALUES ('session', 0);
