-- What gateways share beside the ledger. Times in ms since 1970 UTC, by the database's clock. boot: the instance (see the ledger's schema) that works on a row.

CREATE TABLE document (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text NOT NULL,
  id text NOT NULL,
  account_id bigint NOT NULL,
  api_key_id bigint,
  state text NOT NULL,
  finished boolean NOT NULL,
  created_at_ms bigint NOT NULL,
  -- From then on it is not found; 0: deleted.
  ends_at_ms bigint NOT NULL,
  -- What it goes on from: kept as long as this one is.
  parent bigint REFERENCES document (row),
  children integer NOT NULL DEFAULT 0 CHECK (children >= 0),
  -- Of its body and its chunks.
  bytes bigint NOT NULL CHECK (bytes >= 0),
  boot bigint,
  UNIQUE (kind, id)
) WITH (fillfactor = 85);
CREATE INDEX document_end ON document (ends_at_ms) WHERE children = 0;
CREATE INDEX document_age ON document (account_id, created_at_ms) WHERE finished AND ends_at_ms > 0 AND kind IN ('response', 'image_task', 'bodies');
CREATE INDEX document_unfinished ON document (kind, created_at_ms) WHERE NOT finished;
CREATE INDEX document_page ON document (kind, account_id, created_at_ms);
CREATE INDEX document_parent ON document (parent) WHERE parent IS NOT NULL;

-- Apart from the document's row, so that a change of state does not write the body again.
CREATE TABLE document_body (
  document bigint PRIMARY KEY REFERENCES document (row) ON DELETE CASCADE,
  content bytea NOT NULL
);
CREATE TABLE document_chunk (
  document bigint NOT NULL REFERENCES document (row) ON DELETE CASCADE,
  seq bigint NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (document, seq)
);

-- Names that one request at a time has.
CREATE TABLE claim (
  name text PRIMARY KEY,
  mark text NOT NULL,
  boot bigint NOT NULL
);

CREATE TABLE picture (
  name text PRIMARY KEY,
  content bytea NOT NULL,
  expires_at_ms bigint NOT NULL
);
CREATE INDEX picture_end ON picture (expires_at_ms);

-- Large files, in pieces. A file may have several names; a name without a file that is whole is not there.
CREATE TABLE bulk_file (
  file bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  size bigint NOT NULL DEFAULT 0,
  boot bigint
);
CREATE TABLE bulk_piece (
  file bigint NOT NULL REFERENCES bulk_file (file) ON DELETE CASCADE,
  seq bigint NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (file, seq)
);
CREATE TABLE bulk_name (
  name text PRIMARY KEY,
  -- NULL: it is a journal.
  file bigint REFERENCES bulk_file (file)
);
CREATE INDEX bulk_name_file ON bulk_name (file);
CREATE TABLE journal_record (
  name text NOT NULL REFERENCES bulk_name (name) ON DELETE CASCADE,
  place bigint NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (name, place)
);

-- Secrets that all gateways seal with, newest first by their number.
CREATE TABLE secret (
  number integer PRIMARY KEY,
  value text NOT NULL
);
