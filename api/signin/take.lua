#!lua flags=allow-oom
-- Takes a sign-in that was begun, this one time; also when Redis is full.
--
-- KEYS  sign-ins and when they end, what they need to go on
-- ARGV  hash of state and browser
-- Returns  what it needs, or false if there is none or its time is over
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local ends_ms = redis.call('ZSCORE', KEYS[1], ARGV[1])
local told = redis.call('HGET', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
if not ends_ms or tonumber(ends_ms) <= now_ms then return false end
return told
