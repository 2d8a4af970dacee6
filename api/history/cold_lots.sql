-- A position in a dead token with all its open lots, as it was up to a slot.
SELECT base64Encode(packed) AS packed
FROM cold_positions
WHERE mint = {mint:String}
    AND partition = {partition:UInt8}
    AND wallet = {wallet:String}
    AND slot <= {as_of_slot:UInt64}
ORDER BY slot DESC
LIMIT 1
