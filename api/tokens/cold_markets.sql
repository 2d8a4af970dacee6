-- Markets that are at rest, as Redis had them: the first `most` bytes of each, and the size of all.
-- Of bytes, which no text column of an answer can be trusted with, in base64.
SELECT
    mint,
    length(packed) AS size,
    base64Encode(substring(packed, 1, {most:UInt64})) AS packed
FROM cold_markets FINAL
WHERE mint IN {mints:Array(String)}
