-- The positions of a slice of the wallets at the end of each day on which they changed.
INSERT INTO positions
(
    wallet, mint, day, held_raw_low, held_known_raw_low, bought_raw_low, sold_raw_low,
    received_raw_low, sent_raw_low, burned_raw_low, unmatched_raw_low, bought_lamports_low,
    bought_usd_micros_low, sold_lamports_low, sold_usd_micros_low, matched_proceeds_lamports_low,
    matched_proceeds_usd_micros_low, matched_cost_lamports_low, matched_cost_usd_micros_low,
    held_cost_lamports_low, held_cost_usd_micros_low, fee_lamports, priority_fee_lamports,
    tip_lamports, buys, sells, wins, losses, lots_opened, lots_closed, first_trade_slot,
    first_trade_time, last_trade_slot, last_trade_time, slot, overflow
)
WITH
    {quantity_raw:UInt64} AS q,
    -- A sale is matched with a lot that may be bought later: until then nothing is held.
    least(m_, b_) AS closed
SELECT
    wallet, mint, day, q * (b_ - closed), q * (b_ - closed), q * b_, q * s_, 0, 0, 0, q * u_,
    b_l_, b_u_, s_l_, s_u_, p_l_, p_u_, c_l_, c_u_,
    if(b_l_ > c_l_, b_l_ - c_l_, 0), if(b_u_ > c_u_, b_u_ - c_u_, 0),
    25000 * (b_ + s_), 20000 * (b_ + s_), 100000 * (b_ + s_),
    b_, s_, w_, l_, b_, closed, first_, fromUnixTimestamp64Milli({first_ms:Int64} + {slot_ms:Int64} * toInt64(first_ - {first_slot:UInt64}), 'UTC'),
    last_, fromUnixTimestamp64Milli({first_ms:Int64} + {slot_ms:Int64} * toInt64(last_ - {first_slot:UInt64}), 'UTC'), last_, []
FROM
(
    SELECT
        wallet, mint, day,
        sum(b) OVER up AS b_, sum(s) OVER up AS s_, sum(m) OVER up AS m_, sum(u) OVER up AS u_,
        sum(b_l) OVER up AS b_l_, sum(b_u) OVER up AS b_u_, sum(s_l) OVER up AS s_l_, sum(s_u) OVER up AS s_u_,
        sum(p_l) OVER up AS p_l_, sum(p_u) OVER up AS p_u_, sum(c_l) OVER up AS c_l_, sum(c_u) OVER up AS c_u_,
        sum(w) OVER up AS w_, sum(l) OVER up AS l_, min(first) OVER up AS first_, max(last) OVER up AS last_
    FROM
    (
        SELECT
            wallet, mint, day, sum(b) AS b, sum(s) AS s, sum(m) AS m, sum(u) AS u,
            sum(b_l) AS b_l, sum(b_u) AS b_u, sum(s_l) AS s_l, sum(s_u) AS s_u,
            sum(p_l) AS p_l, sum(p_u) AS p_u, sum(c_l) AS c_l, sum(c_u) AS c_u,
            sum(w) AS w, sum(l) AS l, min(first) AS first, max(last) AS last
        FROM
        (
            SELECT
                wallet, mint, toDate(block_time) AS day,
                sumIf(quote_amount_raw, side = 'buy') AS b_l, sumIf(assumeNotNull(usd_value_micros), side = 'buy') AS b_u,
                sumIf(quote_amount_raw, side = 'sell') AS s_l, sumIf(assumeNotNull(usd_value_micros), side = 'sell') AS s_u,
                countIf(side = 'buy') AS b, countIf(side = 'sell') AS s, min(slot) AS first, max(slot) AS last,
                0 AS m, 0 AS u, 0 AS p_l, 0 AS p_u, 0 AS c_l, 0 AS c_u, 0 AS w, 0 AS l
            FROM swaps
            WHERE cityHash64(wallet) % {slices:UInt64} = {slice:UInt64}
            GROUP BY wallet, mint, day
            UNION ALL
            SELECT
                wallet, mint, toDate(block_time) AS day, 0, 0, 0, 0, 0, 0, min(slot), max(slot),
                countIf(lot_number IS NOT NULL), countIf(lot_number IS NULL),
                sumIf(assumeNotNull(proceeds_lamports), lot_number IS NOT NULL), sumIf(assumeNotNull(proceeds_usd_micros), lot_number IS NOT NULL),
                sum(ifNull(cost_lamports, 0)), sum(ifNull(cost_usd_micros, 0)),
                countIf(proceeds_usd_micros > cost_usd_micros), countIf(proceeds_usd_micros < cost_usd_micros)
            FROM lot_matches
            WHERE cityHash64(wallet) % {slices:UInt64} = {slice:UInt64}
            GROUP BY wallet, mint, day
        )
        GROUP BY wallet, mint, day
    )
    WINDOW up AS (PARTITION BY wallet, mint ORDER BY day)
)
