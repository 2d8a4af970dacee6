-- Blocks of the newest hour of the tape, by minutes counted back from the newest block: 0 ends with it.
WITH
    (SELECT max(slot) FROM (SELECT slot FROM slots ORDER BY slot DESC LIMIT 1)) AS newest_slot,
    (
        SELECT max(toUnixTimestamp64Milli(block_time))
        FROM (SELECT block_time FROM slots ORDER BY slot DESC LIMIT 1)
    ) AS newest_ms
SELECT
    intDiv(greatest(newest_ms - toUnixTimestamp64Milli(block_time), 0), {minute_ms:Int64}) AS minute,
    count() AS slots,
    sum(transactions) AS transactions,
    sum(unknown) AS unknown,
    sum(malformed) AS malformed,
    max(slot) AS last_slot,
    min(toUnixTimestamp64Milli(block_time)) AS first_ms,
    max(toUnixTimestamp64Milli(block_time)) AS last_ms
FROM slots FINAL
WHERE slot > newest_slot - least(newest_slot, {most_slots:UInt64}) AND minute < {minutes:Int64}
GROUP BY minute
ORDER BY minute
