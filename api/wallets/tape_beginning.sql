-- The first slot of the tape.
SELECT slot, toUnixTimestamp64Milli(block_time) AS time_ms
FROM slots
ORDER BY slot
LIMIT 1
