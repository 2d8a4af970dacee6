#!lua flags=allow-oom
-- Revokes a key of a user; also when Redis is full. It may be run twice.
--
-- KEYS  keys of the user, record of the key
-- ARGV  fingerprint, now in ms, seconds that the record is kept
redis.call('ZREM', KEYS[1], ARGV[1])
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('HSETNX', KEYS[2], 'revoked_ms', ARGV[2])
  redis.call('EXPIRE', KEYS[2], ARGV[3])
end
