-- What becomes of new tokens, launchpad by launchpad: how many leave their curve, how many are still traded.
-- days = 7: tokens created in so many days up to the last slot
-- alive_s = 3600: traded so many seconds after its creation, or later, is alive; younger tokens do not count, nor those of which trades are deleted
WITH
    (SELECT max(block_time) FROM slots) AS last_time,
    (SELECT kept_from FROM swaps_kept) AS kept_from,
    created_at <= last_time - {alive_s:UInt32} AND created_at >= kept_from AS counts
SELECT
    platform,
    count() AS launches,
    countIf(isNotNull(migrated_at)) AS migrated,
    round(100 * migrated / launches, 2) AS migrated_pct,
    round(quantileExactIf(0.5)(seconds_to_migration, isNotNull(migrated_at)), 1) AS median_seconds_to_migration,
    countIf(counts) AS old_enough,
    countIf(counts AND last_trade_at >= created_at + {alive_s:UInt32}) AS alive,
    round(100 * alive / nullIf(old_enough, 0), 2) AS alive_pct
FROM launches
LEFT JOIN
(
    SELECT mint, max(block_time) AS last_trade_at
    FROM swaps
    WHERE block_time >= (SELECT max(block_time) FROM slots) - toIntervalDay({days:UInt16})
    GROUP BY mint
) AS traded USING (mint)
WHERE platform != '' AND created_at >= last_time - toIntervalDay({days:UInt16})
GROUP BY platform
ORDER BY launches DESC, platform
