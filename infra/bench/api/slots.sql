-- The slots of the last hour.
INSERT INTO slots
(slot, parent, blockhash, block_time, transactions, decoded, unknown, malformed, complete, sol_usd)
WITH {first_slot:UInt64} + {slots:UInt64} - 1 - number AS n
SELECT
    n, n - 1, base58Encode(SHA256(toString(n))),
    fromUnixTimestamp64Milli({first_ms:Int64} + {slot_ms:Int64} * toInt64(n - {first_slot:UInt64}), 'UTC'),
    1000, 160, 0, 0, true, toDecimal128({sol_usd:Float64}, 18)
FROM numbers(9000)
