-- The last version of each account that belongs to a wallet. The row of an account that was closed,
-- or belongs to no wallet any more, says so: FINAL leaves it out.

CREATE TABLE IF NOT EXISTS accounts
(
    address String COMMENT 'account' CODEC(ZSTD(3)),
    kind LowCardinality(String) COMMENT 'kind of account, as in schemas/protocols: stake, token' CODEC(ZSTD(3)),
    program LowCardinality(String) COMMENT 'its owner on the chain' CODEC(ZSTD(3)),
    found_by Array(String) COMMENT 'wallets and mints that its data names' CODEC(ZSTD(3)),
    lamports UInt64 COMMENT 'its balance' CODEC(ZSTD(3)),
    data String COMMENT 'its bytes' CODEC(ZSTD(3)),
    slot UInt64 COMMENT 'slot at whose end it was so: the version of the row' CODEC(Delta, ZSTD(3)),
    is_deleted UInt8 COMMENT '1: closed, or of no wallet any more' CODEC(ZSTD(3)),
    INDEX by_finder found_by TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(slot, is_deleted)
ORDER BY address
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Accounts of wallets on the chain, the last version of each; read with FINAL. Those that nothing touched for long are here only';
