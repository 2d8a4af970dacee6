-- The slot is part of the order, as with wallets: an older state of a token is found as it was, so
-- that a Redis that lost some time goes on with the state of its own slot. A key can be extended by a
-- new column alone: hence one beside `slot`, which rows have that were written before.
ALTER TABLE cold_markets
    ADD COLUMN IF NOT EXISTS put_away_slot UInt64 COMMENT 'the same as slot, as part of the order; 0 in rows of earlier versions' CODEC(Delta, ZSTD(3)),
    MODIFY ORDER BY (mint, put_away_slot);
