-- Candles of one length, of all trades from a moment on.
INSERT INTO candles
(
    mint, interval_s, start, open_sol, high_sol, low_sol, close_sol, open_usd, high_usd, low_usd,
    close_usd, amount_raw, volume_lamports, volume_usd_micros, buys, sells, slot
)
SELECT
    mint, {interval_s:UInt32}, begin, first_sol, top_sol, least_sol, last_sol,
    first_sol * {sol_usd:Float64}, top_sol * {sol_usd:Float64}, least_sol * {sol_usd:Float64},
    last_sol * {sol_usd:Float64}, amount, lamports, micros, bought, sold, last
FROM
(
    SELECT
        mint,
        toStartOfInterval(block_time, toIntervalSecond({interval_s:UInt32})) AS begin,
        argMin(quote_amount_raw, (slot, tx_index)) / 1e12 AS first_sol,
        max(quote_amount_raw) / 1e12 AS top_sol,
        min(quote_amount_raw) / 1e12 AS least_sol,
        argMax(quote_amount_raw, (slot, tx_index)) / 1e12 AS last_sol,
        sum(amount_raw) AS amount, sum(quote_amount_raw) AS lamports, sum(assumeNotNull(usd_value_micros)) AS micros,
        countIf(side = 'buy') AS bought, countIf(side = 'sell') AS sold, max(slot) AS last
    FROM swaps
    WHERE block_time >= fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC')
        AND cityHash64(mint) % {slices:UInt64} = {slice:UInt64}
    GROUP BY mint, begin
)
