-- Candles of a token that begin in a range of time. The running one is in Redis.
SELECT
    toUnixTimestamp64Milli(start) AS start_ms,
    slot,
    open_sol, high_sol, low_sol, close_sol,
    open_usd, high_usd, low_usd, close_usd,
    amount_raw,
    volume_lamports,
    volume_usd_micros,
    buys,
    sells
FROM candles FINAL
WHERE mint = {mint:String}
    AND interval_s = {interval_s:UInt32}
    AND start >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND start < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
ORDER BY start
