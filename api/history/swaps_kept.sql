-- What says from when on swaps are kept: the first slot of the tape, the oldest swap there is, and when
-- the database was made. None of them reads rows of swaps: parts know their earliest block. 0: there is none.
SELECT
    (SELECT toUnixTimestamp64Milli(min(block_time)) FROM (SELECT block_time FROM slots ORDER BY slot LIMIT 1)) AS begin_ms,
    (SELECT toUnixTimestamp64Milli(min(block_time)) FROM swaps) AS oldest_ms,
    (SELECT toUnixTimestamp64Milli(min(applied_at)) FROM schema_migrations) AS made_ms
