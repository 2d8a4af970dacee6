-- Trades, wallets and volume of each venue, hour by hour; all_kept is false where trades of the hour are deleted, or of before the tape.
-- hours = 24: how many hours up to the last slot
SELECT
    toStartOfHour(block_time) AS hour,
    dex,
    count() AS trades,
    uniq(wallet) AS wallets,
    round(sum(usd_value), 2) AS volume_usd,
    round(100 * volume_usd / nullIf(sum(volume_usd) OVER (PARTITION BY hour), 0), 2) AS share_pct,
    hour >= (SELECT kept_from FROM swaps_kept) AS all_kept
FROM trades
WHERE block_time >= (SELECT toStartOfHour(max(block_time)) FROM slots) - toIntervalHour({hours:UInt16})
GROUP BY hour, dex
ORDER BY hour DESC, volume_usd DESC, dex
