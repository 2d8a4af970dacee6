-- Wallets that were put away, each as it was last up to the slot it was read at.
SELECT wallet, base64Encode(packed) AS packed
FROM cold_wallets
WHERE wallet IN {wallets:Array(String)}
    AND slot <= transform(wallet, {wallets:Array(String)}, {slots:Array(UInt64)}, toUInt64(0))
ORDER BY wallet, slot DESC
LIMIT 1 BY wallet
