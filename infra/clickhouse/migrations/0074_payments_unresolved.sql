-- What the operator's books lack: transactions that the node lists for PAY_TO and does not have.

CREATE TABLE IF NOT EXISTS payments_unresolved
(
    signature String COMMENT 'transaction that is listed' CODEC(ZSTD(3)),
    slot UInt64 COMMENT 'slot that it is in, as the list says' CODEC(Delta, ZSTD(3)),
    pay_to LowCardinality(String) COMMENT 'wallet that it may have paid',
    network LowCardinality(String) COMMENT 'CAIP-2 name of the network',
    asset LowCardinality(String) COMMENT 'mint of what it may have paid',
    is_resolved Bool COMMENT 'the node has it by now, and payments what it paid',
    noted_at DateTime64(3, 'UTC') COMMENT 'when this was so' CODEC(Delta, ZSTD(3))
)
ENGINE = ReplacingMergeTree(noted_at)
ORDER BY (pay_to, network, asset, signature)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'Transactions whose payment is not known; read with FINAL, where is_resolved is false';
