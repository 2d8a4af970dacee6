-- What a wallet paid and received as funding within a range of time, by market.
SELECT
    market_index,
    count() AS payments,
    sum(toInt128(greatest(payment_raw, 0))) AS received_raw,
    -sum(toInt128(least(payment_raw, 0))) AS paid_raw
FROM funding_payments FINAL
WHERE wallet = {wallet:String}
    AND dex = {dex:String}
    AND block_time >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND block_time < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
    AND slot <= {as_of_slot:UInt64}
GROUP BY market_index
ORDER BY market_index
