#!lua flags=allow-oom
-- Adds to what a month had, and returns all of it. It may run when Redis is full: it adds 12 KiB a
-- month.
--
-- KEYS  counts of answers, minutes in which we served, minutes in which a look failed
--       (schemas/redis_keys.py)
-- ARGV  minute of the month, 1 if the look at it went well or else 0, answers, of these failed,
--       seconds to keep the month for
-- Returns  {answers, of these failed, bits of the minutes served, bits of those with a failed look}
local answered = redis.call('HINCRBY', KEYS[1], 'answered', ARGV[3])
local failed = redis.call('HINCRBY', KEYS[1], 'failed', ARGV[4])
redis.call('SETBIT', ARGV[2] == '1' and KEYS[2] or KEYS[3], ARGV[1], 1)
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[5]) end
return {answered, failed, redis.call('GET', KEYS[2]) or '', redis.call('GET', KEYS[3]) or ''}
