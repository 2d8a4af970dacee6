#!lua flags=allow-oom
-- Takes more credits for a request that was charged already: the further items of a batch. Or gives
-- back what it was charged, as less than none.
--
-- KEYS  credits by month
-- ARGV  month that the request was charged to, further credits, credits a month (-1: without
--       limit), credits it was charged so far
-- Returns  {1, credits spent} if they were there; else {0, credits spent} after giving back what it
--       was charged so far, for a refused request costs nothing.
local spent = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
local limit = tonumber(ARGV[3])
if limit >= 0 and spent + tonumber(ARGV[2]) > limit then
  return {0, redis.call('HINCRBY', KEYS[1], ARGV[1], -tonumber(ARGV[4]))}
end
return {1, redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])}
