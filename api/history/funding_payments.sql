-- Funding payments of a wallet within a range of time and before a place, newest first; a payment
-- may be there twice until parts are merged.
SELECT
    signature, slot, tx_index, event_index, log_index,
    toUnixTimestamp64Milli(block_time) AS block_time_ms,
    program_id, account, market_index, payment_raw, base_raw, last_cumulative_funding,
    cumulative_funding_long, cumulative_funding_short
FROM funding_payments
WHERE wallet = {wallet:String}
    AND dex = {dex:String}
    AND block_time >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND block_time <= fromUnixTimestamp64Milli({before_ms:Int64}, 'UTC')
    AND (block_time, slot, tx_index, event_index, log_index) < (
        fromUnixTimestamp64Milli({before_ms:Int64}, 'UTC'),
        {before_slot:UInt64},
        {before_tx_index:UInt32},
        {before_event_index:UInt32},
        {before_log_index:UInt32}
    )
    AND slot <= {as_of_slot:UInt64}
ORDER BY block_time DESC, slot DESC, tx_index DESC, event_index DESC, log_index DESC
LIMIT {limit:UInt32}
