-- Forget a payment that was not settled, if it is still the caller's. KEYS: the payment.
-- ARGV: owner. Returns 1 if it is forgotten, else 0.
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
