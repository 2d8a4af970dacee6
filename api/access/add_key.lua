-- Makes a key of a user, where there is room for one.
--
-- KEYS  record of the user, their keys, keys made in this day, record of the new key
-- ARGV  fingerprint, name, last4, now in ms, most keys at once, most in a day
-- Returns  'suspended' | 'keys' | 'day' | 'made'
local DAY_S = 86400
local user = redis.call('HMGET', KEYS[1], 'plan', 'suspended_ms')
if not user[1] or user[2] then return 'suspended' end
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[5]) then return 'keys' end
if tonumber(redis.call('GET', KEYS[3]) or '0') >= tonumber(ARGV[6]) then return 'day' end
if redis.call('INCR', KEYS[3]) == 1 then redis.call('EXPIRE', KEYS[3], DAY_S) end
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
redis.call('HSET', KEYS[4], 'name', ARGV[2], 'last4', ARGV[3], 'created_ms', ARGV[4])
return 'made'
