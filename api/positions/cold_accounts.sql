-- The last versions of a wallet's accounts, of which those that nothing touched for long are here
-- only. The index by_finder leads to the granules that may have any; FINAL leaves closed ones out.
SELECT address, program, lamports, base64Encode(data) AS data, slot
FROM accounts FINAL
WHERE has(found_by, {wallet:String})
ORDER BY address
LIMIT {most:UInt32}
