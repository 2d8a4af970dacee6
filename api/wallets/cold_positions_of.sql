-- Positions of a wallet in some dead tokens, as cold_positions.sql has them.
SELECT mint, base64Encode(substring(packed, 5, reinterpretAsUInt32(substring(packed, 1, 4)))) AS position
FROM cold_positions
WHERE wallet = {wallet:String} AND mint IN {mints:Array(String)} AND slot <= {slot:UInt64}
ORDER BY mint, slot DESC
LIMIT 1 BY mint
