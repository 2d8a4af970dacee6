-- Every token, by its creation.
INSERT INTO tokens
(
    mint, name, symbol, uri, decimals, supply_raw, creator, platform, dex, pool, quote_mint,
    token_program, created_slot, created_at, migrated_slot, migrated_at, migrated_dex, migrated_pool,
    slot
)
WITH toString({seed:UInt64}) AS seed, toString(number) AS n
SELECT
    base58Encode(SHA256(concat(seed, ' mint ', n))),
    concat('Token number ', n),
    concat('TKN', n),
    concat('https://example.org/metadata/', n, '.json'),
    6,
    toUInt64(1e15),
    base58Encode(SHA256(concat(seed, ' wallet ', n))),
    'pump-fun',
    'pump-fun',
    base58Encode(SHA256(concat(seed, ' curve ', n))),
    'So11111111111111111111111111111111111111112',
    'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
    {first_slot:UInt64},
    fromUnixTimestamp64Milli({first_ms:Int64}, 'UTC'),
    {first_slot:UInt64},
    fromUnixTimestamp64Milli({first_ms:Int64}, 'UTC'),
    'pump-swap',
    base58Encode(SHA256(concat(seed, ' pool ', n))),
    {first_slot:UInt64}
FROM numbers({mints:UInt64})
