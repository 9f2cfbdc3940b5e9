-- Pages of an account's documents of a kind.
CREATE INDEX document_page ON document (kind, account_id, created_at_ms);
