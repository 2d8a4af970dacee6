-- Markets of mints: candles, what a token is, who holds it.
--
-- Every row is an absolute snapshot with the slot it was taken at: written again it replaces itself.
-- Prices are derived from exact integers, and Float64 here; 0 means not known. What is kept for a
-- time is kept from when it was written: a chain replayed from a recording has times of long ago.

CREATE TABLE IF NOT EXISTS candles
(
    mint String COMMENT 'token' CODEC(ZSTD(3)),
    interval_s UInt32 COMMENT 'length in seconds: 1, 60, 300, 900, 3600, 14400, 86400' CODEC(ZSTD(1)),
    start DateTime64(3, 'UTC') COMMENT 'when the interval begins' CODEC(Delta, ZSTD(3)),
    open_sol Float64 COMMENT 'first price within the interval, SOL per token; 0: none was known' CODEC(ZSTD(3)),
    high_sol Float64 COMMENT 'highest price, SOL per token' CODEC(ZSTD(3)),
    low_sol Float64 COMMENT 'lowest price, SOL per token' CODEC(ZSTD(3)),
    close_sol Float64 COMMENT 'last price, SOL per token' CODEC(ZSTD(3)),
    open_usd Float64 COMMENT 'first price in dollars; 0: none was known' CODEC(ZSTD(3)),
    high_usd Float64 COMMENT 'highest price in dollars' CODEC(ZSTD(3)),
    low_usd Float64 COMMENT 'lowest price in dollars' CODEC(ZSTD(3)),
    close_usd Float64 COMMENT 'last price in dollars' CODEC(ZSTD(3)),
    amount_raw UInt128 COMMENT 'traded, in the smallest unit' CODEC(ZSTD(3)),
    volume_lamports UInt64 COMMENT 'value of all trades in lamports' CODEC(ZSTD(3)),
    volume_usd_micros UInt64 COMMENT 'value of all trades in millionths of a dollar' CODEC(ZSTD(3)),
    buys UInt32 COMMENT 'trades that bought the token' CODEC(ZSTD(3)),
    sells UInt32 COMMENT 'trades that sold it' CODEC(ZSTD(3)),
    slot UInt64 COMMENT 'of the last trade in it: the latest snapshot counts' CODEC(Delta, ZSTD(3)),
    written_at DateTime('UTC') MATERIALIZED now() COMMENT 'when this row was written; what its time to live counts from' CODEC(Delta, ZSTD(3))
)
ENGINE = ReplacingMergeTree(slot)
PARTITION BY (interval_s = 1, toYYYYMM(start))
ORDER BY (mint, interval_s, start)
TTL written_at + INTERVAL 7 DAY DELETE WHERE interval_s = 1
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Candles. One-second ones are kept for a week; longer ones are written minute by minute while the token trades: read with FINAL. The candle of the running minute is in Redis';

CREATE TABLE IF NOT EXISTS tokens
(
    mint String COMMENT 'address of the token' CODEC(ZSTD(3)),
    name String COMMENT 'as its creator wrote it; empty: creation not seen, see token_metadata' CODEC(ZSTD(3)),
    symbol String COMMENT 'likewise' CODEC(ZSTD(3)),
    uri String COMMENT 'of the metadata, likewise' CODEC(ZSTD(3)),
    decimals Nullable(UInt8) COMMENT 'places behind the point' CODEC(ZSTD(3)),
    supply_raw Nullable(UInt64) COMMENT 'at creation, in the smallest unit' CODEC(ZSTD(3)),
    creator String COMMENT 'wallet that created it; empty: not seen' CODEC(ZSTD(3)),
    platform LowCardinality(String) COMMENT 'launchpad, as a slug, or empty' CODEC(ZSTD(3)),
    dex LowCardinality(String) COMMENT 'venue it was created on' CODEC(ZSTD(3)),
    pool String COMMENT 'first pool or bonding curve' CODEC(ZSTD(3)),
    quote_mint String COMMENT 'what that pool trades it for' CODEC(ZSTD(3)),
    token_program LowCardinality(String) COMMENT 'SPL Token or Token-2022, its address' CODEC(ZSTD(3)),
    created_slot Nullable(UInt64) COMMENT 'slot of the creation; null: not seen' CODEC(ZSTD(3)),
    created_at Nullable(DateTime64(3, 'UTC')) COMMENT 'time of the creation; null: not seen' CODEC(ZSTD(3)),
    migrated_slot Nullable(UInt64) COMMENT 'slot in which it left its curve; null: it has not, or that was not seen' CODEC(ZSTD(3)),
    migrated_at Nullable(DateTime64(3, 'UTC')) COMMENT 'time of that' CODEC(ZSTD(3)),
    migrated_dex LowCardinality(String) COMMENT 'venue it left for' CODEC(ZSTD(3)),
    migrated_pool String COMMENT 'pool it left for' CODEC(ZSTD(3)),
    slot UInt64 COMMENT 'as of this slot' CODEC(Delta, ZSTD(3))
)
ENGINE = ReplacingMergeTree(slot)
ORDER BY mint
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'What tokens are, from the events on the chain alone';

CREATE TABLE IF NOT EXISTS token_metadata
(
    mint String COMMENT 'address of the token' CODEC(ZSTD(3)),
    name String COMMENT 'in Metaplex or Token-2022 metadata' CODEC(ZSTD(3)),
    symbol String COMMENT 'likewise' CODEC(ZSTD(3)),
    uri String COMMENT 'likewise' CODEC(ZSTD(3)),
    decimals Nullable(UInt8) COMMENT 'places behind the point' CODEC(ZSTD(3)),
    supply_raw Nullable(UInt64) COMMENT 'when it was asked for, in the smallest unit' CODEC(ZSTD(3)),
    token_program LowCardinality(String) COMMENT 'owner of the mint account' CODEC(ZSTD(3)),
    asked_at DateTime64(3, 'UTC') COMMENT 'when the RPC said so' CODEC(Delta, ZSTD(3))
)
ENGINE = ReplacingMergeTree(asked_at)
ORDER BY mint
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'What accounts of tokens say whose creation was not seen: read by RPC, so as of when they were asked for';

CREATE TABLE IF NOT EXISTS holder_snapshots
(
    mint String COMMENT 'token' CODEC(ZSTD(3)),
    block_time DateTime64(3, 'UTC') COMMENT 'as of then' CODEC(Delta, ZSTD(3)),
    holders UInt32 COMMENT 'owners with a balance; pools, curves and burn addresses are none' CODEC(ZSTD(3)),
    creator_raw UInt128 COMMENT 'what the creator holds' CODEC(ZSTD(3)),
    top_owners Array(String) COMMENT 'the hundred largest holders, largest first' CODEC(ZSTD(3)),
    top_amounts_raw Array(UInt128) COMMENT 'their balances' CODEC(ZSTD(3)),
    slot UInt64 COMMENT 'as of this slot' CODEC(Delta, ZSTD(3)),
    written_at DateTime('UTC') MATERIALIZED now() COMMENT 'when this row was written; what its time to live counts from' CODEC(Delta, ZSTD(3))
)
ENGINE = ReplacingMergeTree(slot)
PARTITION BY toYYYYMM(block_time)
ORDER BY (mint, block_time)
TTL written_at + INTERVAL 90 DAY
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Holders of a token, at most once in a quarter of an hour, at the end of a minute in which something happened to it';

CREATE TABLE IF NOT EXISTS cold_markets
(
    mint String COMMENT 'token to which nothing had happened for days' CODEC(ZSTD(3)),
    packed String COMMENT 'its market and accounts, as Redis had them' CODEC(ZSTD(3)),
    slot UInt64 COMMENT 'slot at which it was put away: the version of the row' CODEC(Delta, ZSTD(3))
)
ENGINE = ReplacingMergeTree(slot)
ORDER BY mint
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'State of dead tokens, moved out of Redis; stale where the token has moved since. For the agent: analysts read candles and holder_snapshots';

CREATE OR REPLACE VIEW tokens_known AS
SELECT
    coalesce(nullIf(t.mint, ''), m.mint) AS mint,
    if(t.name != '', t.name, m.name) AS name,
    if(t.symbol != '', t.symbol, m.symbol) AS symbol,
    if(t.uri != '', t.uri, m.uri) AS uri,
    coalesce(t.decimals, m.decimals) AS decimals,
    coalesce(t.supply_raw, m.supply_raw) AS supply_raw,
    t.creator AS creator,
    t.platform AS platform,
    t.dex AS dex,
    if(t.token_program != '', t.token_program, m.token_program) AS token_program,
    t.created_at AS created_at,
    t.migrated_at AS migrated_at,
    t.migrated_dex AS migrated_dex
FROM (SELECT * FROM tokens FINAL) AS t
FULL OUTER JOIN (SELECT * FROM token_metadata FINAL) AS m ON t.mint = m.mint
COMMENT 'Tokens: events on the chain first, what RPC said where they are silent';
