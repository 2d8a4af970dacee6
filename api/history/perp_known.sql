-- From where on the perp events of a venue are known, and how many instructions could not be read
-- whose events may be a wallet's, within a range of time. Where nothing is known: no slot, 0.
WITH (SELECT min(first_slot) FROM perp_histories WHERE dex = {dex:String}) AS first
SELECT
    first AS first_slot,
    (
        SELECT toUnixTimestamp64Milli(min(block_time))
        FROM (SELECT block_time FROM slots WHERE slot >= first ORDER BY slot LIMIT 1)
    ) AS first_ms,
    (SELECT count() FROM perp_histories WHERE dex = {dex:String}) AS histories,
    count() AS unread
FROM perp_gaps FINAL
WHERE dex = {dex:String}
    AND wallet IN ('', {wallet:String})
    AND block_time >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND block_time < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
    AND slot <= {as_of_slot:UInt64}
