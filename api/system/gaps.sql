-- One row always, so that it also shows whether ClickHouse answers. Slots of overlapping gaps count
-- once.
SELECT
    version() AS version,
    count() AS count,
    sumIf(last_slot + 1 - least(greatest(first_slot, reached + 1), last_slot + 1), lost_by = '') AS slots,
    sumIf(
        last_slot + 1 - least(greatest(first_slot, reached_of_kind + 1), last_slot + 1),
        is_rolled_back
    ) AS rolled_back,
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
FROM
(
    SELECT
        first_slot,
        last_slot,
        reason,
        detected_at,
        lost_by,
        startsWith(reason, 'rolled back') AS is_rolled_back,
        max(last_slot) OVER (
            PARTITION BY lost_by
            ORDER BY first_slot, last_slot
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reached,
        max(last_slot) OVER (
            PARTITION BY is_rolled_back
            ORDER BY first_slot, last_slot
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reached_of_kind
    FROM gaps FINAL
    WHERE detected_at > now64(3, 'UTC') - INTERVAL 1 DAY
)
