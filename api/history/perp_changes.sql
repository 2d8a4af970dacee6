-- Changes of a wallet's perpetual positions within a range of time and before a place, newest first;
-- a change may be there twice until parts are merged.
SELECT
    signature, slot, tx_index, event_index, toUnixTimestamp64Milli(block_time) AS block_time_ms,
    program_id, position, pool, custody, collateral_custody, mint, side, change, is_instant,
    size_usd_micros, size_delta_usd_micros, collateral_delta_usd_micros, price_usd_micros,
    pnl_usd_micros, fee_usd_micros, position_fee_usd_micros, funding_fee_usd_micros,
    price_impact_fee_usd_micros, liquidation_fee_usd_micros, paid_out_usd_micros,
    collateral_usd_micros, entry_price_usd_micros
FROM perp_changes
WHERE wallet = {wallet:String}
    AND dex = {dex:String}
    AND block_time >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND block_time <= fromUnixTimestamp64Milli({before_ms:Int64}, 'UTC')
    AND (block_time, slot, tx_index, event_index) < (
        fromUnixTimestamp64Milli({before_ms:Int64}, 'UTC'),
        {before_slot:UInt64},
        {before_tx_index:UInt32},
        {before_event_index:UInt32}
    )
    AND slot <= {as_of_slot:UInt64}
ORDER BY block_time DESC, slot DESC, tx_index DESC, event_index DESC
LIMIT {limit:UInt32}
