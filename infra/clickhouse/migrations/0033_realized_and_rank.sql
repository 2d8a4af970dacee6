-- The specification spells it `realized`, and a place in a list is a `rank`: columns and views follow.
-- Old names are dropped after the views that read them are replaced.
ALTER TABLE lot_matches ADD COLUMN IF NOT EXISTS realized_lamports Nullable(Int128) ALIAS if(kind = 'transfer', NULL, toInt128(proceeds_lamports) - toInt128(cost_lamports)) COMMENT 'gain; null: unmatched, or a transfer';
ALTER TABLE lot_matches ADD COLUMN IF NOT EXISTS realized_usd_micros Nullable(Int128) ALIAS if(kind = 'transfer', NULL, toInt128(proceeds_usd_micros) - toInt128(cost_usd_micros)) COMMENT 'the same in millionths of a dollar';
ALTER TABLE positions ADD COLUMN IF NOT EXISTS realized_lamports Int256 ALIAS toInt256(matched_proceeds_lamports) - toInt256(matched_cost_lamports) COMMENT 'gain of what was sold or burned from lots of known cost, FIFO, without fees, in lamports';
ALTER TABLE positions ADD COLUMN IF NOT EXISTS realized_usd_micros Int256 ALIAS toInt256(matched_proceeds_usd_micros) - toInt256(matched_cost_usd_micros) COMMENT 'the same in millionths of a dollar, each side valued at the time of its trade';
ALTER TABLE wallet_days ADD COLUMN IF NOT EXISTS realized_lamports Int256 ALIAS toInt256(matched_proceeds_lamports) - toInt256(matched_cost_lamports) COMMENT 'gain of what was sold or burned from lots of known cost, FIFO, without fees, in lamports';
ALTER TABLE wallet_days ADD COLUMN IF NOT EXISTS realized_usd_micros Int256 ALIAS toInt256(matched_proceeds_usd_micros) - toInt256(matched_cost_usd_micros) COMMENT 'the same in millionths of a dollar, each side valued at the time of its trade';

CREATE OR REPLACE VIEW wallet_positions
(
    wallet String COMMENT 'owner',
    mint String COMMENT 'token',
    held_raw UInt128 COMMENT 'in open lots, in the smallest unit',
    bought_raw UInt128 COMMENT 'bought so far',
    sold_raw UInt128 COMMENT 'sold so far',
    received_raw UInt128 COMMENT 'received beside trades: transfers, airdrops',
    sent_raw UInt128 COMMENT 'sent away beside trades',
    burned_raw UInt128 COMMENT 'burned',
    unmatched_raw UInt128 COMMENT 'sold or burned without a lot of known cost: no gain, no loss',
    bought_usd Float64 COMMENT 'paid for what was bought at a known value, in dollars',
    sold_usd Float64 COMMENT 'taken in for what was sold at a known value, in dollars',
    realized_usd Float64 COMMENT 'gain, FIFO, without fees, in dollars',
    realized_pct Nullable(Float64) COMMENT 'gain in per cent of the cost of what was sold; null: nothing of known cost was',
    held_cost_usd Float64 COMMENT 'cost of the open lots, in dollars',
    bought_sol Float64 COMMENT 'paid for what was bought at a known value, in SOL',
    sold_sol Float64 COMMENT 'taken in for what was sold at a known value, in SOL',
    realized_sol Float64 COMMENT 'gain, FIFO, without fees, in SOL',
    held_cost_sol Float64 COMMENT 'cost of the open lots, in SOL',
    fee_sol Float64 COMMENT 'network fees paid, base and priority',
    tip_sol Float64 COMMENT 'tips paid',
    buys UInt32 COMMENT 'transactions that bought, net',
    sells UInt32 COMMENT 'transactions that sold, net',
    wins UInt32 COMMENT 'sales with a gain in dollars',
    losses UInt32 COMMENT 'sales with a loss in dollars',
    first_trade_at Nullable(DateTime64(3, 'UTC')) COMMENT 'first purchase or sale; null: none',
    last_trade_at Nullable(DateTime64(3, 'UTC')) COMMENT 'last purchase or sale; null: none',
    slot UInt64 COMMENT 'slot of the last change'
)
AS SELECT
    wallet,
    mint,
    last.1 AS held_raw,
    last.2 AS bought_raw,
    last.3 AS sold_raw,
    last.4 AS received_raw,
    last.5 AS sent_raw,
    last.6 AS burned_raw,
    last.7 AS unmatched_raw,
    last.8 / 1e6 AS bought_usd,
    last.9 / 1e6 AS sold_usd,
    last.10 / 1e6 AS realized_usd,
    100 * last.10 / nullIf(last.11, 0) AS realized_pct,
    last.12 / 1e6 AS held_cost_usd,
    last.13 / 1e9 AS bought_sol,
    last.14 / 1e9 AS sold_sol,
    last.15 / 1e9 AS realized_sol,
    last.16 / 1e9 AS held_cost_sol,
    last.17 / 1e9 AS fee_sol,
    last.18 / 1e9 AS tip_sol,
    last.19 AS buys,
    last.20 AS sells,
    last.21 AS wins,
    last.22 AS losses,
    if(last.23 = 0, NULL, last.24) AS first_trade_at,
    if(last.23 = 0, NULL, last.25) AS last_trade_at,
    last.26 AS slot
FROM
(
    SELECT
        wallet,
        mint,
        argMax(
            (
                held_raw, bought_raw, sold_raw, received_raw, sent_raw, burned_raw, unmatched_raw,
                bought_usd_micros, sold_usd_micros, realized_usd_micros, matched_cost_usd_micros, held_cost_usd_micros,
                bought_lamports, sold_lamports, realized_lamports, held_cost_lamports,
                fee_lamports, tip_lamports, buys, sells, wins, losses,
                first_trade_slot, first_trade_time, last_trade_time, slot
            ),
            (day, slot)
        ) AS last
    FROM positions
    GROUP BY mint, wallet
)
COMMENT 'Positions as they are now, realized gains since the beginning. Fast by mint and by wallet';

CREATE OR REPLACE VIEW position_days
(
    wallet String COMMENT 'owner',
    mint String COMMENT 'token',
    day Date COMMENT 'day, UTC',
    bought_raw Int256 COMMENT 'bought on the day, net of each transaction, in the smallest unit',
    sold_raw Int256 COMMENT 'sold on the day',
    bought_usd_micros Int256 COMMENT 'paid for what was bought at a known value, in millionths of a dollar',
    sold_usd_micros Int256 COMMENT 'taken in for what was sold at a known value, in millionths of a dollar',
    realized_usd_micros Int256 COMMENT 'gain of the day, FIFO, without fees, in millionths of a dollar',
    realized_usd Float64 COMMENT 'the same in dollars',
    bought_lamports Int256 COMMENT 'paid for what was bought at a known value, in lamports',
    sold_lamports Int256 COMMENT 'taken in for what was sold at a known value, in lamports',
    realized_lamports Int256 COMMENT 'gain of the day, FIFO, without fees, in lamports',
    realized_sol Float64 COMMENT 'the same in SOL',
    fee_lamports Int64 COMMENT 'network fees paid, base and priority',
    tip_lamports Int64 COMMENT 'tips paid',
    buys Int64 COMMENT 'transactions that bought, net',
    sells Int64 COMMENT 'transactions that sold, net',
    held_raw UInt128 COMMENT 'in open lots at the end of the day, in the smallest unit'
)
AS SELECT
    wallet,
    mint,
    day,
    toInt256(last.1) - lagInFrame(toInt256(last.1)) OVER before AS bought_raw,
    toInt256(last.2) - lagInFrame(toInt256(last.2)) OVER before AS sold_raw,
    toInt256(last.3) - lagInFrame(toInt256(last.3)) OVER before AS bought_usd_micros,
    toInt256(last.4) - lagInFrame(toInt256(last.4)) OVER before AS sold_usd_micros,
    last.5 - lagInFrame(last.5) OVER before AS realized_usd_micros,
    realized_usd_micros / 1e6 AS realized_usd,
    toInt256(last.6) - lagInFrame(toInt256(last.6)) OVER before AS bought_lamports,
    toInt256(last.7) - lagInFrame(toInt256(last.7)) OVER before AS sold_lamports,
    last.8 - lagInFrame(last.8) OVER before AS realized_lamports,
    realized_lamports / 1e9 AS realized_sol,
    toInt64(last.9) - lagInFrame(toInt64(last.9)) OVER before AS fee_lamports,
    toInt64(last.10) - lagInFrame(toInt64(last.10)) OVER before AS tip_lamports,
    toInt64(last.11) - lagInFrame(toInt64(last.11)) OVER before AS buys,
    toInt64(last.12) - lagInFrame(toInt64(last.12)) OVER before AS sells,
    last.13 AS held_raw
FROM
(
    SELECT
        wallet,
        mint,
        day,
        argMax(
            (
                bought_raw, sold_raw, bought_usd_micros, sold_usd_micros, realized_usd_micros,
                bought_lamports, sold_lamports, realized_lamports, fee_lamports, tip_lamports,
                buys, sells, held_raw
            ),
            slot
        ) AS last
    FROM positions
    GROUP BY mint, wallet, day
)
WINDOW before AS (PARTITION BY mint, wallet ORDER BY day ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
COMMENT 'What each wallet did with each token on each day it traded it. Fast by mint and by wallet';

CREATE OR REPLACE VIEW wallet_daily
(
    wallet String COMMENT 'wallet',
    day Date COMMENT 'day, UTC',
    realized_usd Float64 COMMENT 'gain, FIFO, without fees, in dollars',
    realized_sol Float64 COMMENT 'gain, FIFO, without fees, in SOL',
    volume_usd Float64 COMMENT 'bought and sold, in dollars',
    volume_sol Float64 COMMENT 'bought and sold, in SOL',
    fee_sol Float64 COMMENT 'network fees paid, base and priority',
    tip_sol Float64 COMMENT 'tips paid',
    buys UInt32 COMMENT 'transactions that bought, net',
    sells UInt32 COMMENT 'transactions that sold, net',
    wins UInt32 COMMENT 'sales with a gain in dollars',
    losses UInt32 COMMENT 'sales with a loss in dollars',
    unmatched_sales UInt32 COMMENT 'sales of which a part had no lot of known cost'
)
AS SELECT
    wallet,
    day,
    realized_usd_micros / 1e6 AS realized_usd,
    realized_lamports / 1e9 AS realized_sol,
    (bought_usd_micros + sold_usd_micros) / 1e6 AS volume_usd,
    (bought_lamports + sold_lamports) / 1e9 AS volume_sol,
    fee_lamports / 1e9 AS fee_sol,
    tip_lamports / 1e9 AS tip_sol,
    buys,
    sells,
    wins,
    losses,
    unmatched_sales
FROM wallet_days FINAL
COMMENT 'What each wallet did on each day, over all its tokens. Fast by wallet';

CREATE OR REPLACE VIEW leaderboard
(
    mint String COMMENT 'token',
    rank UInt64 COMMENT 'from 1: by gain in dollars',
    wallet String COMMENT 'wallet',
    realized_usd Float64 COMMENT 'gain, FIFO, without fees, in dollars',
    realized_sol Float64 COMMENT 'gain, FIFO, without fees, in SOL',
    realized_pct Nullable(Float64) COMMENT 'gain in per cent of the cost of what was sold',
    bought_usd Float64 COMMENT 'paid, in dollars',
    sold_usd Float64 COMMENT 'taken in, in dollars',
    buys UInt32 COMMENT 'transactions that bought, net',
    sells UInt32 COMMENT 'transactions that sold, net',
    last_trade_at Nullable(DateTime64(3, 'UTC')) COMMENT 'last purchase or sale'
)
AS SELECT
    mint,
    row_number() OVER (PARTITION BY mint ORDER BY realized_usd DESC, wallet) AS rank,
    wallet,
    realized_usd,
    realized_sol,
    realized_pct,
    bought_usd,
    sold_usd,
    buys,
    sells,
    last_trade_at
FROM wallet_positions
WHERE sells > 0
COMMENT 'Who made most of a token since the beginning; ask with WHERE mint';

ALTER TABLE lot_matches DROP COLUMN IF EXISTS realised_lamports;
ALTER TABLE lot_matches DROP COLUMN IF EXISTS realised_usd_micros;
ALTER TABLE positions DROP COLUMN IF EXISTS realised_lamports;
ALTER TABLE positions DROP COLUMN IF EXISTS realised_usd_micros;
ALTER TABLE wallet_days DROP COLUMN IF EXISTS realised_lamports;
ALTER TABLE wallet_days DROP COLUMN IF EXISTS realised_usd_micros;
