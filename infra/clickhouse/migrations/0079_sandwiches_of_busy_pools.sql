-- The view as it was, for pools of any number of trades a slot. It compared each trade with all pairs
-- of the pool's trades in the slot, at once and with their texts: two hundred of them took more memory
-- than the reader has, and every question that their hour is part of was refused.
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
    middle.8 / 1e6 AS victim_usd,
    front.7 / front.6 AS front_price,
    middle.7 / middle.6 AS victim_price,
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
        legs[found.1] AS middle,
        legs[found.2] AS front,
        legs[arrayFirstIndex(
            y -> y.1 > middle.1 AND y.3 = front.3 AND y.4 != front.4 AND abs(toFloat64(y.6) - front.6) <= 0.1 * front.6,
            legs
        )] AS back
    FROM
    (
        SELECT
            block_time,
            slot,
            mint,
            pool,
            legs,
            -- Without texts: place of the transaction, number of the wallet, side, amount.
            arrayMap(
                (leg, wallet) -> (leg.1, wallet, leg.4, leg.6), legs, arrayEnumerateDense(arrayMap(leg -> leg.3, legs))
            ) AS short_legs,
            -- Last transaction that takes each of them back; 0: none does.
            arrayMap(
                x -> arrayMax(
                    y -> if(
                        y.2 = x.2 AND y.3 != x.3 AND y.1 > x.1 AND abs(toFloat64(y.4) - x.4) <= 0.1 * x.4, y.1, 0
                    ),
                    short_legs
                ),
                short_legs
            ) AS taken_back,
            arrayFilter(
                pair -> pair.2 > 0,
                arrayMap(
                    (middle, at) -> (
                        at,
                        arrayLastIndex(
                            (x, back) -> x.1 < middle.1 AND back > middle.1 AND x.3 = middle.3 AND x.2 != middle.2,
                            short_legs, taken_back
                        )
                    ),
                    short_legs, arrayEnumerate(short_legs)
                )
            ) AS sandwiched
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
    )
    ARRAY JOIN sandwiched AS found
)
COMMENT 'Trades that one wallet traded around: before them the same way, behind them back again, in one pool and slot, with amounts within a tenth of each other. Attackers that change their wallet are not seen';
