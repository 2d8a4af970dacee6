-- Gives a lease back that is still its owner's. KEYS: lease, and report where watching ends in
-- order; ARGV: owner.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', unpack(KEYS))
