-- Notes a sign-in that begins. Where too many are under way the oldest are given up.
--
-- KEYS  sign-ins and when they end, what they need to go on
-- ARGV  hash of state and browser, what it needs, how long it may take in ms, most at once
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local function give_up(hashes)
  for _, hash in ipairs(hashes) do
    redis.call('ZREM', KEYS[1], hash)
    redis.call('HDEL', KEYS[2], hash)
  end
end
give_up(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms, 'LIMIT', 0, 100))
local over = redis.call('ZCARD', KEYS[1]) + 1 - tonumber(ARGV[4])
if over > 0 then give_up(redis.call('ZRANGE', KEYS[1], 0, over - 1)) end
redis.call('ZADD', KEYS[1], now_ms + tonumber(ARGV[3]), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
