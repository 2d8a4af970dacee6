#!lua flags=allow-oom
-- Renews the leases that one gateway holds with an API key, unless the key was revoked. A lease
-- that Redis has lost is there again after it. It may be run twice.
--
-- KEYS  record, connections (schemas/redis_keys.py)
-- ARGV  how long they are valid in ms, leases
-- Returns  'revoked' | 'renewed'
local LAST_USED_EVERY_MS = 60000

local record = redis.call('HMGET', KEYS[1], 'plan', 'revoked_ms', 'last_used_ms')
if record[2] then return 'revoked' end
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local lease_ms = tonumber(ARGV[1])
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[2], now_ms + lease_ms, ARGV[i])
end
redis.call('PEXPIRE', KEYS[2], lease_ms)
-- A key that Redis has lost is not made again: it would be one without a plan.
if record[1] and now_ms - tonumber(record[3] or '0') >= LAST_USED_EVERY_MS then
  redis.call('HSET', KEYS[1], 'last_used_ms', now_ms)
end
return 'renewed'
