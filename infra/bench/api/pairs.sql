-- Wallets and tokens of swaps drawn by their signatures.
SELECT wallet, mint
FROM swaps
WHERE cityHash64(signature) % {one_in:UInt64} = 0
ORDER BY signature
LIMIT {count:UInt64}
