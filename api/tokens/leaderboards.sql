-- Who realized most with some tokens: the last state of each position, in the fields of
-- schemas.positions.Position; gains and losses only.
SELECT
    mint,
    wallet,
    toInt256(matched_proceeds_usd_micros) - toInt256(matched_cost_usd_micros)
        AS realized_usd_micros,
    last.1 AS held_raw,
    last.2 AS bought_raw,
    last.3 AS sold_raw,
    last.4 AS unmatched_raw,
    last.5 AS bought_usd_micros,
    last.6 AS sold_usd_micros,
    last.7 AS matched_proceeds_lamports,
    last.8 AS matched_proceeds_usd_micros,
    last.9 AS matched_cost_lamports,
    last.10 AS matched_cost_usd_micros,
    last.11 AS buys,
    last.12 AS sells,
    last.13 AS wins,
    last.14 AS losses,
    last.15 AS first_trade_slot,
    toUInt64(toUnixTimestamp64Milli(last.16)) AS first_trade_ms,
    last.17 AS last_trade_slot,
    toUInt64(toUnixTimestamp64Milli(last.18)) AS last_trade_ms
FROM
(
    SELECT
        mint,
        wallet,
        argMax(
            (
                held_raw, bought_raw, sold_raw, unmatched_raw, bought_usd_micros, sold_usd_micros,
                matched_proceeds_lamports, matched_proceeds_usd_micros,
                matched_cost_lamports, matched_cost_usd_micros,
                buys, sells, wins, losses,
                first_trade_slot, first_trade_time, last_trade_slot, last_trade_time
            ),
            (day, slot)
        ) AS last
    FROM positions
    WHERE mint IN {mints:Array(String)}
    GROUP BY mint, wallet
)
WHERE realized_usd_micros != 0
ORDER BY mint, realized_usd_micros DESC, wallet
LIMIT {limit:UInt32} BY mint
