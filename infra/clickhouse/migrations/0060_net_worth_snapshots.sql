-- What tracked wallets were worth, hour by hour: `soltape watch` writes it, /networth reads it.

CREATE TABLE IF NOT EXISTS net_worth_snapshots
(
    wallet String COMMENT 'tracked wallet' CODEC(ZSTD(3)),
    hour DateTime64(3, 'UTC') COMMENT 'beginning of the hour, by block time' CODEC(Delta, ZSTD(3)),
    read_at DateTime64(3, 'UTC') COMMENT 'block time it is as of, within the hour' CODEC(Delta, ZSTD(3)),
    slot UInt64 COMMENT 'slot it is as of: the version of the row' CODEC(Delta, ZSTD(3)),
    net_worth_usd_micros Nullable(Int128) COMMENT 'assets without debts; NULL: a part was not known' CODEC(ZSTD(3)),
    assets_usd_micros Nullable(Int128) COMMENT 'holdings and positions, without debts' CODEC(ZSTD(3)),
    debts_usd_micros Nullable(Int128) COMMENT 'what positions owe' CODEC(ZSTD(3)),
    is_complete Bool COMMENT 'the sums are known' CODEC(ZSTD(3)),
    reasons Array(String) COMMENT 'why they are not' CODEC(ZSTD(3)),
    unpriced UInt32 COMMENT 'assets without a worth: in no sum' CODEC(ZSTD(3)),
    pending_routes UInt16 COMMENT 'kinds of positions that nothing read then: in no sum' CODEC(ZSTD(3)),
    written_at DateTime('UTC') MATERIALIZED now() COMMENT 'when this row was written; what its time to live counts from' CODEC(Delta, ZSTD(3))
)
ENGINE = ReplacingMergeTree(slot)
PARTITION BY toYYYYMM(hour)
ORDER BY (wallet, hour)
TTL written_at + INTERVAL 400 DAY
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Net worth of tracked wallets, one row an hour in which it was read; read with FINAL. An hour without a row is a gap';
