-- What the API asks by wallet: which tokens somebody has a position in and when each was traded
-- last, and the positions put away. Both lie together by wallet, so a wallet costs what it has.

ALTER TABLE positions
    ADD PROJECTION IF NOT EXISTS by_wallet_traded
    (
        SELECT wallet, mint, last_trade_time ORDER BY wallet, mint
    );

ALTER TABLE positions MATERIALIZE PROJECTION by_wallet_traded;

ALTER TABLE cold_positions MODIFY SETTING deduplicate_merge_projection_mode = 'rebuild';

ALTER TABLE cold_positions
    ADD PROJECTION IF NOT EXISTS by_wallet
    (
        SELECT mint, partition, wallet, packed, slot ORDER BY wallet, mint
    );

ALTER TABLE cold_positions MATERIALIZE PROJECTION by_wallet;
