-- The tape itself: swaps, creations, migrations, slots, gaps, as the settled lanes carry them.
--
-- Sort keys are identities: a row that is written again replaces itself. Partition keys are
-- computed from the sort key, so FINAL never has to look across partitions. Addresses and
-- signatures are base58 text: after compression it is as small as the bytes (168.5 and 168.2 bytes
-- a swap), and WHERE mint = '...' finds its rows through the index without a function around it.
--
-- Fine granules of swaps are for pages of a wallet: each of its swaps lies in another one, which is
-- read whole. No ALTER changes them, so tables made of the text before keep theirs, of 8192 rows:
-- earlier: bf36c702adbe02594d695f6c516fbf495274b6eb2b23b7fd7417271b5bf882a7

CREATE TABLE IF NOT EXISTS swaps
(
    signature String COMMENT 'transaction; (signature, event_index) is the identity of a swap' CODEC(ZSTD(1)),
    slot UInt64 COMMENT 'slot of the transaction' CODEC(Delta, ZSTD(3)),
    tx_index UInt32 COMMENT 'place of the transaction in its slot' CODEC(ZSTD(3)),
    event_index UInt32 COMMENT 'place of the instruction in the transaction, in execution order, inner ones counted' CODEC(ZSTD(3)),
    block_time DateTime64(3, 'UTC') COMMENT 'time of the block' CODEC(Delta, ZSTD(3)),
    dex LowCardinality(String) COMMENT 'venue, as a slug' CODEC(ZSTD(3)),
    program_id LowCardinality(String) COMMENT 'program of the venue' CODEC(ZSTD(3)),
    pool String COMMENT 'pool or bonding curve' CODEC(ZSTD(3)),
    wallet String COMMENT 'owner of the token accounts that moved' CODEC(ZSTD(3)) SETTINGS (min_compress_block_size = 1048576),
    other_fee_payer String COMMENT 'payer of the transaction where it is not the wallet, else empty; see fee_payer' CODEC(ZSTD(3)),
    mint String COMMENT 'token traded' CODEC(ZSTD(3)),
    quote_mint String COMMENT 'token it was traded for' CODEC(ZSTD(3)),
    side Enum8('buy' = 1, 'sell' = 2) COMMENT 'what the wallet did with mint' CODEC(ZSTD(3)),
    amount_raw UInt64 COMMENT 'of mint, in its smallest unit, as the pool moved it' CODEC(ZSTD(3)),
    decimals UInt8 COMMENT 'of mint' CODEC(ZSTD(3)),
    quote_amount_raw UInt64 COMMENT 'of quote_mint, in its smallest unit, as the pool moved it' CODEC(ZSTD(3)),
    quote_decimals UInt8 COMMENT 'of quote_mint' CODEC(ZSTD(3)),
    wallet_amount_diff_raw Int64 COMMENT 'wallet_amount_raw - amount_raw: transfer fees of the token' CODEC(ZSTD(3)),
    wallet_quote_amount_diff_raw Int64 COMMENT 'wallet_quote_amount_raw - quote_amount_raw: fees taken outside the pool' CODEC(ZSTD(3)),
    sol_value_unlike_quote_lamports Nullable(UInt64) COMMENT 'value in lamports where the quote is not SOL; null: SOL is the quote, or its price is unknown; see sol_value_lamports' CODEC(ZSTD(3)),
    usd_value_micros Nullable(UInt64) COMMENT 'value of quote_amount_raw in millionths of a dollar; null while its price is unknown' CODEC(ZSTD(3)),
    pool_fee_raw Nullable(UInt64) COMMENT 'fee of the pool, of pool_fee_mint; null where the venue does not tell' CODEC(ZSTD(3)),
    pool_fee_mint String COMMENT 'token of the fee, or empty' CODEC(ZSTD(3)),
    base_fee_lamports UInt64 COMMENT 'network fee of the whole transaction without the priority fee' CODEC(ZSTD(3)),
    priority_fee_lamports UInt64 COMMENT 'priority fee of the whole transaction' CODEC(ZSTD(3)),
    tip_lamports UInt64 COMMENT 'tips to block builders and relays, of the whole transaction' CODEC(ZSTD(3)),
    router LowCardinality(String) COMMENT 'aggregator or trading app, as a slug, or empty' CODEC(ZSTD(3)),
    platform LowCardinality(String) COMMENT 'launchpad of the token, as a slug, or empty' CODEC(ZSTD(3)),
    reserve_raw Nullable(UInt64) COMMENT 'of mint in the pool after the swap; null where the venue does not tell' CODEC(ZSTD(3)),
    quote_reserve_raw Nullable(UInt64) COMMENT 'of quote_mint in the pool after the swap; null where the venue does not tell' CODEC(ZSTD(3)),
    liquidity Nullable(UInt128) COMMENT 'of a concentrated pool after the swap' CODEC(ZSTD(3)),
    sqrt_price_x64 Nullable(UInt128) COMMENT 'square root of the price after the swap, times 2^64, of a concentrated pool' CODEC(ZSTD(3)),
    fee_payer String ALIAS if(other_fee_payer = '', wallet, other_fee_payer) COMMENT 'payer of the transaction',
    fee_lamports UInt64 ALIAS base_fee_lamports + priority_fee_lamports COMMENT 'network fee of the whole transaction, base and priority',
    wallet_amount_raw UInt64 ALIAS toUInt64(amount_raw + wallet_amount_diff_raw) COMMENT 'of mint, as the wallet gave or received it',
    wallet_quote_amount_raw UInt64 ALIAS toUInt64(quote_amount_raw + wallet_quote_amount_diff_raw) COMMENT 'of quote_mint, as the wallet gave or received it',
    sol_value_lamports Nullable(UInt64) ALIAS if(quote_mint = 'So11111111111111111111111111111111111111112', quote_amount_raw, sol_value_unlike_quote_lamports) COMMENT 'value of quote_amount_raw in lamports; null while its price is unknown',
    amount Float64 ALIAS amount_raw / exp10(decimals) COMMENT 'of mint, as the pool moved it',
    quote_amount Float64 ALIAS quote_amount_raw / exp10(quote_decimals) COMMENT 'of quote_mint, as the pool moved it',
    wallet_amount Float64 ALIAS wallet_amount_raw / exp10(decimals) COMMENT 'of mint, as the wallet gave or received it',
    wallet_quote_amount Float64 ALIAS wallet_quote_amount_raw / exp10(quote_decimals) COMMENT 'of quote_mint, as the wallet gave or received it',
    sol_value Nullable(Float64) ALIAS sol_value_lamports / 1e9 COMMENT 'value in SOL; null while unknown',
    usd_value Nullable(Float64) ALIAS usd_value_micros / 1e6 COMMENT 'value in dollars; null while unknown',
    price Nullable(Float64) ALIAS if(amount_raw = 0, NULL, quote_amount / amount) COMMENT 'quote_mint per token; null where no token moved',
    price_sol Nullable(Float64) ALIAS if(amount_raw = 0, NULL, sol_value / amount) COMMENT 'SOL per token; null while unknown',
    price_usd Nullable(Float64) ALIAS if(amount_raw = 0, NULL, usd_value / amount) COMMENT 'dollars per token; null while unknown',
    fee_sol Float64 ALIAS fee_lamports / 1e9 COMMENT 'network fee of the whole transaction, base and priority',
    priority_fee_sol Float64 ALIAS priority_fee_lamports / 1e9 COMMENT 'of this the priority fee',
    tip_sol Float64 ALIAS tip_lamports / 1e9 COMMENT 'tips to block builders and relays, of the whole transaction',
    written_at DateTime('UTC') MATERIALIZED now() COMMENT 'when this row was written; what CLICKHOUSE_SWAPS_DAYS counts from' CODEC(Delta, ZSTD(3)),
    PROJECTION by_wallet (SELECT _part_offset ORDER BY wallet),
    PROJECTION by_time (SELECT _part_offset ORDER BY block_time)
)
ENGINE = ReplacingMergeTree(slot)
PARTITION BY toYYYYMMDD(block_time)
PRIMARY KEY (mint, block_time)
ORDER BY (mint, block_time, slot, tx_index, event_index)
SETTINGS
    index_granularity = 2048,
    non_replicated_deduplication_window = 1000,
    deduplicate_merge_projection_mode = 'rebuild',
    ttl_only_drop_parts = 1
COMMENT 'DEX swaps of confirmed slots, one row a pool leg. A row may be there twice until parts are merged: ask the view trades, or with FINAL';

CREATE TABLE IF NOT EXISTS creations
(
    signature String COMMENT 'transaction; (signature, event_index) is the identity of a creation' CODEC(ZSTD(1)),
    slot UInt64 COMMENT 'slot of the transaction' CODEC(Delta, ZSTD(3)),
    tx_index UInt32 COMMENT 'place of the transaction in its slot' CODEC(ZSTD(3)),
    event_index UInt32 COMMENT 'place of the instruction in the transaction, in execution order, inner ones counted' CODEC(ZSTD(3)),
    block_time DateTime64(3, 'UTC') COMMENT 'time of the block' CODEC(Delta, ZSTD(3)),
    mint String COMMENT 'token created' CODEC(ZSTD(3)),
    name String COMMENT 'name of the token, as its creator wrote it' CODEC(ZSTD(3)),
    symbol String COMMENT 'symbol of the token, as its creator wrote it' CODEC(ZSTD(3)),
    uri String COMMENT 'address of the token''s metadata file' CODEC(ZSTD(3)),
    creator String COMMENT 'wallet that created the token' CODEC(ZSTD(3)),
    platform LowCardinality(String) COMMENT 'launchpad, as a slug, or empty' CODEC(ZSTD(3)),
    dex LowCardinality(String) COMMENT 'venue of the curve or of the first pool, as a slug' CODEC(ZSTD(3)),
    pool String COMMENT 'bonding curve or first pool' CODEC(ZSTD(3)),
    quote_mint String COMMENT 'token it is traded for there' CODEC(ZSTD(3)),
    decimals Nullable(UInt8) COMMENT 'of mint; null where the transaction does not tell' CODEC(ZSTD(3)),
    supply_raw Nullable(UInt64) COMMENT 'supply in the smallest unit; null where the transaction does not tell' CODEC(ZSTD(3)),
    token_program LowCardinality(String) COMMENT 'Token or Token-2022 program' CODEC(ZSTD(3)),
    INDEX by_mint mint TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_creator creator TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(slot)
PARTITION BY toYYYYMM(block_time)
PRIMARY KEY (block_time, slot)
ORDER BY (block_time, slot, tx_index, event_index)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Token creations of confirmed slots; the view launches shows what became of them';

CREATE TABLE IF NOT EXISTS migrations
(
    signature String COMMENT 'transaction; (signature, event_index) is the identity of a migration' CODEC(ZSTD(1)),
    slot UInt64 COMMENT 'slot of the transaction' CODEC(Delta, ZSTD(3)),
    tx_index UInt32 COMMENT 'place of the transaction in its slot' CODEC(ZSTD(3)),
    event_index UInt32 COMMENT 'place of the instruction in the transaction, in execution order, inner ones counted' CODEC(ZSTD(3)),
    block_time DateTime64(3, 'UTC') COMMENT 'time of the block' CODEC(Delta, ZSTD(3)),
    mint String COMMENT 'token that left its bonding curve' CODEC(ZSTD(3)),
    platform LowCardinality(String) COMMENT 'launchpad, as a slug, or empty' CODEC(ZSTD(3)),
    from_dex LowCardinality(String) COMMENT 'venue of the curve, as a slug' CODEC(ZSTD(3)),
    from_pool String COMMENT 'bonding curve' CODEC(ZSTD(3)),
    dex LowCardinality(String) COMMENT 'venue of the new pool, as a slug' CODEC(ZSTD(3)),
    pool String COMMENT 'new pool' CODEC(ZSTD(3)),
    quote_mint String COMMENT 'token it is traded for there' CODEC(ZSTD(3)),
    amount_raw Nullable(UInt64) COMMENT 'of mint put into the new pool; null where the transaction does not tell' CODEC(ZSTD(3)),
    quote_amount_raw Nullable(UInt64) COMMENT 'of quote_mint put into the new pool; null where the transaction does not tell' CODEC(ZSTD(3)),
    INDEX by_mint mint TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(slot)
PARTITION BY toYYYYMM(block_time)
PRIMARY KEY (block_time, slot)
ORDER BY (block_time, slot, tx_index, event_index)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Tokens that left their bonding curve for a pool, in confirmed slots';

CREATE TABLE IF NOT EXISTS slots
(
    slot UInt64 COMMENT 'number of the slot' CODEC(Delta, ZSTD(3)),
    parent Nullable(UInt64) COMMENT 'slot before it on the chain; null where it was not told' CODEC(ZSTD(3)),
    blockhash String COMMENT 'hash of the block, or empty where it was not told' CODEC(ZSTD(1)),
    block_time DateTime64(3, 'UTC') COMMENT 'time of the block' CODEC(Delta, ZSTD(3)),
    transactions UInt32 COMMENT 'transactions that were received' CODEC(ZSTD(3)),
    decoded UInt32 COMMENT 'instructions of venues that gave events' CODEC(ZSTD(3)),
    unknown UInt32 COMMENT 'instructions of venues that no decoder has a name for' CODEC(ZSTD(3)),
    malformed UInt32 COMMENT 'instructions of venues whose bytes do not fit' CODEC(ZSTD(3)),
    complete Bool COMMENT 'false: part of the slot is missing, and gaps says so' CODEC(ZSTD(3)),
    sol_usd Nullable(Decimal(38, 18)) COMMENT 'reference price of SOL in dollars that the slot was valued with; null while unknown' CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree(slot)
PARTITION BY intDiv(slot, 10000000)
ORDER BY slot
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Confirmed slots that have a block; a slot in neither slots nor gaps had none';

CREATE TABLE IF NOT EXISTS gaps
(
    first_slot UInt64 COMMENT 'first missing slot' CODEC(Delta, ZSTD(3)),
    last_slot UInt64 COMMENT 'last missing slot' CODEC(Delta, ZSTD(3)),
    reason LowCardinality(String) COMMENT 'why they could not be had' CODEC(ZSTD(3)),
    detected_at DateTime64(3, 'UTC') COMMENT 'when that was known' CODEC(Delta, ZSTD(3))
)
ENGINE = ReplacingMergeTree(detected_at)
ORDER BY (first_slot, last_slot)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Slots that could neither be streamed nor fetched';
