-- Prompts, answers and tasks. Times in ms since 1970 UTC.

CREATE TABLE document (
  row INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  account_id INTEGER NOT NULL,
  api_key_id INTEGER,
  state TEXT NOT NULL,
  finished INTEGER NOT NULL CHECK (finished IN (0, 1)),
  created_at_ms INTEGER NOT NULL,
  -- From then on it is not found; 0: deleted.
  ends_at_ms INTEGER NOT NULL,
  -- What it goes on from: kept as long as this one is.
  parent INTEGER REFERENCES document (row),
  children INTEGER NOT NULL DEFAULT 0 CHECK (children >= 0),
  -- Of its body and its chunks.
  bytes INTEGER NOT NULL CHECK (bytes >= 0),
  UNIQUE (kind, id)
) STRICT;

-- What can be removed.
CREATE INDEX document_end ON document (ends_at_ms) WHERE children = 0;
-- What goes first when space is short.
CREATE INDEX document_age ON document (created_at_ms) WHERE finished = 1 AND ends_at_ms > 0;
-- What a process that is gone has left.
CREATE INDEX document_unfinished ON document (kind, created_at_ms) WHERE finished = 0;
CREATE INDEX document_parent ON document (parent) WHERE parent IS NOT NULL;

-- Apart from the document's row, so that a change of state does not write the body again.
CREATE TABLE body (
  document INTEGER PRIMARY KEY REFERENCES document (row) ON DELETE CASCADE,
  content BLOB NOT NULL
) STRICT;

CREATE TABLE chunk (
  row INTEGER PRIMARY KEY,
  document INTEGER NOT NULL REFERENCES document (row) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  content BLOB NOT NULL,
  UNIQUE (document, seq)
) STRICT;

CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The sum of all `bytes`.
INSERT INTO meta (name, value) VALUES ('bytes', 0);
