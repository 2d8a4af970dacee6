-- Slots of each kind of gap. Slots of overlapping gaps count once within a kind; rolled-back slots
-- of which no wallets are known are a kind of their own as well.
SELECT
    kind,
    lost_by,
    sum(last_slot + 1 - least(greatest(first_slot, reached + 1), last_slot + 1)) AS slots,
    count() AS gaps,
    toUnixTimestamp64Milli(max(detected_at)) AS detected_ms
FROM
(
    SELECT
        arrayJoin(multiIf(
            lost_by != '', ['lost'],
            NOT startsWith(reason, 'rolled back'), ['missing'],
            empty(wallets), ['rolled back', 'rolled back, wallets unknown'],
            ['rolled back']
        )) AS kind,
        toString(lost_by) AS lost_by,
        first_slot,
        last_slot,
        detected_at,
        max(last_slot) OVER (
            PARTITION BY kind, lost_by
            ORDER BY first_slot, last_slot
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reached
    FROM gaps FINAL
)
GROUP BY kind, lost_by
