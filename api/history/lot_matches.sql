-- What became of lots of a position before a place, newest first; a match may be there twice until
-- parts are merged. Read backwards in the order of the table, and no further than the limit.
WITH fromUnixTimestamp64Milli({before_ms:Int64}, 'UTC') AS before
SELECT
    signature, slot, tx_index, event_index, toUnixTimestamp64Milli(block_time) AS time_ms,
    kind, toUInt8(lot_matches.kind) AS kind_number,
    lot_number, lot_slot, lot_tx_index, toUnixTimestamp64Milli(lot_time) AS lot_time_ms,
    quantity_raw, cost_lamports, cost_usd_micros, proceeds_lamports, proceeds_usd_micros
FROM lot_matches
WHERE wallet = {wallet:String}
    AND mint = {mint:String}
    AND block_time <= before
    AND (block_time, slot, tx_index, toUInt8(kind), ifNull(lot_number, 4294967295))
        < (
            before, {before_slot:UInt64}, {before_tx_index:UInt32}, {before_kind:UInt8},
            {before_lot:UInt32}
        )
    AND slot <= {as_of_slot:UInt64}
ORDER BY
    block_time DESC, slot DESC, tx_index DESC, kind DESC, ifNull(lot_number, 4294967295) DESC
LIMIT {limit:UInt32}
