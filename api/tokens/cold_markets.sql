-- Markets that are at rest, each as it was last up to the slot it was read at: the first `most` bytes,
-- and the size of all. Of bytes, which no text column of an answer can be trusted with, in base64.
SELECT
    mint,
    length(cold_markets.packed) AS size,
    base64Encode(substring(cold_markets.packed, 1, {most:UInt64})) AS packed
FROM cold_markets
WHERE mint IN {mints:Array(String)}
    AND slot <= transform(mint, {mints:Array(String)}, {slots:Array(UInt64)}, toUInt64(0))
ORDER BY mint, cold_markets.slot DESC
LIMIT 1 BY mint
