-- A position as it was at the end of each day of a range on which it changed, the last one first,
-- and of the last such day before it: the difference of two is what happened between. FINAL reads
-- no more than the position's rows, by the sort key.
SELECT
    toString(day) AS day,
    held_raw, bought_raw, sold_raw, received_raw, sent_raw, burned_raw, unmatched_raw,
    bought_lamports, bought_usd_micros, sold_lamports, sold_usd_micros,
    matched_proceeds_lamports, matched_proceeds_usd_micros,
    matched_cost_lamports, matched_cost_usd_micros,
    fee_lamports, priority_fee_lamports, tip_lamports,
    buys, sells, wins, losses
FROM positions FINAL
WHERE mint = {mint:String}
    AND wallet = {wallet:String}
    AND positions.day <= {last:Date}
ORDER BY positions.day DESC
LIMIT {limit:UInt32}
