-- Puts what is told of a user beside what is known of them, last of all: their keys are there by
-- then. Of credits and times the greater counts. Of a user that is known for longer than it is told,
-- all else stays as it is. It may be run twice.
--
-- KEYS  record, credits by month, sessions, which end with a suspension
-- ARGV  name, plan, issuer, subject, created_ms, signed_in_ms, suspended_ms or '', plan of a new
--       user; then month, credits spent in it, of each month
-- Returns  1 if the user was not known here, else 0
local found = redis.call('HMGET', KEYS[1], 'created_ms', 'plan', 'signed_in_ms')
local is_new = not found[1]
if is_new then
  redis.call('HSET', KEYS[1], 'name', ARGV[1], 'issuer', ARGV[3], 'subject', ARGV[4],
    'owner', ARGV[3], 'last4', '')
end
if is_new or tonumber(found[1]) > tonumber(ARGV[5]) then
  redis.call('HSET', KEYS[1], 'created_ms', ARGV[5])
  if is_new or found[2] == ARGV[8] then redis.call('HSET', KEYS[1], 'plan', ARGV[2]) end
  if ARGV[7] ~= '' and redis.call('HSETNX', KEYS[1], 'suspended_ms', ARGV[7]) == 1 then
    redis.call('DEL', KEYS[3])
  end
end
if tonumber(ARGV[6]) > tonumber(found[3] or '-1') then
  redis.call('HSET', KEYS[1], 'signed_in_ms', ARGV[6])
end
for i = 9, #ARGV, 2 do
  if tonumber(ARGV[i + 1]) > tonumber(redis.call('HGET', KEYS[2], ARGV[i]) or '0') then
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  end
end
return is_new and 1 or 0
