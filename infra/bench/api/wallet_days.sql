-- What each wallet of a slice did on each day.
INSERT INTO wallet_days
(
    wallet, day, bought_lamports_low, bought_usd_micros_low, sold_lamports_low, sold_usd_micros_low,
    matched_proceeds_lamports_low, matched_proceeds_usd_micros_low, matched_cost_lamports_low,
    matched_cost_usd_micros_low, fee_lamports, priority_fee_lamports, tip_lamports, buys, sells,
    wins, losses, unmatched_sales, slot, overflow
)
SELECT
    wallet, day, sum(b_l), sum(b_u), sum(s_l), sum(s_u), sum(p_l), sum(p_u), sum(c_l), sum(c_u),
    25000 * (sum(b) + sum(s)), 20000 * (sum(b) + sum(s)), 100000 * (sum(b) + sum(s)),
    sum(b), sum(s), sum(w), sum(l), sum(u), max(last), []
FROM
(
    SELECT
        wallet, toDate(block_time) AS day,
        sumIf(quote_amount_raw, side = 'buy') AS b_l, sumIf(assumeNotNull(usd_value_micros), side = 'buy') AS b_u,
        sumIf(quote_amount_raw, side = 'sell') AS s_l, sumIf(assumeNotNull(usd_value_micros), side = 'sell') AS s_u,
        countIf(side = 'buy') AS b, countIf(side = 'sell') AS s, max(slot) AS last,
        0 AS p_l, 0 AS p_u, 0 AS c_l, 0 AS c_u, 0 AS w, 0 AS l, 0 AS u
    FROM swaps
    WHERE cityHash64(wallet) % {slices:UInt64} = {slice:UInt64}
    GROUP BY wallet, day
    UNION ALL
    SELECT
        wallet, toDate(block_time) AS day, 0, 0, 0, 0, 0, 0, max(slot),
        sumIf(assumeNotNull(proceeds_lamports), lot_number IS NOT NULL), sumIf(assumeNotNull(proceeds_usd_micros), lot_number IS NOT NULL),
        sum(ifNull(cost_lamports, 0)), sum(ifNull(cost_usd_micros, 0)),
        countIf(proceeds_usd_micros > cost_usd_micros), countIf(proceeds_usd_micros < cost_usd_micros),
        countIf(lot_number IS NULL)
    FROM lot_matches
    WHERE cityHash64(wallet) % {slices:UInt64} = {slice:UInt64}
    GROUP BY wallet, day
)
GROUP BY wallet, day
