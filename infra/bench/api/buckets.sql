-- The trades of a slice of the tokens since a moment, in buckets of so many minutes, in order.
SELECT
    mint,
    intDiv(toUnixTimestamp64Milli(block_time), {minutes:UInt32} * 60000) * {minutes:UInt32} AS start_min,
    uniqExact(wallet),
    countIf(side = 'buy'),
    countIf(side = 'sell'),
    sumIf(quote_amount_raw, side = 'buy'),
    sumIf(quote_amount_raw, side = 'sell'),
    sumIf(assumeNotNull(usd_value_micros), side = 'buy'),
    sumIf(assumeNotNull(usd_value_micros), side = 'sell'),
    argMax(quote_amount_raw, (slot, tx_index))
FROM swaps
WHERE cityHash64(mint) % {slices:UInt64} = {slice:UInt64}
    AND block_time >= fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC')
GROUP BY mint, start_min
ORDER BY mint, start_min
