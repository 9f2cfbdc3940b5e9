-- When a key stops working; NULL: never. What no hold covers of its balance then moves back to the account, so keys that still have some are found by time.
ALTER TABLE api_key ADD COLUMN expires_at_ms INTEGER;
CREATE INDEX api_key_expiry ON api_key (expires_at_ms) WHERE expires_at_ms IS NOT NULL AND balance > held;
