-- What became of perpetual positions, from the events of their programs: funding of Drift, positions
-- of Jupiter Perps. A wallet's page is a range of the sort key, which is the identity of an event
-- behind the wallet and the time.

CREATE TABLE IF NOT EXISTS funding_payments
(
    signature String COMMENT 'transaction; (signature, event_index, log_index) is the identity of a payment' CODEC(ZSTD(1)),
    slot UInt64 COMMENT 'slot of the transaction' CODEC(Delta, ZSTD(3)),
    tx_index UInt32 COMMENT 'place of the transaction in its slot' CODEC(ZSTD(3)),
    event_index UInt32 COMMENT 'place of the instruction in the transaction, in execution order, inner ones counted' CODEC(ZSTD(3)),
    block_time DateTime64(3, 'UTC') COMMENT 'time of the block' CODEC(Delta, ZSTD(3)),
    log_index UInt32 COMMENT 'place among the events that the instruction logged' CODEC(ZSTD(3)),
    dex LowCardinality(String) COMMENT 'venue, as a slug' CODEC(ZSTD(3)),
    program_id LowCardinality(String) COMMENT 'program of the venue' CODEC(ZSTD(3)),
    wallet String COMMENT 'owner of the sub-account' CODEC(ZSTD(3)),
    account String COMMENT 'sub-account' CODEC(ZSTD(3)),
    market_index UInt16 COMMENT 'market of the position' CODEC(ZSTD(3)),
    payment_raw Int64 COMMENT 'in millionths of the quote; negative: paid, positive: received' CODEC(ZSTD(3)),
    base_raw Int64 COMMENT 'size of the position in billionths of the base; negative: short' CODEC(ZSTD(3)),
    last_cumulative_funding Int64 COMMENT 'cumulative rate that the position had paid up to before' CODEC(ZSTD(3)),
    cumulative_funding_long Int128 COMMENT 'cumulative rate of longs at the payment' CODEC(ZSTD(3)),
    cumulative_funding_short Int128 COMMENT 'cumulative rate of shorts at the payment' CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree(slot)
PARTITION BY toYYYYMM(block_time)
PRIMARY KEY (wallet, dex, block_time)
ORDER BY (wallet, dex, block_time, slot, tx_index, event_index, log_index)
SETTINGS index_granularity = 2048, non_replicated_deduplication_window = 1000
COMMENT 'Funding that perpetual positions paid and received in confirmed slots; read with FINAL';

CREATE TABLE IF NOT EXISTS perp_changes
(
    signature String COMMENT 'transaction; (signature, event_index) is the identity of a change' CODEC(ZSTD(1)),
    slot UInt64 COMMENT 'slot of the transaction' CODEC(Delta, ZSTD(3)),
    tx_index UInt32 COMMENT 'place of the transaction in its slot' CODEC(ZSTD(3)),
    event_index UInt32 COMMENT 'place of the event in the transaction, in execution order' CODEC(ZSTD(3)),
    block_time DateTime64(3, 'UTC') COMMENT 'time of the block' CODEC(Delta, ZSTD(3)),
    dex LowCardinality(String) COMMENT 'venue, as a slug' CODEC(ZSTD(3)),
    program_id LowCardinality(String) COMMENT 'program of the venue' CODEC(ZSTD(3)),
    wallet String COMMENT 'owner of the position' CODEC(ZSTD(3)),
    position String COMMENT 'account of the position' CODEC(ZSTD(3)),
    pool LowCardinality(String) COMMENT 'pool that is the other side' CODEC(ZSTD(3)),
    custody LowCardinality(String) COMMENT 'custody of the token traded' CODEC(ZSTD(3)),
    collateral_custody LowCardinality(String) COMMENT 'custody of the collateral' CODEC(ZSTD(3)),
    mint LowCardinality(String) COMMENT 'token traded' CODEC(ZSTD(3)),
    side Enum8('long' = 1, 'short' = 2) COMMENT 'of the position' CODEC(ZSTD(3)),
    change Enum8('increase' = 1, 'decrease' = 2, 'liquidate' = 3) COMMENT 'what became of the position' CODEC(ZSTD(3)),
    is_instant Bool COMMENT 'executed without a request' CODEC(ZSTD(3)),
    size_usd_micros UInt64 COMMENT 'size of the position, as the event has it' CODEC(ZSTD(3)),
    size_delta_usd_micros Nullable(UInt64) COMMENT 'by how much it grew or shrank; null for a liquidation' CODEC(ZSTD(3)),
    collateral_delta_usd_micros Nullable(UInt64) COMMENT 'collateral that was put in; null but for an increase' CODEC(ZSTD(3)),
    price_usd_micros UInt64 COMMENT 'price at which it was executed' CODEC(ZSTD(3)),
    pnl_usd_micros Nullable(Int64) COMMENT 'gain of what was closed, before fees; null for an increase' CODEC(ZSTD(3)),
    fee_usd_micros UInt64 COMMENT 'fee, as the event has it' CODEC(ZSTD(3)),
    position_fee_usd_micros Nullable(UInt64) COMMENT 'of opening or closing; null where the event has none' CODEC(ZSTD(3)),
    funding_fee_usd_micros Nullable(UInt64) COMMENT 'of borrowing; null where the event has none' CODEC(ZSTD(3)),
    price_impact_fee_usd_micros Nullable(UInt64) COMMENT 'of price impact; null where the event has none' CODEC(ZSTD(3)),
    liquidation_fee_usd_micros Nullable(UInt64) COMMENT 'of the liquidation; null for anything else' CODEC(ZSTD(3)),
    paid_out_usd_micros Nullable(UInt64) COMMENT 'what the wallet got; null for an increase' CODEC(ZSTD(3)),
    collateral_usd_micros Nullable(UInt64) COMMENT 'collateral of the position, as the event has it; null where it has none' CODEC(ZSTD(3)),
    entry_price_usd_micros Nullable(UInt64) COMMENT 'average price of opening; null where the event has none' CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree(slot)
PARTITION BY toYYYYMM(block_time)
PRIMARY KEY (wallet, dex, block_time)
ORDER BY (wallet, dex, block_time, slot, tx_index, event_index)
SETTINGS index_granularity = 2048, non_replicated_deduplication_window = 1000
COMMENT 'Perpetual positions that were increased, decreased or liquidated in confirmed slots; read with FINAL';

CREATE TABLE IF NOT EXISTS perp_gaps
(
    signature String COMMENT 'transaction' CODEC(ZSTD(1)),
    slot UInt64 COMMENT 'slot of the transaction' CODEC(Delta, ZSTD(3)),
    tx_index UInt32 COMMENT 'place of the transaction in its slot' CODEC(ZSTD(3)),
    event_index UInt32 COMMENT 'place of the instruction in the transaction' CODEC(ZSTD(3)),
    block_time DateTime64(3, 'UTC') COMMENT 'time of the block' CODEC(Delta, ZSTD(3)),
    dex LowCardinality(String) COMMENT 'venue, as a slug' CODEC(ZSTD(3)),
    reason LowCardinality(String) COMMENT 'why its events could not be read' CODEC(ZSTD(3)),
    wallet String COMMENT 'whose they may be; empty: anybody''s' CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree(slot)
PARTITION BY toYYYYMM(block_time)
PRIMARY KEY (dex, wallet, block_time)
ORDER BY (dex, wallet, block_time, slot, tx_index, event_index)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Instructions of confirmed slots whose perp events could not be read, as the runtime cut off the log; read with FINAL';

CREATE TABLE IF NOT EXISTS perp_histories
(
    dex LowCardinality(String) COMMENT 'venue, as a slug' CODEC(ZSTD(3)),
    partition UInt16 COMMENT 'place of the partition of wallets whose events these are' CODEC(ZSTD(3)),
    first_slot SimpleAggregateFunction(min, UInt64) COMMENT 'first slot whose perp events were looked for and written' CODEC(ZSTD(3))
)
ENGINE = AggregatingMergeTree
ORDER BY (dex, partition)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'From which slot on perp events are known: the least of a venue and partition';
