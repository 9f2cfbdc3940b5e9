-- What the provider charges the operator for a request (a route's `cost`); NULL: not known. It is no part of what a client pays.
ALTER TABLE usage ADD COLUMN provider_cost INTEGER CHECK (provider_cost >= 0);

-- The same in sums, and the margin: what the requests whose cost is known were debited, less that cost. It may be negative.
ALTER TABLE usage_sum ADD COLUMN provider_cost INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_sum ADD COLUMN margin INTEGER NOT NULL DEFAULT 0;
