#!lua flags=allow-oom
-- Sets a field of a user, or removes it where its value is empty; a suspension ends the sessions.
-- Also when Redis is full. It may be run twice.
--
-- KEYS  record of the user, their sessions
-- ARGV  field, value
if redis.call('HEXISTS', KEYS[1], 'issuer') == 0 then return end
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  if ARGV[1] == 'suspended_ms' then redis.call('DEL', KEYS[2]) end
end
