#!lua flags=allow-oom
-- Gives back the credits of a request that failed, for so many requests a minute and no more. A
-- script, because a full Redis refuses HINCRBY; what it adds for a key is bounded.
--
-- KEYS  credits by month, requests of this minute that got theirs back (schemas/redis_keys.py)
-- ARGV  month that the request was charged to, credits that it was charged, most requests a minute
-- Returns  {credits spent in the month, 1 if they were given back or else 0}
local MINUTE_S = 60
local given = redis.call('INCR', KEYS[2])
if given == 1 then redis.call('EXPIRE', KEYS[2], MINUTE_S) end
local spent = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
-- Less than was charged is there where Redis has lost its last second.
if given > tonumber(ARGV[3]) or spent < tonumber(ARGV[2]) then return {spent, 0} end
return {redis.call('HINCRBY', KEYS[1], ARGV[1], -tonumber(ARGV[2])), 1}
