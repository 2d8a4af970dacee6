-- Since when there are snapshots of a wallet: nothing where there are none.
SELECT toUnixTimestamp64Milli(read_at) AS time_ms
FROM net_worth_snapshots FINAL
WHERE wallet = {wallet:String}
ORDER BY hour
LIMIT 1
