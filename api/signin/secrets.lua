#!lua flags=allow-oom
-- Returns the secrets that sign-ins are sealed with, and makes a new one where the newest is old.
-- Also when Redis is full: there are never more than two.
--
-- KEYS  the secrets
-- ARGV  a secret to take if one is needed, how long one seals in ms
-- Returns  {the newest, the one before it or false}
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local found = redis.call('HMGET', KEYS[1], 'newest', 'made_ms', 'before')
if not found[1] or now_ms - tonumber(found[2]) >= tonumber(ARGV[2]) then
  if found[1] then redis.call('HSET', KEYS[1], 'before', found[1]) end
  redis.call('HSET', KEYS[1], 'newest', ARGV[1], 'made_ms', now_ms)
  redis.call('PEXPIRE', KEYS[1], 2 * tonumber(ARGV[2]))
  found = {ARGV[1], nil, found[1]}
end
return {found[1], found[3] or false}
