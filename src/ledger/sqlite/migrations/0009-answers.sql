-- How many requests of a free window, or of a plan's free daily ones, a request counts as: the answers that it asks for.
ALTER TABLE hold ADD COLUMN answers INTEGER NOT NULL DEFAULT 1;
ALTER TABLE usage ADD COLUMN answers INTEGER NOT NULL DEFAULT 1;
ALTER TABLE voided ADD COLUMN answers INTEGER NOT NULL DEFAULT 1;
