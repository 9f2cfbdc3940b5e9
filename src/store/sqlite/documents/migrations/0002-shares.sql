-- Bytes of the documents of an account: of answers of idempotency keys (kept 1), which never go before their time, and of the rest (kept 0).
CREATE TABLE share (
  kept INTEGER NOT NULL CHECK (kept IN (0, 1)),
  account_id INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (kept, account_id)
) STRICT, WITHOUT ROWID;
INSERT INTO share SELECT kind = 'replay' AS kept, account_id, sum(bytes) FROM document GROUP BY 1, 2;
CREATE INDEX share_size ON share (kept, bytes);

-- The same sums over all accounts.
DELETE FROM meta WHERE name = 'bytes';
INSERT INTO meta (name, value) VALUES
  ('bytes', (SELECT coalesce(sum(bytes), 0) FROM share WHERE kept = 0)),
  ('kept_bytes', (SELECT coalesce(sum(bytes), 0) FROM share WHERE kept = 1)),
  -- Written to see whether that is possible.
  ('probe', 0);

-- What goes first of an account when space is short.
DROP INDEX document_age;
CREATE INDEX document_age ON document (account_id, created_at_ms) WHERE finished = 1 AND ends_at_ms > 0 AND kind <> 'replay';
