-- Begins a session of a user's browser; of too many, the one that ends first is ended now.
--
-- KEYS  record of the user, their sessions
-- ARGV  SHA-256 of the session's secret, how long it lasts in ms, most sessions
-- Returns  1, or 0 if the user is suspended, or none
local user = redis.call('HMGET', KEYS[1], 'plan', 'suspended_ms')
if not user[1] or user[2] then return 0 end
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_ms)
while redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[3]) do redis.call('ZPOPMIN', KEYS[2]) end
redis.call('ZADD', KEYS[2], now_ms + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
