-- What a client calls a credit, so that its repeat is known; NULL: nothing.
ALTER TABLE entry ADD COLUMN reference TEXT;
CREATE UNIQUE INDEX entry_reference ON entry (reference) WHERE reference IS NOT NULL;

-- Why an account takes no requests; NULL: it does. written_off: since it was made or resumed.
ALTER TABLE account ADD COLUMN suspended TEXT CHECK (suspended IN ('damaged', 'write_offs'));
ALTER TABLE account ADD COLUMN written_off INTEGER NOT NULL DEFAULT 0 CHECK (written_off >= 0);
