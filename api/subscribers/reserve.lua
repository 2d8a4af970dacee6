-- Reserves a user of Kafka for an account, within the bounds.
--
-- KEYS  users, users issued to the account within the hour
-- ARGV  user, record, prefix of the account's users, most of the account, most of all,
--       most issued in an hour, that hour in seconds
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) then
  return 'full'
end
local held = 0
for _, user in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(user, 1, #ARGV[3]) == ARGV[3] then
    held = held + 1
  end
end
if held >= tonumber(ARGV[4]) then
  return 'held'
end
if tonumber(redis.call('GET', KEYS[2]) or '0') >= tonumber(ARGV[6]) then
  return 'issued'
end
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then
  return 'taken'
end
if redis.call('INCR', KEYS[2]) == 1 then
  redis.call('EXPIRE', KEYS[2], ARGV[7])
end
return 'reserved'
