-- Wallets at rest, moved out of Redis. The slot is part of the order: an older state is found as it
-- was, so that a Redis that lost some time goes on with the state of its own slot.

CREATE TABLE IF NOT EXISTS cold_wallets
(
    wallet String COMMENT 'wallet that had not moved for days' CODEC(ZSTD(3)),
    packed String COMMENT 'totals and balances, as schemas/positions.py says' CODEC(ZSTD(3)),
    slot UInt64 COMMENT 'slot at which it was put away' CODEC(Delta, ZSTD(3))
)
ENGINE = ReplacingMergeTree
ORDER BY (wallet, slot)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'State of wallets at rest, moved out of Redis; stale where the wallet has moved since. For the agent: analysts read wallet_days';
