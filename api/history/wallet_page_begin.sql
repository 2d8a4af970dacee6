-- The moment from which on a wallet has as many swaps before a place as asked for, or the begin of the
-- range: found in the projection by_wallet_time alone.
SELECT if(count() < {limit:UInt32}, {from_ms:Int64}, toUnixTimestamp64Milli(min(at))) AS at_ms
FROM
(
    SELECT block_time AS at
    FROM swaps
    WHERE wallet = {wallet:String}
        AND block_time >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
        AND block_time < fromUnixTimestamp64Milli({before_ms:Int64}, 'UTC')
    ORDER BY block_time DESC
    LIMIT {limit:UInt32}
)
