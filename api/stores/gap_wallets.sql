-- In how many rolled-back slots each wallet has something, as many wallets as may be read.
SELECT
    wallet,
    toUInt32(uniqExact(first_slot)) AS slots
FROM gaps FINAL
ARRAY JOIN wallets AS wallet
WHERE lost_by = '' AND startsWith(reason, 'rolled back')
GROUP BY wallet
LIMIT {most:UInt32}
