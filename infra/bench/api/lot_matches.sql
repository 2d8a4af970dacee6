-- What each sale of a slice of the wallets took of which lot: the k-th sale takes the k-th lot whole.
INSERT INTO lot_matches
(
    wallet, mint, signature, slot, tx_index, event_index, block_time, kind, lot_number, lot_slot,
    lot_tx_index, lot_time, quantity_raw, cost_lamports, cost_usd_micros, proceeds_lamports,
    proceeds_usd_micros
)
SELECT
    wallet, mint, sale.1, sale.2, sale.3, 3, sale.4, 'sale',
    if(k <= length(lots), k - 1, NULL),
    lots[k].1,
    lots[k].2,
    fromUnixTimestamp64Milli(lots[k].3, 'UTC'),
    {quantity_raw:UInt64},
    if(k <= length(lots), lots[k].4, NULL),
    if(k <= length(lots), lots[k].5, NULL),
    sale.5,
    sale.6
FROM
(
    SELECT
        wallet,
        mint,
        arraySort(groupArrayIf((slot, tx_index, toUnixTimestamp64Milli(block_time), quote_amount_raw, assumeNotNull(usd_value_micros)), side = 'buy')) AS lots,
        arraySort(sale -> (sale.2, sale.3), groupArrayIf((signature, slot, tx_index, block_time, quote_amount_raw, usd_value_micros), side = 'sell')) AS sales
    FROM swaps
    WHERE cityHash64(wallet) % {slices:UInt64} = {slice:UInt64}
    GROUP BY wallet, mint
)
ARRAY JOIN sales AS sale, arrayEnumerate(sales) AS k
