-- Puts a user into the index of all, where there is room for one. It may be run twice.
--
-- KEYS  index of users
-- ARGV  id, fingerprint, most users
-- Returns  the fingerprint that the id is of, or false if there is no room
local found = redis.call('HGET', KEYS[1], ARGV[1])
if found then return found end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return false end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return ARGV[2]
