-- Net worth of a wallet by interval: its last complete snapshot there, else its last one.
SELECT
    toInt64(intDiv(toUnixTimestamp64Milli(hour), {interval_ms:Int64}) * {interval_ms:Int64}) AS start_ms,
    toUnixTimestamp64Milli(read_at) AS time_ms,
    slot,
    net_worth_usd_micros,
    assets_usd_micros,
    debts_usd_micros,
    is_complete,
    reasons,
    unpriced,
    pending_routes
FROM net_worth_snapshots FINAL
WHERE wallet = {wallet:String}
    AND hour >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND hour < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
ORDER BY start_ms, is_complete DESC, slot DESC
LIMIT 1 BY start_ms
