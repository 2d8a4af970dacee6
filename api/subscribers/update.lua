-- Replaces the record of a user of Kafka that is still there.
--
-- KEYS  users
-- ARGV  user, record
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
