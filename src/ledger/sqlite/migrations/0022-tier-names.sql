-- The name of a billed tier for which service_tier has no code of its own; else NULL.
ALTER TABLE usage ADD COLUMN tier_name TEXT;
