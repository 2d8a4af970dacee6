-- A slot of a gap may have a block here: one that is not known to be final, or that is there in part.
-- The view counted such blocks as missing as well, and slots of overlapping gaps twice, so that fewer
-- slots were left without a block than there are, or less than none.
CREATE OR REPLACE VIEW slot_completeness
(
    hour DateTime('UTC') COMMENT 'hour, UTC',
    first_slot UInt64 COMMENT 'first slot with a block in it',
    last_slot UInt64 COMMENT 'last slot before the next hour, as far as is known',
    blocks UInt64 COMMENT 'slots with a block',
    incomplete UInt64 COMMENT 'of these, slots of which a part is missing',
    missing UInt64 COMMENT 'slots that could not be had: the gaps, without the blocks in them',
    rolled_back UInt64 COMMENT 'slots that were rolled back after they were settled: their rows never happened',
    lost UInt64 COMMENT 'slots that a partition of an agent group alone lacks, summed over those',
    without_block UInt64 COMMENT 'slots in which the chain made no block',
    complete_pct Float64 COMMENT 'slots that are wholly known and known to be of the chain, of all, in per cent',
    transactions UInt64 COMMENT 'transactions received',
    decoded UInt64 COMMENT 'instructions of venues that gave events',
    unknown UInt64 COMMENT 'instructions of venues that no decoder has a name for',
    malformed UInt64 COMMENT 'instructions of venues whose bytes do not fit'
)
AS WITH apart AS
(
    -- The gaps of each kind, without what an earlier one has of them.
    SELECT kind, greatest(first_slot, reached + 1) AS first_slot, last_slot
    FROM
    (
        SELECT
            arrayJoin(multiIf(
                lost_by != '', ['lost'],
                startsWith(reason, 'rolled back'), ['rolled back', 'doubtful'],
                ['missing', 'doubtful']
            )) AS kind,
            first_slot,
            last_slot,
            max(last_slot) OVER (
                PARTITION BY kind, lost_by
                ORDER BY first_slot, last_slot
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS reached
        FROM gaps FINAL
    )
    WHERE last_slot > reached
)
SELECT
    hour,
    first_slot,
    if(next_slot = 0, highest_slot, toUInt64(next_slot - 1)) AS last_slot,
    blocks,
    incomplete,
    arrayMap(
        gap -> (toUInt64(greatest(toInt64(least(gap.2, last_slot)) - toInt64(greatest(gap.1, first_slot)) + 1, 0)), gap.3),
        (SELECT groupArray((first_slot, last_slot, kind)) FROM apart)
    ) AS parts,
    -- Not below 0: a gap may be written between the two readings of gaps.
    toUInt64(greatest(toInt64(arraySum(part -> part.1 * (part.2 = 'missing'), parts)) - toInt64(blocks_in_gaps), 0)) AS missing,
    arraySum(part -> part.1 * (part.2 = 'rolled back'), parts) AS rolled_back,
    arraySum(part -> part.1 * (part.2 = 'lost'), parts) AS lost,
    last_slot - first_slot + 1 - blocks - missing AS without_block,
    100 - 100 * arraySum(part -> part.1 * (part.2 = 'doubtful'), parts) / (last_slot - first_slot + 1) AS complete_pct,
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
            countIf(slot <= gap_end) AS blocks_in_gaps,
            sum(transactions) AS transactions,
            sum(decoded) AS decoded,
            sum(unknown) AS unknown,
            sum(malformed) AS malformed
        FROM (SELECT *, 'missing' AS kind FROM slots FINAL) AS block
        ASOF LEFT JOIN
        (
            SELECT kind AS gap_kind, first_slot AS gap_begin, last_slot AS gap_end FROM apart
        ) AS gap ON block.kind = gap.gap_kind AND block.slot >= gap.gap_begin
        GROUP BY hour
    )
)
COMMENT 'How much of the chain is in here, hour by hour';
