-- `gaps` also records slots that were settled as confirmed and then rolled back, with the wallets
-- whose figures include them, and slots that only one partition of an agent group is missing.
ALTER TABLE gaps
    ADD COLUMN IF NOT EXISTS wallets Array(String)
    COMMENT 'whose figures have what was rolled back; empty for slots that could not be had' CODEC(ZSTD(3));
ALTER TABLE gaps
    ADD COLUMN IF NOT EXISTS lost_by LowCardinality(String)
    COMMENT 'the agent group and partition that alone lacks them, as the log no longer had them; empty: all do' CODEC(ZSTD(3)),
    MODIFY ORDER BY (first_slot, last_slot, lost_by);
ALTER TABLE gaps MODIFY COMMENT 'Slots that could neither be streamed nor fetched, slots that were rolled back after they were settled, and slots that an agent group lost';

CREATE OR REPLACE VIEW slot_completeness
(
    hour DateTime('UTC') COMMENT 'hour, UTC',
    first_slot UInt64 COMMENT 'first slot with a block in it',
    last_slot UInt64 COMMENT 'last slot before the next hour, as far as is known',
    blocks UInt64 COMMENT 'slots with a block',
    incomplete UInt64 COMMENT 'of these, slots of which a part is missing',
    missing UInt64 COMMENT 'slots that could not be had: the gaps',
    rolled_back UInt64 COMMENT 'slots that were rolled back after they were settled: their rows never happened',
    lost UInt64 COMMENT 'slots that a partition of an agent group alone lacks, summed over those',
    without_block UInt64 COMMENT 'slots in which the chain made no block',
    complete_pct Float64 COMMENT 'slots that are wholly known and of the chain, of all, in per cent',
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
    arrayMap(
        gap -> (toUInt64(greatest(toInt64(least(gap.2, last_slot)) - toInt64(greatest(gap.1, first_slot)) + 1, 0)), gap.3),
        (
            SELECT groupArray((
                first_slot,
                last_slot,
                multiIf(lost_by != '', 'lost', startsWith(reason, 'rolled back'), 'rolled back', 'missing')
            ))
            FROM gaps FINAL
        )
    ) AS parts,
    -- A slot of a gap that has a row is there in part, and counted as incomplete.
    toUInt64(greatest(toInt64(arraySum(part -> part.1 * (part.2 = 'missing'), parts)) - toInt64(incomplete), 0)) AS missing,
    arraySum(part -> part.1 * (part.2 = 'rolled back'), parts) AS rolled_back,
    arraySum(part -> part.1 * (part.2 = 'lost'), parts) AS lost,
    last_slot - first_slot + 1 - blocks - missing AS without_block,
    100 - 100 * (incomplete + missing + rolled_back) / (last_slot - first_slot + 1) AS complete_pct,
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
