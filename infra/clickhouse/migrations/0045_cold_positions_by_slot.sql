-- The slot is part of the order, as with wallets and markets: a position that was put away twice is
-- found as it was at either time, so that a Redis that lost some time goes on with the state of its
-- own slot. A key can be extended by a new column alone: hence one beside `slot`, which rows have
-- that were written before.
ALTER TABLE cold_positions
    ADD COLUMN IF NOT EXISTS put_away_slot UInt64 COMMENT 'the same as slot, as part of the order; 0 in rows of earlier versions' CODEC(Delta, ZSTD(3)),
    MODIFY ORDER BY (mint, partition, wallet, put_away_slot);
