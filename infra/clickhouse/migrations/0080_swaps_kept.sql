-- What CLICKHOUSE_SWAPS_DAYS deleted is in no figure over swaps, which looked whole all the same. From
-- when on there are all of them, by what the API says of its pages (api/history/swaps_kept.py).
CREATE OR REPLACE VIEW swaps_kept
(
    kept_from Nullable(DateTime64(3, 'UTC')) COMMENT 'block time from which on all swaps are stored: older ones are deleted, or of before the tape; null: nothing is recorded yet'
)
AS WITH
    (SELECT nullIf(min(block_time), toDateTime64(0, 3, 'UTC')) FROM (SELECT block_time FROM slots ORDER BY slot LIMIT 1)) AS begin,
    -- Rows that an earlier, shorter setting removed do not come back.
    (SELECT min(block_time) FROM swaps) AS oldest,
    (SELECT min(applied_at) FROM schema_migrations) AS made,
    -- The least of all tables of that name: the current database is that of the question, not ours.
    (
        SELECT min(toUInt16OrNull(extract(engine_full, 'TTL written_at \\+ toIntervalDay\\((\\d+)\\)')))
        FROM system.tables
        WHERE name = 'swaps'
    ) AS days,
    now64(3, 'UTC') - toIntervalDay(days) AS expired,
    if(toDate(oldest) > toDate(begin), oldest, begin) AS stored
SELECT if(made <= expired, greatest(stored, expired), stored) AS kept_from
COMMENT 'From when on all swaps are stored, one row';

ALTER TABLE trades MODIFY COMMENT 'Every trade of confirmed slots, once, from when on swaps_kept says. Fast by mint, and by day';
ALTER TABLE token_daily MODIFY COMMENT 'What was traded of each token on each day. Days that begin before what swaps_kept says are not whole';
