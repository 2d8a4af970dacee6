#!lua flags=allow-oom
-- Room of paid answers in Redis, of all payments together. Also when Redis is full: what it adds is
-- bounded, and room is given back. It may be run twice.
--
-- KEYS  bytes by payment, when each goes
-- ARGV  payment; 'take' | 'keep' | 'leave'; how long in ms, bytes to take, most bytes of all, how
--       long the longest is kept in ms; who takes, most bytes of one of them beside their first
-- Returns  {1, or 0 where there is no room to take, or -1 none for who takes; bytes of all together}
local OVERHEAD = 512 -- of the entries of three keys
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function leave(id)
  local size, taker = string.match(redis.call('HGET', KEYS[1], id) or '0', '^(%d+) ?(.*)$')
  size = tonumber(size)
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
  if size > 0 then
    redis.call('HINCRBY', KEYS[1], '', -size)
    if taker ~= '' and redis.call('HINCRBY', KEYS[1], 'of:' .. taker, -size) <= 0 then
      redis.call('HDEL', KEYS[1], 'of:' .. taker)
    end
  end
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now_ms, 'LIMIT', 0, 1000)) do
  leave(id)
end
local is_taken = 1
if ARGV[2] == 'keep' then
  redis.call('ZADD', KEYS[2], 'XX', now_ms + tonumber(ARGV[3]), ARGV[1])
else
  leave(ARGV[1])
end
local all = tonumber(redis.call('HGET', KEYS[1], '') or '0')
if ARGV[2] == 'take' then
  local size = tonumber(ARGV[4]) + OVERHEAD
  local taker = ARGV[7]
  local own = tonumber(redis.call('HGET', KEYS[1], 'of:' .. taker) or '0')
  if all + size > tonumber(ARGV[5]) then
    is_taken = 0
  elseif own > 0 and own + size > tonumber(ARGV[8]) then
    is_taken = -1
  else
    redis.call('HSET', KEYS[1], ARGV[1], taker == '' and size or size .. ' ' .. taker)
    if taker ~= '' then redis.call('HINCRBY', KEYS[1], 'of:' .. taker, size) end
    redis.call('ZADD', KEYS[2], now_ms + tonumber(ARGV[3]), ARGV[1])
    all = redis.call('HINCRBY', KEYS[1], '', size)
  end
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[6]) end
return {is_taken, all}
