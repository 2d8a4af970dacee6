-- What a slice of the wallets did on each day, by day.
SELECT
    toFixedString(base58Decode(wallet), 32) AS raw_wallet,
    wallet,
    toUInt32(toRelativeDayNum(day)) AS number,
    bought_lamports_low, bought_usd_micros_low, sold_lamports_low, sold_usd_micros_low,
    matched_proceeds_lamports_low, matched_proceeds_usd_micros_low, matched_cost_lamports_low,
    matched_cost_usd_micros_low, fee_lamports, priority_fee_lamports, tip_lamports, buys, sells,
    wins, losses, unmatched_sales, slot
FROM wallet_days
WHERE cityHash64(wallet) % {slices:UInt64} = {slice:UInt64}
