-- Who made most of a token lately: realized gains, first in, first out, without fees.
-- mint: address of the token
-- days = 7: how many days (UTC) up to the last slot
SELECT
    wallet,
    sum(realized_usd_micros) / 1e6 AS realized_usd,
    sum(realized_lamports) / 1e9 AS realized_sol,
    sum(bought_usd_micros) / 1e6 AS bought_usd,
    sum(sold_usd_micros) / 1e6 AS sold_usd,
    sum(buys) AS bought_times,
    sum(sells) AS sold_times
FROM position_days
WHERE mint = {mint:String}
    AND dateDiff('day', day, (SELECT toDate(max(block_time)) FROM slots)) < {days:UInt16}
GROUP BY wallet
HAVING sold_times > 0
ORDER BY realized_usd DESC, wallet
LIMIT 20
