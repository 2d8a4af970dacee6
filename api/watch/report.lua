-- Says how the watching goes, where the lease is still its owner's.
-- KEYS: lease, report; ARGV: owner, fields and values. Returns whether it is.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[2], unpack(ARGV, 2))
redis.call('PERSIST', KEYS[2]) -- an earlier version let it expire
return 1
