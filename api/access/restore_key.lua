-- Puts what is told of a user's key beside what is known of it, as `merge` does of an operator's key.
-- It may be run twice.
--
-- KEYS  record of the key, keys of the user, keys of the user that were revoked
-- ARGV  fingerprint, name, last4, created_ms, last_used_ms or '', revoked_ms or '', 1 if it is
--       brought where it is not known, else 0, seconds that a revoked one is kept, most keys at
--       once, most records of revoked ones
-- Returns  'new' | 'here' | 'room' (there is none for it) | 'unknown'; then fingerprints of keys that
--       were revoked longest ago, whose records are too many
local is_known = redis.call('EXISTS', KEYS[1]) == 1
if not is_known then
  if ARGV[7] == '0' then return {'unknown'} end
  if ARGV[6] == '' and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[9]) then return {'room'} end
  redis.call('HSET', KEYS[1], 'name', ARGV[2], 'last4', ARGV[3], 'created_ms', ARGV[4])
end
if ARGV[5] ~= '' then
  local used = tonumber(redis.call('HGET', KEYS[1], 'last_used_ms') or '0')
  if tonumber(ARGV[5]) > used then redis.call('HSET', KEYS[1], 'last_used_ms', ARGV[5]) end
end
if ARGV[6] ~= '' then redis.call('HSETNX', KEYS[1], 'revoked_ms', ARGV[6]) end
local answer = {is_known and 'here' or 'new'}
local revoked = redis.call('HGET', KEYS[1], 'revoked_ms')
if revoked then
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('ZADD', KEYS[3], 'NX', revoked, ARGV[1])
  redis.call('EXPIRE', KEYS[3], ARGV[8])
  redis.call('EXPIRE', KEYS[1], ARGV[8])
  for _, each in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1 - tonumber(ARGV[10]))) do
    redis.call('ZREM', KEYS[3], each)
    table.insert(answer, each)
  end
else
  redis.call('ZADD', KEYS[2], 'NX', ARGV[4], ARGV[1])
end
return answer
