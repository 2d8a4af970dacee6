-- Swaps {first} up to {first} + {count} of the data set, as a function of their numbers.
INSERT INTO swaps
(
    signature, slot, tx_index, event_index, block_time, dex, program_id, pool, wallet,
    other_fee_payer, mint, quote_mint, side, amount_raw, decimals, quote_amount_raw, quote_decimals,
    wallet_amount_diff_raw, wallet_quote_amount_diff_raw, sol_value_unlike_quote_lamports,
    usd_value_micros, pool_fee_raw, pool_fee_mint, base_fee_lamports, priority_fee_lamports,
    tip_lamports, router, platform, reserve_raw, quote_reserve_raw, liquidity, sqrt_price_x64,
    keeper
)
WITH
    {seed:UInt64} AS seed,
    18446744073709551616. AS whole,
    cityHash64(seed, number, 1) AS h1,
    cityHash64(seed, number, 2) AS h2,
    cityHash64(seed, number, 3) AS h3,
    if(h1 % 2 = 0, h2 % {busy:UInt64}, h2 % {wallets:UInt64}) AS wallet_n,
    if(wallet_n < {busy:UInt64}, toUInt64(40 * pow(h3 / whole, 2)), h3 % 4) AS liked,
    least(
        toUInt64({mints:UInt64} * pow(cityHash64(seed, wallet_n, liked, 4) / whole, 3)),
        {mints:UInt64} - 1
    ) AS mint_n,
    base58Encode(SHA256(concat(toString(seed), ' wallet ', toString(wallet_n)))) AS of_wallet,
    base58Encode(SHA256(concat(toString(seed), ' mint ', toString(mint_n)))) AS of_mint,
    base58Encode(SHA256(concat(toString(seed), ' pool ', toString(mint_n)))) AS of_pool,
    {first_slot:UInt64} + intDiv(number * {slots:UInt64}, {swaps:UInt64}) AS of_slot,
    {first_ms:UInt64} + (of_slot - {first_slot:UInt64}) * {slot_ms:UInt64} AS of_ms,
    -- A thousand tokens cost from a tenth of a millisol to a whole one, half more or less each time.
    toUInt64(
        pow(10, 5 + 4 * cityHash64(seed, mint_n, 5) / whole) * (0.5 + cityHash64(seed, number, 6) / whole)
    ) AS lamports
SELECT
    base58Encode(SHA512(concat(toString(seed), ' swap ', toString(number)))),
    of_slot,
    number % 4096,
    3,
    fromUnixTimestamp64Milli(toInt64(of_ms), 'UTC'),
    'pump-swap',
    'pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA',
    of_pool,
    of_wallet,
    '',
    of_mint,
    'So11111111111111111111111111111111111111112',
    if(cityHash64(seed, number, 7) % 100 < 55, 'buy', 'sell'),
    {quantity_raw:UInt64},
    6,
    lamports,
    9,
    0,
    intDiv(lamports, 100),
    NULL,
    intDiv(lamports * 16, 100),
    intDiv(lamports, 400),
    'So11111111111111111111111111111111111111112',
    5000,
    20000,
    100000,
    ['jupiter', 'axiom', 'photon', ''][1 + h1 % 4],
    'pump-fun',
    toUInt64(1e15),
    toUInt64(1e11),
    NULL,
    NULL,
    ''
FROM numbers({first:UInt64}, {count:UInt64})
