-- What the newest hour of the tape has of each venue, the busiest first.
WITH
    (SELECT max(slot) FROM (SELECT slot FROM slots ORDER BY slot DESC LIMIT 1)) AS newest_slot,
    (
        SELECT max(toUnixTimestamp64Milli(block_time))
        FROM (SELECT block_time FROM slots ORDER BY slot DESC LIMIT 1)
    ) AS newest_ms
SELECT
    dex,
    sum(swaps) AS swaps,
    sum(decoded) AS decoded,
    sum(unknown) AS unknown,
    sum(malformed) AS malformed
FROM outcomes FINAL
WHERE
    slot > newest_slot - least(newest_slot, {most_slots:UInt64})
    AND newest_ms - toUnixTimestamp64Milli(block_time) < {minutes:Int64} * {minute_ms:Int64}
GROUP BY dex
ORDER BY decoded + unknown + malformed DESC, dex
