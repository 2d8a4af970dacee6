#!lua flags=allow-oom
-- Lets a WebSocket connection in with an API key, or refuses it. What is let in has a lease, which
-- its gateway renews (renew.lua); one that is not renewed ends by itself and counts no more.
--
-- KEYS  record, connections (schemas/redis_keys.py); of a user's key these are the user's, and then
--       the key's own record; of a user's session the user's sessions are third
-- ARGV  lease, how long it is valid in ms, digest of a user's session or empty; then of each plan:
--       name, connections; -1 is without limit
-- Returns  {'unknown'} | {'revoked'} | {'suspended'} | {'ended'} (the session) |
--          {'user', of whom the key is} |
--          {'plan', plan} (there is none of that name) |
--          {'connections', plan} | {'ending', plan, ms until there is room: leases of a gateway
--          that is no more take it} | {'admitted', plan}
local LAST_USED_EVERY_MS = 10000
local UNRENEWED_MS = 7000 -- three looks of a gateway, and a moment

local record = redis.call(
  'HMGET', KEYS[1], 'plan', 'revoked_ms', 'last_used_ms', 'user', 'suspended_ms')
local plan, key = record[1], KEYS[1]
-- One clock for all gateways: this server's.
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if ARGV[3] ~= '' then
  if plan and record[5] then return {'suspended'} end -- which ended the session as well
  local ends_ms = redis.call('ZSCORE', KEYS[3], ARGV[3])
  if not ends_ms or tonumber(ends_ms) <= now_ms then return {'ended'} end
elseif KEYS[3] then
  key = KEYS[3]
  local own = redis.call('HMGET', key, 'created_ms', 'revoked_ms', 'last_used_ms')
  if not own[1] then return {'unknown'} end
  record[2], record[3] = own[2], own[3]
elseif record[4] then
  return {'user', record[4]}
end
if not plan then return {'unknown'} end
if record[2] then return {'revoked'} end
if record[5] then return {'suspended'} end

local limit
for i = 4, #ARGV, 2 do
  if ARGV[i] == plan then
    limit = tonumber(ARGV[i + 1])
    break
  end
end
if not limit then return {'plan', plan} end

local lease_ms = tonumber(ARGV[2])

redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_ms)
local open = redis.call('ZCARD', KEYS[2])
if limit >= 0 and open >= limit then
  local left = redis.call(
    'ZRANGEBYSCORE', KEYS[2], '-inf', now_ms + lease_ms - UNRENEWED_MS, 'WITHSCORES')
  if open - #left / 2 >= limit then return {'connections', plan} end
  return {'ending', plan, tonumber(left[2 * (open - limit + 1)]) - now_ms}
end
redis.call('ZADD', KEYS[2], now_ms + lease_ms, ARGV[1])
redis.call('PEXPIRE', KEYS[2], lease_ms)
if now_ms - tonumber(record[3] or '0') >= LAST_USED_EVERY_MS then
  redis.call('HSET', key, 'last_used_ms', now_ms)
end
return {'admitted', plan}
