-- What analysts and the API read: human units, each event once whatever was written twice.
--
-- A WHERE on what a view is fast by goes through it to the table's index. FINAL reads no projection,
-- so what is asked by wallet or by narrow times has views of its own, with parameters: they find the
-- rows through the projection, and leave out the second of two equal ones themselves.

CREATE OR REPLACE VIEW trades
(
    block_time DateTime64(3, 'UTC') COMMENT 'time of the block',
    slot UInt64 COMMENT 'slot of the transaction',
    tx_index UInt32 COMMENT 'place of the transaction in its slot',
    event_index UInt32 COMMENT 'place of the instruction in the transaction, in execution order',
    signature String COMMENT 'transaction; (signature, event_index) is the identity of a trade',
    wallet String COMMENT 'owner of the token accounts that moved',
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
    tip_sol Float64 COMMENT 'tips to block builders and relays, of the whole transaction'
)
AS SELECT
    block_time, slot, tx_index, event_index, signature, wallet, side, mint, amount, quote_mint,
    quote_amount, price, price_sol, price_usd, sol_value, usd_value, wallet_amount,
    wallet_quote_amount, dex, pool, router, platform, fee_payer, fee_sol, priority_fee_sol, tip_sol
FROM swaps FINAL
COMMENT 'Every trade of confirmed slots, once. Fast by mint, and by day';

-- wallet_trades(wallet = '...'): all trades of a wallet, the last one first.
CREATE OR REPLACE VIEW wallet_trades AS
SELECT
    block_time, slot, tx_index, event_index, signature, wallet, side, mint, amount, quote_mint,
    quote_amount, price, price_sol, price_usd, sol_value, usd_value, wallet_amount,
    wallet_quote_amount, dex, pool, router, platform, fee_payer, fee_sol, priority_fee_sol, tip_sol
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
    wallet_quote_amount, dex, pool, router, platform, fee_payer, fee_sol, priority_fee_sol, tip_sol
FROM swaps
WHERE block_time >= {start:DateTime64(3, 'UTC')} AND block_time < {end:DateTime64(3, 'UTC')}
ORDER BY block_time DESC, slot DESC, tx_index DESC, event_index DESC, written_at DESC
LIMIT 1 BY slot, tx_index, event_index;

CREATE OR REPLACE VIEW token_daily
(
    mint String COMMENT 'token',
    day Date COMMENT 'day, UTC',
    trades UInt64 COMMENT 'trades',
    buys UInt64 COMMENT 'of these purchases',
    sells UInt64 COMMENT 'of these sales',
    traders UInt64 COMMENT 'wallets that traded',
    amount Float64 COMMENT 'tokens traded',
    volume_sol Float64 COMMENT 'value of the trades whose value is known, in SOL',
    volume_usd Float64 COMMENT 'value of the trades whose value is known, in dollars',
    average_price_usd Nullable(Float64) COMMENT 'dollars per token, weighted by volume; open, high, low and close: candles'
)
AS SELECT
    mint,
    toDate(block_time) AS day,
    count() AS trades,
    countIf(side = 'buy') AS buys,
    countIf(side = 'sell') AS sells,
    uniqExact(wallet) AS traders,
    sum(swaps.amount) AS amount,
    sum(toUInt256(ifNull(sol_value_lamports, 0))) / 1e9 AS volume_sol,
    sum(toUInt256(ifNull(usd_value_micros, 0))) / 1e6 AS volume_usd,
    volume_usd / nullIf(sumIf(swaps.amount, isNotNull(usd_value_micros)), 0) AS average_price_usd
FROM swaps FINAL
GROUP BY mint, day
COMMENT 'What was traded of each token on each day';

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
    realised_usd Float64 COMMENT 'gain, FIFO, without fees, in dollars',
    realised_pct Nullable(Float64) COMMENT 'gain in per cent of the cost of what was sold; null: nothing of known cost was',
    held_cost_usd Float64 COMMENT 'cost of the open lots, in dollars',
    bought_sol Float64 COMMENT 'paid for what was bought at a known value, in SOL',
    sold_sol Float64 COMMENT 'taken in for what was sold at a known value, in SOL',
    realised_sol Float64 COMMENT 'gain, FIFO, without fees, in SOL',
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
    last.10 / 1e6 AS realised_usd,
    100 * last.10 / nullIf(last.11, 0) AS realised_pct,
    last.12 / 1e6 AS held_cost_usd,
    last.13 / 1e9 AS bought_sol,
    last.14 / 1e9 AS sold_sol,
    last.15 / 1e9 AS realised_sol,
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
                bought_usd_micros, sold_usd_micros, realised_usd_micros, matched_cost_usd_micros, held_cost_usd_micros,
                bought_lamports, sold_lamports, realised_lamports, held_cost_lamports,
                fee_lamports, tip_lamports, buys, sells, wins, losses,
                first_trade_slot, first_trade_time, last_trade_time, slot
            ),
            (day, slot)
        ) AS last
    FROM positions
    GROUP BY mint, wallet
)
COMMENT 'Positions as they are now, realised gains since the beginning. Fast by mint and by wallet';

CREATE OR REPLACE VIEW position_days
(
    wallet String COMMENT 'owner',
    mint String COMMENT 'token',
    day Date COMMENT 'day, UTC',
    bought_raw Int256 COMMENT 'bought on the day, net of each transaction, in the smallest unit',
    sold_raw Int256 COMMENT 'sold on the day',
    bought_usd_micros Int256 COMMENT 'paid for what was bought at a known value, in millionths of a dollar',
    sold_usd_micros Int256 COMMENT 'taken in for what was sold at a known value, in millionths of a dollar',
    realised_usd_micros Int256 COMMENT 'gain of the day, FIFO, without fees, in millionths of a dollar',
    realised_usd Float64 COMMENT 'the same in dollars',
    bought_lamports Int256 COMMENT 'paid for what was bought at a known value, in lamports',
    sold_lamports Int256 COMMENT 'taken in for what was sold at a known value, in lamports',
    realised_lamports Int256 COMMENT 'gain of the day, FIFO, without fees, in lamports',
    realised_sol Float64 COMMENT 'the same in SOL',
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
    last.5 - lagInFrame(last.5) OVER before AS realised_usd_micros,
    realised_usd_micros / 1e6 AS realised_usd,
    toInt256(last.6) - lagInFrame(toInt256(last.6)) OVER before AS bought_lamports,
    toInt256(last.7) - lagInFrame(toInt256(last.7)) OVER before AS sold_lamports,
    last.8 - lagInFrame(last.8) OVER before AS realised_lamports,
    realised_lamports / 1e9 AS realised_sol,
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
                bought_raw, sold_raw, bought_usd_micros, sold_usd_micros, realised_usd_micros,
                bought_lamports, sold_lamports, realised_lamports, fee_lamports, tip_lamports,
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
    realised_usd Float64 COMMENT 'gain, FIFO, without fees, in dollars',
    realised_sol Float64 COMMENT 'gain, FIFO, without fees, in SOL',
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
    realised_usd_micros / 1e6 AS realised_usd,
    realised_lamports / 1e9 AS realised_sol,
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
    place UInt64 COMMENT 'from 1: by gain in dollars',
    wallet String COMMENT 'wallet',
    realised_usd Float64 COMMENT 'gain, FIFO, without fees, in dollars',
    realised_sol Float64 COMMENT 'gain, FIFO, without fees, in SOL',
    realised_pct Nullable(Float64) COMMENT 'gain in per cent of the cost of what was sold',
    bought_usd Float64 COMMENT 'paid, in dollars',
    sold_usd Float64 COMMENT 'taken in, in dollars',
    buys UInt32 COMMENT 'transactions that bought, net',
    sells UInt32 COMMENT 'transactions that sold, net',
    last_trade_at Nullable(DateTime64(3, 'UTC')) COMMENT 'last purchase or sale'
)
AS SELECT
    mint,
    row_number() OVER (PARTITION BY mint ORDER BY realised_usd DESC, wallet) AS place,
    wallet,
    realised_usd,
    realised_sol,
    realised_pct,
    bought_usd,
    sold_usd,
    buys,
    sells,
    last_trade_at
FROM wallet_positions
WHERE sells > 0
COMMENT 'Who made most of a token since the beginning; ask with WHERE mint';

CREATE OR REPLACE VIEW launches
(
    created_at DateTime64(3, 'UTC') COMMENT 'time of the creation',
    mint String COMMENT 'token',
    name String COMMENT 'name of the token, as its creator wrote it',
    symbol String COMMENT 'symbol of the token, as its creator wrote it',
    creator String COMMENT 'wallet that created it',
    platform LowCardinality(String) COMMENT 'launchpad, as a slug, or empty',
    dex LowCardinality(String) COMMENT 'venue of the curve or of the first pool, as a slug',
    pool String COMMENT 'bonding curve or first pool',
    migrated_at Nullable(DateTime64(3, 'UTC')) COMMENT 'when it left its curve; null: it has not',
    seconds_to_migration Nullable(Float64) COMMENT 'from creation to that',
    migrated_dex LowCardinality(String) COMMENT 'venue it left for, or empty',
    migrated_pool String COMMENT 'pool it left for, or empty',
    slot UInt64 COMMENT 'slot of the creation',
    signature String COMMENT 'transaction of the creation'
)
AS SELECT
    c.block_time AS created_at,
    c.mint AS mint,
    c.name AS name,
    c.symbol AS symbol,
    c.creator AS creator,
    c.platform AS platform,
    c.dex AS dex,
    c.pool AS pool,
    if(m.mint = '', NULL, m.at) AS migrated_at,
    dateDiff('millisecond', c.block_time, migrated_at) / 1e3 AS seconds_to_migration,
    m.to_dex AS migrated_dex,
    m.to_pool AS migrated_pool,
    c.slot AS slot,
    c.signature AS signature
FROM (SELECT * FROM creations FINAL) AS c
LEFT JOIN
(
    SELECT
        mint,
        min(block_time) AS at,
        argMin(dex, (slot, tx_index, event_index)) AS to_dex,
        argMin(pool, (slot, tx_index, event_index)) AS to_pool
    FROM migrations
    GROUP BY mint
) AS m ON m.mint = c.mint
COMMENT 'Token creations, and whether they left their bonding curve';

CREATE OR REPLACE VIEW slot_completeness
(
    hour DateTime('UTC') COMMENT 'hour, UTC',
    first_slot UInt64 COMMENT 'first slot with a block in it',
    last_slot UInt64 COMMENT 'last slot before the next hour, as far as is known',
    blocks UInt64 COMMENT 'slots with a block',
    incomplete UInt64 COMMENT 'of these, slots of which a part is missing',
    missing UInt64 COMMENT 'slots that could not be had: the gaps',
    without_block UInt64 COMMENT 'slots in which the chain made no block',
    complete_pct Float64 COMMENT 'slots that are wholly known, of all, in per cent',
    transactions UInt64 COMMENT 'transactions received',
    decoded UInt64 COMMENT 'instructions of venues that gave events',
    unknown UInt64 COMMENT 'instructions of venues that no decoder has a name for',
    malformed UInt64 COMMENT 'instructions of venues whose bytes do not fit'
)
AS SELECT
    hour,
    first_slot,
    if(next_slot = 0, highest_slot, toUInt64(next_slot - 1)) AS last_slot,
    blocks,
    incomplete,
    -- A slot of a gap that has a row is there in part, and counted as incomplete.
    toUInt64(greatest(
        arraySum(
            gap -> greatest(toInt64(least(gap.2, last_slot)) - toInt64(greatest(gap.1, first_slot)) + 1, 0),
            (SELECT groupArray((first_slot, last_slot)) FROM gaps FINAL)
        ) - toInt64(incomplete),
        0
    )) AS missing,
    last_slot - first_slot + 1 - blocks - missing AS without_block,
    100 - 100 * (incomplete + missing) / (last_slot - first_slot + 1) AS complete_pct,
    transactions,
    decoded,
    unknown,
    malformed
FROM
(
    SELECT
        *,
        leadInFrame(first_slot) OVER (ORDER BY hour ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS next_slot
    FROM
    (
        SELECT
            toStartOfHour(toDateTime(block_time, 'UTC')) AS hour,
            min(slot) AS first_slot,
            max(slot) AS highest_slot,
            count() AS blocks,
            countIf(NOT complete) AS incomplete,
            sum(transactions) AS transactions,
            sum(decoded) AS decoded,
            sum(unknown) AS unknown,
            sum(malformed) AS malformed
        FROM slots FINAL
        GROUP BY hour
    )
)
COMMENT 'How much of the chain is in here, hour by hour';

CREATE OR REPLACE VIEW sandwiches
(
    block_time DateTime64(3, 'UTC') COMMENT 'time of the block',
    slot UInt64 COMMENT 'slot of all three trades',
    mint String COMMENT 'token',
    pool String COMMENT 'pool of all three trades',
    side Enum8('buy' = 1, 'sell' = 2) COMMENT 'what the victim did, and the attacker before it',
    victim String COMMENT 'wallet in the middle',
    attacker String COMMENT 'wallet before and after it',
    victim_usd Nullable(Float64) COMMENT 'value of the victim''s trade, in dollars',
    victim_loss_usd Nullable(Float64) COMMENT 'of this, what the attacker''s price would have saved: an estimate from below',
    attacker_gain_usd Nullable(Float64) COMMENT 'what the attacker sold for less what it bought for, without fees and tips',
    victim_signature String COMMENT 'the victim''s transaction',
    front_signature String COMMENT 'the attacker''s transaction before it',
    back_signature String COMMENT 'the attacker''s transaction after it'
)
AS SELECT
    block_time,
    slot,
    mint,
    pool,
    middle.4 AS side,
    middle.3 AS victim,
    front.3 AS attacker,
    victim_micros / 1e6 AS victim_usd,
    -- A buyer paid more quote per token than the attacker before, a seller got less.
    victim_usd * greatest(if(side = 'buy', 1 - front_price / victim_price, front_price / victim_price - 1), 0) AS victim_loss_usd,
    (toInt64(if(side = 'buy', back.8, front.8)) - toInt64(if(side = 'buy', front.8, back.8))) / 1e6 AS attacker_gain_usd,
    middle.5 AS victim_signature,
    front.5 AS front_signature,
    back.5 AS back_signature
FROM
(
    SELECT
        block_time,
        slot,
        mint,
        pool,
        legs[at] AS middle,
        middle.8 AS victim_micros,
        arrayLastIndex(
            (x, n) -> n < at AND x.4 = middle.4 AND x.3 != middle.3 AND x.5 != middle.5
                AND arrayExists(
                    (y, m) -> m > at AND y.3 = x.3 AND y.4 != x.4 AND y.5 != x.5 AND y.5 != middle.5
                        AND abs(toFloat64(y.6) - x.6) <= 0.1 * x.6,
                    legs, arrayEnumerate(legs)),
            legs, arrayEnumerate(legs)
        ) AS front_at,
        legs[front_at] AS front,
        legs[arrayFirstIndex(
            (y, m) -> m > at AND y.3 = front.3 AND y.4 != front.4 AND y.5 != front.5 AND y.5 != middle.5
                AND abs(toFloat64(y.6) - front.6) <= 0.1 * front.6,
            legs, arrayEnumerate(legs)
        )] AS back,
        front.7 / front.6 AS front_price,
        middle.7 / middle.6 AS victim_price
    FROM
    (
        SELECT
            block_time,
            slot,
            mint,
            pool,
            arraySort(leg -> (leg.1, leg.2), groupArray((
                tx_index, event_index, wallet, side, signature,
                amount_raw, quote_amount_raw, usd_value_micros
            ))) AS legs
        FROM swaps FINAL
        WHERE amount_raw > 0 AND quote_amount_raw > 0
        GROUP BY block_time, slot, mint, pool, quote_mint
        HAVING count() >= 3 AND count() > uniqExact(wallet)
    )
    ARRAY JOIN arrayEnumerate(legs) AS at
)
WHERE front_at > 0
COMMENT 'Trades that one wallet traded around: before them the same way, behind them back again, in one pool and slot, with amounts within a tenth of each other. Attackers that change their wallet are not seen';
