-- Calls of tools that the provider ran and that have a price of their own, as `writeToolCharges` of src/ledger/tool-charges.ts writes them; NULL: none.
ALTER TABLE usage ADD COLUMN tools TEXT;
