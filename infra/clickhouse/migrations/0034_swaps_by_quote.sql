-- Swaps of a token that others are quoted in (SOL, USDC): found by quote and time, as those of a
-- wallet are by wallet and time, without a look at the swaps between them.
ALTER TABLE swaps
    ADD PROJECTION IF NOT EXISTS by_quote_time (SELECT _part_offset ORDER BY quote_mint, block_time);
ALTER TABLE swaps MATERIALIZE PROJECTION by_quote_time;

-- Comments that 0033 left in the old spelling.
ALTER TABLE positions COMMENT COLUMN IF EXISTS wins 'sales that realized a gain in dollars';
ALTER TABLE positions COMMENT COLUMN IF EXISTS losses 'sales that realized a loss in dollars';
ALTER TABLE wallet_days COMMENT COLUMN IF EXISTS wins 'sales that realized a gain in dollars';
ALTER TABLE wallet_days COMMENT COLUMN IF EXISTS losses 'sales that realized a loss in dollars';
ALTER TABLE lot_matches MODIFY COMMENT 'What each sale, transfer and burn took of which lot: the audit trail of realized gains. The transaction that opened the lot is (lot_slot, lot_tx_index)';
