-- Swaps of a wallet within a range of time and before a place, newest first; a swap may be there
-- twice until parts are merged. `cutoff` is found in the projection by_wallet_time alone: with those
-- of the place's own moment there are enough swaps from there on.
WITH
    fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC') AS since,
    fromUnixTimestamp64Milli({before_ms:Int64}, 'UTC') AS before,
    (
        SELECT if(count() = 0, before, min(at))
        FROM
        (
            SELECT block_time AS at
            FROM swaps
            WHERE wallet = {wallet:String} AND block_time >= since AND block_time < before
            ORDER BY block_time DESC
            LIMIT {limit:UInt32}
        )
    ) AS cutoff
SELECT
    signature, slot, tx_index, event_index, toUnixTimestamp64Milli(block_time) AS block_time_ms,
    dex, program_id, pool, wallet, fee_payer, keeper, mint, quote_mint, side,
    amount_raw, decimals, quote_amount_raw, quote_decimals,
    wallet_amount_raw, wallet_quote_amount_raw, sol_value_lamports, usd_value_micros,
    pool_fee_raw, pool_fee_mint, fee_lamports, priority_fee_lamports, tip_lamports,
    router, platform, reserve_raw, quote_reserve_raw, liquidity, sqrt_price_x64
FROM swaps
WHERE wallet = {wallet:String}
    AND block_time >= cutoff
    AND block_time >= since
    AND block_time <= before
    AND (block_time, slot, tx_index, event_index)
        < (before, {before_slot:UInt64}, {before_tx_index:UInt32}, {before_event_index:UInt32})
    AND slot <= {as_of_slot:UInt64}
ORDER BY block_time DESC, slot DESC, tx_index DESC, event_index DESC
LIMIT {limit:UInt32}
