-- Swaps that have a token on either side, of one wallet or, where that is empty, of all, within a
-- range of time and before a place, newest first; a swap may be there twice until parts are merged. As `mint` they are read backwards in the order of
-- the table, and no further than the limit: LIMIT BY or FINAL would read all columns of a whole
-- granule in each part. As `quote_mint` they lie apart: `cutoff` is found in the projection
-- by_quote_time alone, and with the swaps of the place's own moment there are enough from there on.
WITH
    fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC') AS since,
    fromUnixTimestamp64Milli({before_ms:Int64}, 'UTC') AS before,
    (
        SELECT if(count() = 0, before, min(at))
        FROM
        (
            SELECT block_time AS at
            FROM swaps
            WHERE quote_mint = {mint:String} AND block_time >= since AND block_time < before
                AND ({wallet:String} = '' OR wallet = {wallet:String})
            ORDER BY block_time DESC
            LIMIT {limit:UInt32}
        )
    ) AS cutoff
SELECT *
FROM
(
    SELECT
        signature, slot, tx_index, event_index, toUnixTimestamp64Milli(block_time) AS block_time_ms,
        dex, program_id, pool, wallet, fee_payer, keeper, mint, quote_mint, side,
        amount_raw, decimals, quote_amount_raw, quote_decimals,
        wallet_amount_raw, wallet_quote_amount_raw, sol_value_lamports, usd_value_micros,
        pool_fee_raw, pool_fee_mint, fee_lamports, priority_fee_lamports, tip_lamports,
        router, platform, reserve_raw, quote_reserve_raw, liquidity, sqrt_price_x64
    FROM swaps
    WHERE mint = {mint:String}
        AND ({wallet:String} = '' OR wallet = {wallet:String})
        AND block_time >= since
        AND block_time <= before
        AND (block_time, slot, tx_index, event_index)
            < (before, {before_slot:UInt64}, {before_tx_index:UInt32}, {before_event_index:UInt32})
        AND slot <= {as_of_slot:UInt64}
    ORDER BY block_time DESC, slot DESC, tx_index DESC, event_index DESC
    LIMIT {limit:UInt32}
    UNION ALL
    SELECT
        signature, slot, tx_index, event_index, toUnixTimestamp64Milli(block_time) AS block_time_ms,
        dex, program_id, pool, wallet, fee_payer, keeper, mint, quote_mint, side,
        amount_raw, decimals, quote_amount_raw, quote_decimals,
        wallet_amount_raw, wallet_quote_amount_raw, sol_value_lamports, usd_value_micros,
        pool_fee_raw, pool_fee_mint, fee_lamports, priority_fee_lamports, tip_lamports,
        router, platform, reserve_raw, quote_reserve_raw, liquidity, sqrt_price_x64
    FROM swaps
    WHERE quote_mint = {mint:String}
        AND mint != {mint:String}
        AND ({wallet:String} = '' OR wallet = {wallet:String})
        AND block_time >= cutoff
        AND block_time >= since
        AND block_time <= before
        AND (block_time, slot, tx_index, event_index)
            < (before, {before_slot:UInt64}, {before_tx_index:UInt32}, {before_event_index:UInt32})
        AND slot <= {as_of_slot:UInt64}
    ORDER BY block_time DESC, slot DESC, tx_index DESC, event_index DESC
    LIMIT {limit:UInt32}
)
ORDER BY block_time_ms DESC, slot DESC, tx_index DESC, event_index DESC
LIMIT {limit:UInt32}
