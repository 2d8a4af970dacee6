-- Why the books lack a transaction: the node does not have it, or what it has cannot be read.
ALTER TABLE payments_unresolved
    ADD COLUMN IF NOT EXISTS cause String
    COMMENT 'why it is not booked; empty once it is' CODEC(ZSTD(3));
