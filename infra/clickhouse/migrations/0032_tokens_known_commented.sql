-- `tokens_known` as it was, with types and comments, which a view cannot be given later.
CREATE OR REPLACE VIEW tokens_known
(
    mint String COMMENT 'address of the token',
    name String COMMENT 'as its creator wrote it; empty: not known',
    symbol String COMMENT 'likewise',
    uri String COMMENT 'of the metadata, likewise',
    decimals Nullable(UInt8) COMMENT 'places behind the point; null: not known',
    supply_raw Nullable(UInt64) COMMENT 'at creation, else when RPC was asked, in the smallest unit; null: not known',
    creator String COMMENT 'wallet that created it; empty: creation not seen',
    platform LowCardinality(String) COMMENT 'launchpad, as a slug, or empty',
    dex LowCardinality(String) COMMENT 'venue it was created on; empty: creation not seen',
    token_program LowCardinality(String) COMMENT 'SPL Token or Token-2022, its address; empty: not known',
    created_at Nullable(DateTime64(3, 'UTC')) COMMENT 'time of the creation; null: not seen',
    migrated_at Nullable(DateTime64(3, 'UTC')) COMMENT 'when it left its curve; null: it has not, or that was not seen',
    migrated_dex LowCardinality(String) COMMENT 'venue it left for, or empty'
)
AS SELECT
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
