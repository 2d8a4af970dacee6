-- Changes fields in the record of a user of Kafka that is still there; the others stay, whatever they
-- have become meanwhile. It may be run twice.
--
-- KEYS  users
-- ARGV  user, fields as JSON
local packed = redis.call('HGET', KEYS[1], ARGV[1])
if not packed then
  return 0
end
local record = cjson.decode(packed)
for name, value in pairs(cjson.decode(ARGV[2])) do
  record[name] = value
end
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(record))
return 1
