-- A page of a wallet's swaps: the last hundred before a moment. By wallet and time their moments are
-- found without a look at the swaps themselves, and then no more of those is read than they need,
-- however many swaps the wallet has. By wallet alone is the beginning of that: it goes when all parts
-- have the other, which on a large table takes its time and is not waited for.
ALTER TABLE swaps
    ADD PROJECTION IF NOT EXISTS by_wallet_time (SELECT _part_offset ORDER BY wallet, block_time);
ALTER TABLE swaps MATERIALIZE PROJECTION by_wallet_time;
ALTER TABLE swaps DROP PROJECTION IF EXISTS by_wallet SETTINGS alter_sync = 0;
