-- Tokens that a wallet has a position in, newest trade first, after a place in that order; and how
-- many there are in all. Through the projection by_wallet_traded.
SELECT mint, last_trade_ms, position_count
FROM
(
    SELECT
        mint,
        toUnixTimestamp64Milli(max(last_trade_time)) AS last_trade_ms,
        count() OVER () AS position_count
    FROM positions
    WHERE wallet = {wallet:String}
    GROUP BY mint
)
WHERE last_trade_ms < {after_ms:Int64} OR (last_trade_ms = {after_ms:Int64} AND mint > {after_mint:String})
ORDER BY last_trade_ms DESC, mint
LIMIT {limit:UInt32}
