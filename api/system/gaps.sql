-- One row always, so that it also tells whether ClickHouse answers.
SELECT
    version() AS version,
    count() AS count,
    sum(last_slot - first_slot + 1) AS slots,
    sumIf(last_slot - first_slot + 1, startsWith(reason, 'rolled back')) AS rolled_back,
    arraySlice(
        arrayReverseSort(
            gap -> (gap.1, gap.2),
            groupArray((toUnixTimestamp64Milli(detected_at), first_slot, last_slot, toString(reason)))
        ),
        1,
        {most:UInt32}
    ) AS latest
FROM gaps FINAL
WHERE detected_at > now64(3, 'UTC') - INTERVAL 1 DAY
