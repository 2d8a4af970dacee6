-- What a wallet's perpetual positions realized within a range of time, by token traded.
SELECT
    mint,
    countIf(change = 'increase') AS increases,
    countIf(change = 'decrease') AS decreases,
    countIf(change = 'liquidate') AS liquidations,
    countIf(pnl_usd_micros > 0) AS wins,
    countIf(pnl_usd_micros < 0) AS losses,
    sum(toInt128(ifNull(pnl_usd_micros, 0))) AS realized_usd_micros,
    sum(toUInt128(fee_usd_micros)) AS fee_usd_micros,
    sum(toUInt128(ifNull(liquidation_fee_usd_micros, 0))) AS liquidation_fee_usd_micros
FROM perp_changes FINAL
WHERE wallet = {wallet:String}
    AND dex = {dex:String}
    AND block_time >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND block_time < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
    AND slot <= {as_of_slot:UInt64}
GROUP BY mint
ORDER BY mint
