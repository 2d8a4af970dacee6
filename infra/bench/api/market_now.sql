-- The tokens of a slice: their last trade, their first price, how many wallets hold them.
SELECT
    s.mint, s.last_slot, s.last_ms, s.last_lamports, s.first_lamports, h.holders
FROM
(
    SELECT
        mint,
        max(slot) AS last_slot,
        toUnixTimestamp64Milli(max(block_time)) AS last_ms,
        argMax(quote_amount_raw, (slot, tx_index)) AS last_lamports,
        argMin(quote_amount_raw, (slot, tx_index)) AS first_lamports
    FROM swaps
    WHERE cityHash64(mint) % {slices:UInt64} = {slice:UInt64}
    GROUP BY mint
) AS s
INNER JOIN
(
    SELECT mint, countIf(held > 0) AS holders
    FROM
    (
        SELECT mint, wallet, argMax(held_raw_low, day) AS held
        FROM positions
        WHERE cityHash64(mint) % {slices:UInt64} = {slice:UInt64}
        GROUP BY mint, wallet
    )
    GROUP BY mint
) AS h ON s.mint = h.mint
