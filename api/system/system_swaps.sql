-- Swaps of the newest hour of the tape, by the minutes of system_slots.
WITH
    (SELECT max(slot) FROM (SELECT slot FROM slots ORDER BY slot DESC LIMIT 1)) AS newest_slot,
    (
        SELECT max(toUnixTimestamp64Milli(block_time))
        FROM (SELECT block_time FROM slots ORDER BY slot DESC LIMIT 1)
    ) AS newest_ms
SELECT
    intDiv(greatest(newest_ms - toUnixTimestamp64Milli(block_time), 0), {minute_ms:Int64}) AS minute,
    sum(swaps) AS swaps
FROM outcomes FINAL
WHERE slot > newest_slot - least(newest_slot, {most_slots:UInt64}) AND minute < {minutes:Int64}
GROUP BY minute
