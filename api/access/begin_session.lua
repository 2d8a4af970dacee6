-- Begins the session of a user's browser that a sign-in ends with, once; of too many, the one that
-- ends first is ended now.
--
-- KEYS  record of the user, their sessions, sign-ins of theirs that were finished
-- ARGV  SHA-256 of the session's secret, how long it lasts in ms, most sessions; name of the
--       sign-in, how long that is noted in ms, most that are noted
-- Returns  'begun' | 'suspended' (or there is no such user) | 'finished' (the sign-in, before) |
--          'often' (too many sign-ins of the user)
local user = redis.call('HMGET', KEYS[1], 'plan', 'suspended_ms')
if not user[1] or user[2] then return 'suspended' end
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now_ms)
if redis.call('ZSCORE', KEYS[3], ARGV[4]) then return 'finished' end
if redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[6]) then return 'often' end
redis.call('ZADD', KEYS[3], now_ms + tonumber(ARGV[5]), ARGV[4])
redis.call('PEXPIRE', KEYS[3], ARGV[5])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_ms)
while redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[3]) do redis.call('ZPOPMIN', KEYS[2]) end
redis.call('ZADD', KEYS[2], now_ms + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 'begun'
