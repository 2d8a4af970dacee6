-- From where on the perp events of a venue are known, of a wallet and of those that may be anybody's,
-- and how many instructions could not be read whose events may be the wallet's, within a range of
-- time. Where that is nowhere yet, the slot is null and its time 0.
WITH (
    SELECT if(
        countIf(partition IN {of_wallet:Array(UInt16)}) = 0
            OR countIf(partition IN {of_nobody:Array(UInt16)}) = 0,
        NULL,
        greatest(
            minIf(first_slot, partition IN {of_wallet:Array(UInt16)}),
            minIf(first_slot, partition IN {of_nobody:Array(UInt16)})
        )
    )
    FROM perp_histories
    WHERE dex = {dex:String}
) AS first
SELECT
    first AS first_slot,
    (
        SELECT toUnixTimestamp64Milli(min(block_time))
        FROM (SELECT block_time FROM slots WHERE slot >= first ORDER BY slot LIMIT 1)
    ) AS first_ms,
    count() AS unread
FROM perp_gaps FINAL
WHERE dex = {dex:String}
    AND wallet IN ('', {wallet:String})
    AND block_time >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND block_time < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
    AND slot <= {as_of_slot:UInt64}
