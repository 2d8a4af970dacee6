-- The last candle of each length of a slice of the tokens.
SELECT
    mint, interval_s, toUnixTimestamp64Milli(start), slot, open_sol, high_sol, low_sol, close_sol,
    open_usd, high_usd, low_usd, close_usd, toUInt64(amount_raw), volume_lamports,
    volume_usd_micros, buys, sells
FROM candles
WHERE cityHash64(mint) % {slices:UInt64} = {slice:UInt64}
ORDER BY mint, interval_s, start DESC
LIMIT 1 BY mint, interval_s
