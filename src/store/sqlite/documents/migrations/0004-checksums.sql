-- CRC-32 of `content`, because SQLite notices no change inside a value. NULL: it was written before.
ALTER TABLE body ADD COLUMN crc INTEGER;
ALTER TABLE chunk ADD COLUMN crc INTEGER;
