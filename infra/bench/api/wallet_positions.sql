-- The positions of a slice of the wallets as they are now, with their open lots, wallet by wallet.
SELECT
    toFixedString(base58Decode(p.wallet), 32) AS raw_wallet,
    toFixedString(base58Decode(p.mint), 32) AS raw_mint,
    p.wallet AS wallet,
    p.mint AS mint,
    lots.open AS open,
    p.held_raw_low, p.held_known_raw_low, p.bought_raw_low, p.sold_raw_low, p.unmatched_raw_low,
    p.bought_lamports_low, p.bought_usd_micros_low, p.sold_lamports_low, p.sold_usd_micros_low,
    p.matched_proceeds_lamports_low, p.matched_proceeds_usd_micros_low,
    p.matched_cost_lamports_low, p.matched_cost_usd_micros_low, p.held_cost_lamports_low,
    p.held_cost_usd_micros_low, p.fee_lamports, p.priority_fee_lamports, p.tip_lamports, p.buys,
    p.sells, p.wins, p.losses, p.lots_opened, p.lots_closed, p.first_trade_slot,
    toUnixTimestamp64Milli(p.first_trade_time), p.last_trade_slot,
    toUnixTimestamp64Milli(p.last_trade_time), p.slot
FROM
(
    SELECT *
    FROM positions
    WHERE cityHash64(wallet) % {slices:UInt64} = {slice:UInt64}
    ORDER BY wallet, mint, day DESC
    LIMIT 1 BY wallet, mint
) AS p
INNER JOIN
(
    SELECT
        wallet, mint,
        arraySlice(
            arraySort(groupArrayIf((slot, tx_index, toUnixTimestamp64Milli(block_time), quote_amount_raw, assumeNotNull(usd_value_micros)), side = 'buy')),
            1 + least(countIf(side = 'buy'), countIf(side = 'sell'))
        ) AS open
    FROM swaps
    WHERE cityHash64(wallet) % {slices:UInt64} = {slice:UInt64}
    GROUP BY wallet, mint
) AS lots ON p.wallet = lots.wallet AND p.mint = lots.mint
ORDER BY wallet
