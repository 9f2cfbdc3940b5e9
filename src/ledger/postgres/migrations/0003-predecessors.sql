-- Which data directory an instance serves alone: the next gateway on it is its successor, and need not wait for the end of its lease.
ALTER TABLE instance ADD COLUMN home text;
