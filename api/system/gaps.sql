-- One row always, so that it also shows whether ClickHouse answers.
SELECT
    version() AS version,
    count() AS count,
    sumIf(last_slot - first_slot + 1, lost_by = '') AS slots,
    sumIf(last_slot - first_slot + 1, startsWith(reason, 'rolled back')) AS rolled_back,
    (
        SELECT count() FROM perp_gaps FINAL
        WHERE block_time > now64(3, 'UTC') - INTERVAL 1 DAY
    ) AS unread_perps,
    arraySort(groupUniqArrayIf(toString(lost_by), lost_by != '')) AS groups,
    arraySlice(
        arrayReverseSort(
            gap -> (gap.1, gap.2),
            groupArray((toUnixTimestamp64Milli(detected_at), first_slot, last_slot, toString(reason), toString(lost_by)))
        ),
        1,
        {most:UInt32}
    ) AS latest
FROM gaps FINAL
WHERE detected_at > now64(3, 'UTC') - INTERVAL 1 DAY
