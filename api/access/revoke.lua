#!lua flags=allow-oom
-- Revokes an API key, once; also when Redis is full.
--
-- KEYS  record
-- ARGV  now, ms
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSETNX', KEYS[1], 'revoked_ms', ARGV[1])
end
