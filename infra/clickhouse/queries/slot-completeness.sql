-- How much of the chain is in here: blocks, gaps and what was not decoded, hour by hour.
-- hours = 24: how many hours up to the last slot
SELECT *
FROM slot_completeness
WHERE hour >= (SELECT toStartOfHour(max(block_time)) FROM slots) - toIntervalHour({hours:UInt16})
ORDER BY hour DESC
