-- What Redis holds of the agents' books, as of one slot a partition: `soltape rebuild` fills an
-- empty Redis from it, and the agents go on after that slot from the log.

CREATE TABLE IF NOT EXISTS book_checkpoints
(
    agent_group LowCardinality(String) COMMENT 'pnl, market or store' CODEC(ZSTD(3)),
    partition UInt16 COMMENT 'of the group''s lane' CODEC(ZSTD(3)),
    key String COMMENT 'in Redis; empty in rows about the whole partition' CODEC(ZSTD(3)),
    kind Enum8('begun' = 1, 'watermark' = 2, 'reset' = 3, 'gone' = 4, 'trimmed' = 5, 'string' = 6, 'hash' = 7, 'set' = 8, 'zset' = 9, 'bit' = 10) COMMENT 'what the row is: a value by its type in Redis, or what voids older rows: of the partition (reset), of the key (gone), of members below a score (trimmed)' CODEC(ZSTD(3)),
    field String COMMENT 'field or member; empty for a string' CODEC(ZSTD(3)),
    value String COMMENT 'value or score; of the watermark JSON of slot, offset and time_ms' CODEC(ZSTD(3)),
    slot UInt64 COMMENT 'slot of the checkpoint: the version of the row' CODEC(Delta, ZSTD(3)),
    is_deleted UInt8 COMMENT '1: the field or key is gone' CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree(slot, is_deleted)
ORDER BY (agent_group, partition, key, kind, field)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'State of the books in Redis as of the last checkpoint. For soltape rebuild: analysts read positions, wallet_days, candles';
