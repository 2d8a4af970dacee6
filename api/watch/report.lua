-- Says how the watching goes, where the lease is still its owner's.
-- KEYS: lease, report; ARGV: owner, ms to live, fields and values. Returns whether it is.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[2], unpack(ARGV, 3))
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
