-- Forget a payment that was not settled, if it is still the caller's. KEYS: the payment.
-- ARGV: owner.
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return 1
