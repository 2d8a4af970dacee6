-- Books of wallets: what became of lots, positions and days, FIFO. Agent `pnl` writes them.
--
-- Every row is an absolute value under its identity with the slot as version, so a row written
-- again replaces itself and none can count twice. Sums may exceed 64 bits: they are stored as lower
-- halves and, where ever one needs it, `overflow`; the names without `_low` have them whole.

CREATE TABLE IF NOT EXISTS lot_matches
(
    wallet String COMMENT 'owner of the lot' CODEC(ZSTD(3)),
    mint String COMMENT 'token of the lot' CODEC(ZSTD(3)),
    signature String COMMENT 'transaction that disposed of it' CODEC(ZSTD(1)),
    slot UInt64 COMMENT 'slot of that transaction' CODEC(Delta, ZSTD(3)),
    tx_index UInt32 COMMENT 'place of the transaction in its slot' CODEC(ZSTD(3)),
    event_index UInt32 COMMENT 'first of its swaps of the token by the wallet; 0 where there is none' CODEC(ZSTD(3)),
    block_time DateTime64(3, 'UTC') COMMENT 'time of the block' CODEC(Delta, ZSTD(3)),
    kind Enum8('sale' = 1, 'transfer' = 2, 'burn' = 3) COMMENT 'what became of it: sold, sent without gain, burned for nothing' CODEC(ZSTD(3)),
    lot_number Nullable(UInt32) COMMENT 'number of the lot in its position, from 0; null: more was disposed of than the lots held' CODEC(ZSTD(3)),
    lot_slot UInt64 COMMENT 'slot in which the lot was opened' CODEC(ZSTD(3)),
    lot_tx_index UInt32 COMMENT 'place in that slot of the transaction that opened it' CODEC(ZSTD(3)),
    lot_time DateTime64(3, 'UTC') COMMENT 'time of that block' CODEC(ZSTD(3)),
    quantity_raw UInt64 COMMENT 'taken of the lot, in the smallest unit' CODEC(ZSTD(3)),
    cost_lamports Nullable(UInt64) COMMENT 'cost of that quantity; null: received, or bought at an unknown value' CODEC(ZSTD(3)),
    cost_usd_micros Nullable(UInt64) COMMENT 'the same in millionths of a dollar' CODEC(ZSTD(3)),
    proceeds_lamports Nullable(UInt64) COMMENT 'its share of what was taken in; null: unknown, or a transfer' CODEC(ZSTD(3)),
    proceeds_usd_micros Nullable(UInt64) COMMENT 'the same in millionths of a dollar' CODEC(ZSTD(3)),
    realised_lamports Nullable(Int128) ALIAS if(kind = 'transfer', NULL, toInt128(proceeds_lamports) - toInt128(cost_lamports)) COMMENT 'gain; null: unmatched, or a transfer',
    realised_usd_micros Nullable(Int128) ALIAS if(kind = 'transfer', NULL, toInt128(proceeds_usd_micros) - toInt128(cost_usd_micros)) COMMENT 'the same in millionths of a dollar'
)
ENGINE = ReplacingMergeTree(slot)
PARTITION BY toYYYYMM(block_time)
PRIMARY KEY (wallet, mint, block_time)
ORDER BY (wallet, mint, block_time, slot, tx_index, kind, ifNull(lot_number, 4294967295))
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'What each sale, transfer and burn took of which lot: the audit trail of realised gains. The transaction that opened the lot is (lot_slot, lot_tx_index)';

CREATE TABLE IF NOT EXISTS positions
(
    wallet String COMMENT 'owner' CODEC(ZSTD(3)),
    mint String COMMENT 'token' CODEC(ZSTD(3)),
    day Date COMMENT 'day (UTC) at whose end, or now, the position is as this row says; days without a change have no row' CODEC(ZSTD(3)),
    held_raw_low UInt64 COMMENT 'lower 64 bits of held_raw' CODEC(ZSTD(3)),
    held_known_raw_low UInt64 COMMENT 'lower 64 bits of held_known_raw' CODEC(ZSTD(3)),
    bought_raw_low UInt64 COMMENT 'lower 64 bits of bought_raw' CODEC(ZSTD(3)),
    sold_raw_low UInt64 COMMENT 'lower 64 bits of sold_raw' CODEC(ZSTD(3)),
    received_raw_low UInt64 COMMENT 'lower 64 bits of received_raw' CODEC(ZSTD(3)),
    sent_raw_low UInt64 COMMENT 'lower 64 bits of sent_raw' CODEC(ZSTD(3)),
    burned_raw_low UInt64 COMMENT 'lower 64 bits of burned_raw' CODEC(ZSTD(3)),
    unmatched_raw_low UInt64 COMMENT 'lower 64 bits of unmatched_raw' CODEC(ZSTD(3)),
    bought_lamports_low UInt64 COMMENT 'lower 64 bits of bought_lamports' CODEC(ZSTD(3)),
    bought_usd_micros_low UInt64 COMMENT 'lower 64 bits of bought_usd_micros' CODEC(ZSTD(3)),
    sold_lamports_low UInt64 COMMENT 'lower 64 bits of sold_lamports' CODEC(ZSTD(3)),
    sold_usd_micros_low UInt64 COMMENT 'lower 64 bits of sold_usd_micros' CODEC(ZSTD(3)),
    matched_proceeds_lamports_low UInt64 COMMENT 'lower 64 bits of matched_proceeds_lamports' CODEC(ZSTD(3)),
    matched_proceeds_usd_micros_low UInt64 COMMENT 'lower 64 bits of matched_proceeds_usd_micros' CODEC(ZSTD(3)),
    matched_cost_lamports_low UInt64 COMMENT 'lower 64 bits of matched_cost_lamports' CODEC(ZSTD(3)),
    matched_cost_usd_micros_low UInt64 COMMENT 'lower 64 bits of matched_cost_usd_micros' CODEC(ZSTD(3)),
    held_cost_lamports_low UInt64 COMMENT 'lower 64 bits of held_cost_lamports' CODEC(ZSTD(3)),
    held_cost_usd_micros_low UInt64 COMMENT 'lower 64 bits of held_cost_usd_micros' CODEC(ZSTD(3)),
    fee_lamports UInt64 COMMENT 'network fees paid, base and priority; not in the gain' CODEC(ZSTD(3)),
    priority_fee_lamports UInt64 COMMENT 'of these the priority fees' CODEC(ZSTD(3)),
    tip_lamports UInt64 COMMENT 'tips paid; not in the gain' CODEC(ZSTD(3)),
    buys UInt32 COMMENT 'transactions that bought, net' CODEC(ZSTD(3)),
    sells UInt32 COMMENT 'transactions that sold, net' CODEC(ZSTD(3)),
    wins UInt32 COMMENT 'sales that realised a gain in dollars' CODEC(ZSTD(3)),
    losses UInt32 COMMENT 'sales that realised a loss in dollars' CODEC(ZSTD(3)),
    lots_opened UInt32 COMMENT 'lots opened so far' CODEC(ZSTD(3)),
    lots_closed UInt32 COMMENT 'of these, lots fully disposed of' CODEC(ZSTD(3)),
    first_trade_slot UInt64 COMMENT 'slot of the first purchase or sale; 0: none' CODEC(ZSTD(3)),
    first_trade_time DateTime64(3, 'UTC') COMMENT 'time of its block' CODEC(ZSTD(3)),
    last_trade_slot UInt64 COMMENT 'slot of the last purchase or sale; 0: none' CODEC(ZSTD(3)),
    last_trade_time DateTime64(3, 'UTC') COMMENT 'time of its block' CODEC(ZSTD(3)),
    slot UInt64 COMMENT 'slot of the last change: the version of the row' CODEC(Delta, ZSTD(3)),
    overflow Array(UInt64) COMMENT 'upper 64 bits of the columns *_low, in their order; empty: all 0' CODEC(ZSTD(3)),
    held_raw UInt128 ALIAS toUInt128(held_raw_low) + bitShiftLeft(toUInt128(overflow[1]), 64) COMMENT 'in open lots, in the smallest unit',
    held_known_raw UInt128 ALIAS toUInt128(held_known_raw_low) + bitShiftLeft(toUInt128(overflow[2]), 64) COMMENT 'of these in lots of known cost',
    bought_raw UInt128 ALIAS toUInt128(bought_raw_low) + bitShiftLeft(toUInt128(overflow[3]), 64) COMMENT 'bought, net of each transaction',
    sold_raw UInt128 ALIAS toUInt128(sold_raw_low) + bitShiftLeft(toUInt128(overflow[4]), 64) COMMENT 'sold, net of each transaction',
    received_raw UInt128 ALIAS toUInt128(received_raw_low) + bitShiftLeft(toUInt128(overflow[5]), 64) COMMENT 'received beside trades: transfers, airdrops',
    sent_raw UInt128 ALIAS toUInt128(sent_raw_low) + bitShiftLeft(toUInt128(overflow[6]), 64) COMMENT 'sent away beside trades',
    burned_raw UInt128 ALIAS toUInt128(burned_raw_low) + bitShiftLeft(toUInt128(overflow[7]), 64) COMMENT 'burned',
    unmatched_raw UInt128 ALIAS toUInt128(unmatched_raw_low) + bitShiftLeft(toUInt128(overflow[8]), 64) COMMENT 'sold or burned without a lot of known cost, or at an unknown value: no gain, no loss',
    bought_lamports UInt128 ALIAS toUInt128(bought_lamports_low) + bitShiftLeft(toUInt128(overflow[9]), 64) COMMENT 'paid for what was bought at a known value, in lamports',
    bought_usd_micros UInt128 ALIAS toUInt128(bought_usd_micros_low) + bitShiftLeft(toUInt128(overflow[10]), 64) COMMENT 'the same in millionths of a dollar',
    sold_lamports UInt128 ALIAS toUInt128(sold_lamports_low) + bitShiftLeft(toUInt128(overflow[11]), 64) COMMENT 'taken in for what was sold at a known value, in lamports',
    sold_usd_micros UInt128 ALIAS toUInt128(sold_usd_micros_low) + bitShiftLeft(toUInt128(overflow[12]), 64) COMMENT 'the same in millionths of a dollar',
    matched_proceeds_lamports UInt128 ALIAS toUInt128(matched_proceeds_lamports_low) + bitShiftLeft(toUInt128(overflow[13]), 64) COMMENT 'of these, for what came from lots of known cost',
    matched_proceeds_usd_micros UInt128 ALIAS toUInt128(matched_proceeds_usd_micros_low) + bitShiftLeft(toUInt128(overflow[14]), 64) COMMENT 'the same in millionths of a dollar',
    matched_cost_lamports UInt128 ALIAS toUInt128(matched_cost_lamports_low) + bitShiftLeft(toUInt128(overflow[15]), 64) COMMENT 'cost of the lots it came from; of burned lots too',
    matched_cost_usd_micros UInt128 ALIAS toUInt128(matched_cost_usd_micros_low) + bitShiftLeft(toUInt128(overflow[16]), 64) COMMENT 'the same in millionths of a dollar',
    held_cost_lamports UInt128 ALIAS toUInt128(held_cost_lamports_low) + bitShiftLeft(toUInt128(overflow[17]), 64) COMMENT 'cost of the open lots',
    held_cost_usd_micros UInt128 ALIAS toUInt128(held_cost_usd_micros_low) + bitShiftLeft(toUInt128(overflow[18]), 64) COMMENT 'the same in millionths of a dollar',
    realised_lamports Int256 ALIAS toInt256(matched_proceeds_lamports) - toInt256(matched_cost_lamports) COMMENT 'gain of what was sold or burned from lots of known cost, FIFO, without fees, in lamports',
    realised_usd_micros Int256 ALIAS toInt256(matched_proceeds_usd_micros) - toInt256(matched_cost_usd_micros) COMMENT 'the same in millionths of a dollar, each side valued at the time of its trade',
    PROJECTION by_wallet (SELECT _part_offset ORDER BY wallet)
)
ENGINE = ReplacingMergeTree(slot)
ORDER BY (mint, wallet, day)
SETTINGS
    non_replicated_deduplication_window = 1000,
    deduplicate_merge_projection_mode = 'rebuild'
COMMENT 'Positions since the beginning, as they were at the end of each day on which they changed; the last row of a wallet and token is the position now, the difference of two is what happened between';

CREATE TABLE IF NOT EXISTS wallet_days
(
    wallet String COMMENT 'wallet' CODEC(ZSTD(3)),
    day Date COMMENT 'day (UTC, by the time of the blocks)' CODEC(ZSTD(3)),
    bought_lamports_low UInt64 COMMENT 'lower 64 bits of bought_lamports' CODEC(ZSTD(3)),
    bought_usd_micros_low UInt64 COMMENT 'lower 64 bits of bought_usd_micros' CODEC(ZSTD(3)),
    sold_lamports_low UInt64 COMMENT 'lower 64 bits of sold_lamports' CODEC(ZSTD(3)),
    sold_usd_micros_low UInt64 COMMENT 'lower 64 bits of sold_usd_micros' CODEC(ZSTD(3)),
    matched_proceeds_lamports_low UInt64 COMMENT 'lower 64 bits of matched_proceeds_lamports' CODEC(ZSTD(3)),
    matched_proceeds_usd_micros_low UInt64 COMMENT 'lower 64 bits of matched_proceeds_usd_micros' CODEC(ZSTD(3)),
    matched_cost_lamports_low UInt64 COMMENT 'lower 64 bits of matched_cost_lamports' CODEC(ZSTD(3)),
    matched_cost_usd_micros_low UInt64 COMMENT 'lower 64 bits of matched_cost_usd_micros' CODEC(ZSTD(3)),
    fee_lamports UInt64 COMMENT 'network fees paid, base and priority; not in the gain' CODEC(ZSTD(3)),
    priority_fee_lamports UInt64 COMMENT 'of these the priority fees' CODEC(ZSTD(3)),
    tip_lamports UInt64 COMMENT 'tips paid; not in the gain' CODEC(ZSTD(3)),
    buys UInt32 COMMENT 'transactions that bought, net' CODEC(ZSTD(3)),
    sells UInt32 COMMENT 'transactions that sold, net' CODEC(ZSTD(3)),
    wins UInt32 COMMENT 'sales that realised a gain in dollars' CODEC(ZSTD(3)),
    losses UInt32 COMMENT 'sales that realised a loss in dollars' CODEC(ZSTD(3)),
    unmatched_sales UInt32 COMMENT 'sales of which a part was unmatched' CODEC(ZSTD(3)),
    slot UInt64 COMMENT 'slot of the last change: the version of the row' CODEC(Delta, ZSTD(3)),
    overflow Array(UInt64) COMMENT 'upper 64 bits of the columns *_low, in their order; empty: all 0' CODEC(ZSTD(3)),
    bought_lamports UInt128 ALIAS toUInt128(bought_lamports_low) + bitShiftLeft(toUInt128(overflow[1]), 64) COMMENT 'paid for what was bought at a known value, in lamports',
    bought_usd_micros UInt128 ALIAS toUInt128(bought_usd_micros_low) + bitShiftLeft(toUInt128(overflow[2]), 64) COMMENT 'the same in millionths of a dollar',
    sold_lamports UInt128 ALIAS toUInt128(sold_lamports_low) + bitShiftLeft(toUInt128(overflow[3]), 64) COMMENT 'taken in for what was sold at a known value, in lamports',
    sold_usd_micros UInt128 ALIAS toUInt128(sold_usd_micros_low) + bitShiftLeft(toUInt128(overflow[4]), 64) COMMENT 'the same in millionths of a dollar',
    matched_proceeds_lamports UInt128 ALIAS toUInt128(matched_proceeds_lamports_low) + bitShiftLeft(toUInt128(overflow[5]), 64) COMMENT 'of these, for what came from lots of known cost',
    matched_proceeds_usd_micros UInt128 ALIAS toUInt128(matched_proceeds_usd_micros_low) + bitShiftLeft(toUInt128(overflow[6]), 64) COMMENT 'the same in millionths of a dollar',
    matched_cost_lamports UInt128 ALIAS toUInt128(matched_cost_lamports_low) + bitShiftLeft(toUInt128(overflow[7]), 64) COMMENT 'cost of the lots it came from; of burned lots too',
    matched_cost_usd_micros UInt128 ALIAS toUInt128(matched_cost_usd_micros_low) + bitShiftLeft(toUInt128(overflow[8]), 64) COMMENT 'the same in millionths of a dollar',
    realised_lamports Int256 ALIAS toInt256(matched_proceeds_lamports) - toInt256(matched_cost_lamports) COMMENT 'gain of what was sold or burned from lots of known cost, FIFO, without fees, in lamports',
    realised_usd_micros Int256 ALIAS toInt256(matched_proceeds_usd_micros) - toInt256(matched_cost_usd_micros) COMMENT 'the same in millionths of a dollar, each side valued at the time of its trade'
)
ENGINE = ReplacingMergeTree(slot)
PARTITION BY toYYYYMM(day)
ORDER BY (wallet, day)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'What each wallet did on a day, over all its tokens';

CREATE TABLE IF NOT EXISTS cold_positions
(
    mint String COMMENT 'token that had not moved for days' CODEC(ZSTD(3)),
    partition UInt8 COMMENT 'partition by wallet that the position belongs to' CODEC(ZSTD(3)),
    wallet String COMMENT 'owner' CODEC(ZSTD(3)),
    packed String COMMENT 'position and lots, as schemas/positions.py says' CODEC(ZSTD(3)),
    slot UInt64 COMMENT 'slot at which it was put away: the version of the row' CODEC(Delta, ZSTD(3))
)
ENGINE = ReplacingMergeTree(slot)
ORDER BY (mint, partition, wallet)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'State of positions in dead tokens, moved out of Redis; stale where the token has moved since. For the agent: analysts read positions';
