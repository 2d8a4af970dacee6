#!lua flags=allow-oom
-- Renews the leases that one gateway holds with an API key, unless the key was revoked, its user
-- suspended, or the session ended. A lease that Redis has lost is there again after it. It may be
-- run twice.
--
-- KEYS  record, connections (schemas/redis_keys.py); of a user's key these are the user's, and then
--       the key's own record; of a user's session the user's sessions are third
-- ARGV  how long they are valid in ms, digest of a user's session or empty, leases
-- Returns  {'revoked'} (or the session ended) | {'suspended'} | {'renewed', plan}; the plan is nil
--          where Redis has lost the key
local LAST_USED_EVERY_MS = 60000

local record = redis.call('HMGET', KEYS[1], 'plan', 'revoked_ms', 'last_used_ms', 'suspended_ms')
local key = KEYS[1]
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if record[1] and ARGV[2] ~= '' then
  if record[4] then return {'suspended'} end -- which ended the session as well
  local ends_ms = redis.call('ZSCORE', KEYS[3], ARGV[2])
  if not ends_ms or tonumber(ends_ms) <= now_ms then return {'revoked'} end
elseif record[1] and KEYS[3] then
  key = KEYS[3]
  local own = redis.call('HMGET', key, 'created_ms', 'revoked_ms', 'last_used_ms')
  if not own[1] then return {'revoked'} end
  record[2], record[3] = own[2], own[3]
end
if record[2] then return {'revoked'} end
if record[4] then return {'suspended'} end
local lease_ms = tonumber(ARGV[1])
for i = 3, #ARGV do
  redis.call('ZADD', KEYS[2], now_ms + lease_ms, ARGV[i])
end
redis.call('PEXPIRE', KEYS[2], lease_ms)
-- A key that Redis has lost is not made again: it would be one without a plan.
if record[1] and now_ms - tonumber(record[3] or '0') >= LAST_USED_EVERY_MS then
  redis.call('HSET', key, 'last_used_ms', now_ms)
end
return {'renewed', record[1]}
