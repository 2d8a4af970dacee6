-- The wallet of a swap is the order's owner where a keeper executed it; `keeper` is who did.
ALTER TABLE swaps
    ADD COLUMN IF NOT EXISTS keeper String COMMENT 'who executed an order of the wallet (limit order, DCA, value average), or empty' CODEC(ZSTD(3)) AFTER sqrt_price_x64;
ALTER TABLE swaps COMMENT COLUMN IF EXISTS wallet 'owner of what came out: the trader, or the owner of an order that a keeper executed';

CREATE OR REPLACE VIEW trades
(
    block_time DateTime64(3, 'UTC') COMMENT 'time of the block',
    slot UInt64 COMMENT 'slot of the transaction',
    tx_index UInt32 COMMENT 'place of the transaction in its slot',
    event_index UInt32 COMMENT 'place of the instruction in the transaction, in execution order',
    signature String COMMENT 'transaction; (signature, event_index) is the identity of a trade',
    wallet String COMMENT 'owner of what came out: the trader, or the owner of an order that a keeper executed',
    side Enum8('buy' = 1, 'sell' = 2) COMMENT 'what the wallet did with mint',
    mint String COMMENT 'token traded',
    amount Float64 COMMENT 'of mint, as the pool moved it',
    quote_mint String COMMENT 'token it was traded for',
    quote_amount Float64 COMMENT 'of quote_mint, as the pool moved it',
    price Nullable(Float64) COMMENT 'quote_mint per token; null where no token moved',
    price_sol Nullable(Float64) COMMENT 'SOL per token; null while unknown',
    price_usd Nullable(Float64) COMMENT 'dollars per token; null while unknown',
    sol_value Nullable(Float64) COMMENT 'value in SOL; null while unknown',
    usd_value Nullable(Float64) COMMENT 'value in dollars; null while unknown',
    wallet_amount Float64 COMMENT 'of mint, as the wallet gave or received it',
    wallet_quote_amount Float64 COMMENT 'of quote_mint, as the wallet gave or received it',
    dex LowCardinality(String) COMMENT 'venue, as a slug',
    pool String COMMENT 'pool or bonding curve',
    router LowCardinality(String) COMMENT 'aggregator or trading app, as a slug, or empty',
    platform LowCardinality(String) COMMENT 'launchpad of the token, as a slug, or empty',
    fee_payer String COMMENT 'payer of the transaction',
    fee_sol Float64 COMMENT 'network fee of the whole transaction, base and priority',
    priority_fee_sol Float64 COMMENT 'of this the priority fee',
    tip_sol Float64 COMMENT 'tips to block builders and relays, of the whole transaction',
    keeper String COMMENT 'who executed an order of the wallet (limit order, DCA, value average), or empty'
)
AS SELECT
    block_time, slot, tx_index, event_index, signature, wallet, side, mint, amount, quote_mint,
    quote_amount, price, price_sol, price_usd, sol_value, usd_value, wallet_amount,
    wallet_quote_amount, dex, pool, router, platform, fee_payer, fee_sol, priority_fee_sol, tip_sol,
    keeper
FROM swaps FINAL
COMMENT 'Every trade of confirmed slots, once. Fast by mint, and by day';

-- wallet_trades(wallet = '...'): all trades of a wallet, the last one first.
CREATE OR REPLACE VIEW wallet_trades AS
SELECT
    block_time, slot, tx_index, event_index, signature, wallet, side, mint, amount, quote_mint,
    quote_amount, price, price_sol, price_usd, sol_value, usd_value, wallet_amount,
    wallet_quote_amount, dex, pool, router, platform, fee_payer, fee_sol, priority_fee_sol, tip_sol,
    keeper
FROM swaps
WHERE wallet = {wallet:String}
ORDER BY block_time DESC, slot DESC, tx_index DESC, event_index DESC, written_at DESC
LIMIT 1 BY slot, tx_index, event_index;

-- trades_between(start = '2026-08-01 12:00:00', end = '...'): all trades of some seconds, the last
-- one first; start included, end not. For longer times: trades WHERE block_time ...
CREATE OR REPLACE VIEW trades_between AS
SELECT
    block_time, slot, tx_index, event_index, signature, wallet, side, mint, amount, quote_mint,
    quote_amount, price, price_sol, price_usd, sol_value, usd_value, wallet_amount,
    wallet_quote_amount, dex, pool, router, platform, fee_payer, fee_sol, priority_fee_sol, tip_sol,
    keeper
FROM swaps
WHERE block_time >= {start:DateTime64(3, 'UTC')} AND block_time < {end:DateTime64(3, 'UTC')}
ORDER BY block_time DESC, slot DESC, tx_index DESC, event_index DESC, written_at DESC
LIMIT 1 BY slot, tx_index, event_index;
