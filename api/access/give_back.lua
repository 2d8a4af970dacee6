#!lua flags=allow-oom
-- Gives back the credits of a request that failed. A script, because a full Redis refuses HINCRBY.
--
-- KEYS  credits by month
-- ARGV  month that the request was charged to, credits that it was charged
-- Returns  credits spent in the month
return redis.call('HINCRBY', KEYS[1], ARGV[1], -tonumber(ARGV[2]))
