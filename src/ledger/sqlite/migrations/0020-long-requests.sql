-- A page of entries and charges is ordered by when requests ended. Few take ten minutes, so their row alone is found by when it began: of all others, ten minutes before the page suffice.
CREATE INDEX usage_long ON usage (account_id, created_at_ms) WHERE latency_ms >= 600000;
