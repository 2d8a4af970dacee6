-- Puts what is told of an API key beside what is known of it, so that nothing newer is lost: what
-- is there stays, a key once revoked stays revoked, of times and of credits the greater counts.
--
-- KEYS  record, credits by month
-- ARGV  name, plan, owner, last4, created_ms, last_used_ms or '', revoked_ms or ''; then month,
--       credits spent in it, of each month
-- Returns  1 if the key is new here, else 0
local is_new = redis.call('EXISTS', KEYS[1]) == 0 and 1 or 0
for i, field in ipairs({'name', 'plan', 'owner', 'last4', 'created_ms'}) do
  redis.call('HSETNX', KEYS[1], field, ARGV[i])
end
local function greater(key, field, value)
  if tonumber(value) > tonumber(redis.call('HGET', key, field) or '0') then
    redis.call('HSET', key, field, value)
  end
end
if ARGV[6] ~= '' then greater(KEYS[1], 'last_used_ms', ARGV[6]) end
if ARGV[7] ~= '' then redis.call('HSETNX', KEYS[1], 'revoked_ms', ARGV[7]) end
for i = 8, #ARGV, 2 do
  greater(KEYS[2], ARGV[i], ARGV[i + 1])
end
return is_new
