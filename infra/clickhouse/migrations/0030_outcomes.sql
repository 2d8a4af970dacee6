-- What a slot has of each venue, so that a venue whose instructions are no longer understood shows.
CREATE TABLE IF NOT EXISTS outcomes
(
    slot UInt64 COMMENT 'number of the slot' CODEC(Delta, ZSTD(3)),
    dex LowCardinality(String) COMMENT 'venue, as a slug; empty: what could not be told to be of any' CODEC(ZSTD(3)),
    block_time DateTime64(3, 'UTC') COMMENT 'time of the block' CODEC(Delta, ZSTD(3)),
    swaps UInt32 COMMENT 'swaps, one a pool leg' CODEC(ZSTD(3)),
    decoded UInt32 COMMENT 'instructions of the venue that gave events' CODEC(ZSTD(3)),
    unknown UInt32 COMMENT 'instructions of the venue that its decoder has no name for' CODEC(ZSTD(3)),
    malformed UInt32 COMMENT 'instructions of the venue whose bytes do not fit' CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree
PARTITION BY intDiv(slot, 10000000)
ORDER BY (slot, dex)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'What confirmed slots have of each venue; a venue without a row in a slot has nothing there. Sums over venues are those of slots';
