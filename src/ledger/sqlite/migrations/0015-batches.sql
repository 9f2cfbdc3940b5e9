-- The batches whose items are requests, by the ids that their makers are told.
CREATE TABLE batch (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

ALTER TABLE hold ADD COLUMN batch_id INTEGER REFERENCES batch (id);
ALTER TABLE usage ADD COLUMN batch_id INTEGER REFERENCES batch (id);
CREATE INDEX usage_batch ON usage (batch_id, created_at_ms) WHERE batch_id IS NOT NULL;
