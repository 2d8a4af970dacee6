#!lua flags=allow-oom
-- Revokes a key of a user; also when Redis is full. It may be run twice.
--
-- KEYS  keys of the user, record of the key, keys of the user that were revoked
-- ARGV  fingerprint, now in ms, seconds that the record is kept, most records that are kept
-- Returns  fingerprints of keys that were revoked longest ago, whose records are too many
redis.call('ZREM', KEYS[1], ARGV[1])
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('HSETNX', KEYS[2], 'revoked_ms', ARGV[2])
  redis.call('EXPIRE', KEYS[2], ARGV[3])
  redis.call('ZADD', KEYS[3], 'NX', ARGV[2], ARGV[1])
  redis.call('EXPIRE', KEYS[3], ARGV[3])
end
local gone = redis.call('ZRANGE', KEYS[3], 0, -1 - tonumber(ARGV[4]))
for _, each in ipairs(gone) do redis.call('ZREM', KEYS[3], each) end
return gone
