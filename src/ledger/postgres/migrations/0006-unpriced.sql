-- What the provider may have billed without a price here, as `writeUnpriced` of src/ledger/unpriced.ts writes it; NULL: nothing.
ALTER TABLE usage ADD COLUMN unpriced text;
