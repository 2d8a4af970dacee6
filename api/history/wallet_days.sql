-- What a wallet did on each day of a range, over all its tokens.
SELECT
    toString(day) AS day,
    bought_lamports, bought_usd_micros, sold_lamports, sold_usd_micros,
    matched_proceeds_lamports, matched_proceeds_usd_micros,
    matched_cost_lamports, matched_cost_usd_micros,
    fee_lamports, priority_fee_lamports, tip_lamports,
    buys, sells, wins, losses, unmatched_sales
FROM wallet_days FINAL
WHERE wallet = {wallet:String}
    AND wallet_days.day >= {first:Date}
    AND wallet_days.day <= {last:Date}
ORDER BY wallet_days.day
