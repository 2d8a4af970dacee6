-- Positions in dead tokens of some wallets, each the latest up to the slot its wallet was read at,
-- without their lots; the packed position begins after its length. Through the projection by_wallet.
SELECT wallet, mint, base64Encode(substring(packed, 5, reinterpretAsUInt32(substring(packed, 1, 4)))) AS position
FROM
(
    SELECT wallet, mint, packed
    FROM cold_positions
    WHERE wallet IN {wallets:Array(String)}
        AND slot <= transform(wallet, {wallets:Array(String)}, {slots:Array(UInt64)}, toUInt64(0))
    ORDER BY wallet, mint, slot DESC
    LIMIT 1 BY wallet, mint
)
LIMIT {most:UInt32} BY wallet
