-- The operator's books: what arrived at PAY_TO, by the chain; `soltape watch` writes it.

CREATE TABLE IF NOT EXISTS payments
(
    signature String COMMENT 'transaction that paid' CODEC(ZSTD(3)),
    message_sha256 String COMMENT 'SHA-256 of its message, in hex: the id of the payment' CODEC(ZSTD(3)),
    slot UInt64 COMMENT 'slot that it is in, finalized' CODEC(Delta, ZSTD(3)),
    block_time DateTime64(3, 'UTC') COMMENT 'time of the block' CODEC(Delta, ZSTD(3)),
    payer String COMMENT 'owner of the account that lost as much; empty: no single one did' CODEC(ZSTD(3)),
    pay_to LowCardinality(String) COMMENT 'wallet that was paid',
    network LowCardinality(String) COMMENT 'CAIP-2 name of the network',
    asset LowCardinality(String) COMMENT 'mint of what was paid',
    amount_raw UInt64 COMMENT 'what arrived, in units of the mint' CODEC(ZSTD(3)),
    path Nullable(String) COMMENT 'method and path that it bought; NULL: not a call of ours, or older than an hour when it was booked' CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(block_time)
ORDER BY (pay_to, block_time, slot, signature)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Payments for calls, one row a transaction of the chain; read with FINAL';
