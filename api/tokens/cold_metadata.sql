-- What RPC said of tokens, as Redis has it while their markets are there.
SELECT
    mint, name, symbol, uri, decimals, supply_raw, token_program,
    'found' AS status,
    toUnixTimestamp64Milli(asked_at) AS asked_ms
FROM token_metadata
WHERE mint IN {mints:Array(String)}
ORDER BY mint, asked_at DESC
LIMIT 1 BY mint
