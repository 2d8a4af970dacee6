#!lua flags=allow-oom
-- Charges one request of an API key, or refuses it; a refused request costs nothing.
--
-- It may run when Redis is full: what it adds for a key is bounded, and answers are still there.
--
-- KEYS  record, credits by month, accepted requests of the last minute (schemas/redis_keys.py); of a
--       user's key these are the user's, and then the key's own
-- ARGV  credits that it costs; then of each plan: name, credits a month, requests a minute; -1 is
--       without limit. Or 'look' alone: nothing is charged or counted
-- Returns  'unknown' | 'revoked' | 'suspended' | 'good' (where it was a look) alone,
--       {'user', of whom the key is}, or
--       {'accepted' | 'plan' | 'credits' | 'rate', plan, month, credits spent in it,
--        requests in the last minute, ms until the next of them is forgotten, now in ms, 1 if a
--        user pays, else 0}
--       of which 'plan' (there is none of that name) tells the plan alone.
local MINUTE_MS = 60000
local LAST_USED_EVERY_MS = 10000

local record = redis.call(
  'HMGET', KEYS[1], 'plan', 'revoked_ms', 'last_used_ms', 'user', 'suspended_ms', 'issuer')
local plan, key = record[1], KEYS[1]
if KEYS[4] then
  key = KEYS[4]
  local own = redis.call('HMGET', key, 'created_ms', 'revoked_ms', 'last_used_ms')
  if not own[1] then return {'unknown'} end
  record[2], record[3] = own[2], own[3]
elseif record[4] then
  return {'user', record[4]}
end
if not plan then return {'unknown'} end
if record[2] then return {'revoked'} end
if record[5] then return {'suspended'} end
if ARGV[1] == 'look' then return {'good'} end

local credits, rate
for i = 2, #ARGV, 3 do
  if ARGV[i] == plan then
    credits, rate = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    break
  end
end
if not credits then return {'plan', plan} end

-- One clock for all processes: this server's.
local time = redis.call('TIME')
local now_s = tonumber(time[1])
local now_ms = now_s * 1000 + math.floor(tonumber(time[2]) / 1000)

-- The calendar month in UTC, from days since the epoch (years of this count begin in March).
local days = math.floor(now_s / 86400) + 719468
local era = math.floor(days / 146097)
local day = days - era * 146097
local year = math.floor(
  (day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
day = day - (365 * year + math.floor(year / 4) - math.floor(year / 100))
local month = math.floor((5 * day + 2) / 153)
month = month < 10 and month + 3 or month - 9
year = year + era * 400 + (month <= 2 and 1 or 0)
local name = string.format('%04d-%02d', year, month)

local function answer(outcome, spent, count, wait_ms)
  return {outcome, plan, name, spent, count, math.max(0, math.min(wait_ms, MINUTE_MS)), now_ms,
          record[6] and 1 or 0}
end

-- Times of accepted requests, newest first; those that are a minute old leave at the end. Mostly it
-- is one; after a burst it may be thousands, which are found by halving and leave at once.
local times = KEYS[3]
local function is_old(index)
  return now_ms - tonumber(redis.call('LINDEX', times, index)) >= MINUTE_MS
end
local count = redis.call('LLEN', times)
local tries = 0
while count > 0 and tries < 4 and is_old(-1) do
  redis.call('RPOP', times)
  count = count - 1
  tries = tries + 1
end
if count > 0 and tries == 4 and is_old(-1) then
  local young, old = -1, count - 1
  while old - young > 1 do
    local middle = math.floor((young + old) / 2)
    if is_old(middle) then old = middle else young = middle end
  end
  count = old
  if count == 0 then
    redis.call('DEL', times)
  else
    redis.call('LTRIM', times, 0, count - 1)
  end
end
local wait_ms = MINUTE_MS
if count > 0 then
  wait_ms = MINUTE_MS - (now_ms - tonumber(redis.call('LINDEX', times, -1)))
end

local cost = tonumber(ARGV[1])
local spent = tonumber(redis.call('HGET', KEYS[2], name) or '0')
if cost > 0 and credits >= 0 and spent + cost > credits then
  return answer('credits', spent, count, wait_ms)
end
if rate >= 0 then
  if count >= rate then
    -- More than the rate only where the plan's has become less.
    local next_free = redis.call('LINDEX', times, rate - count - 1)
    return answer('rate', spent, count, MINUTE_MS - (now_ms - tonumber(next_free)))
  end
  count = redis.call('LPUSH', times, now_ms)
  redis.call('PEXPIRE', times, MINUTE_MS)
end
if cost > 0 then
  spent = redis.call('HINCRBY', KEYS[2], name, cost)
end
if now_ms - tonumber(record[3] or '0') >= LAST_USED_EVERY_MS then
  redis.call('HSET', key, 'last_used_ms', now_ms)
end
return answer('accepted', spent, count, wait_ms)
