-- Take a payment a step further, if it is still the caller's. KEYS: the payment. ARGV: owner, lease
-- in ms, TTL in ms or 0 to leave it, then fields and values. Returns 1, or 0 if it is another's.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return 0
end
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], 'lease_until_ms', now_ms + ARGV[2])
for at = 4, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
end
if ARGV[3] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 1
