-- Notes that a user signed in, and makes the record of a new one. It may be run twice.
--
-- KEYS  record of the user
-- ARGV  name, plan of a new user, issuer, subject, now in ms
-- Returns  'suspended' | 'in'
if redis.call('HEXISTS', KEYS[1], 'suspended_ms') == 1 then return 'suspended' end
redis.call('HSETNX', KEYS[1], 'plan', ARGV[2])
redis.call('HSETNX', KEYS[1], 'created_ms', ARGV[5])
redis.call('HSET', KEYS[1], 'name', ARGV[1], 'issuer', ARGV[3], 'subject', ARGV[4],
  'owner', ARGV[3], 'last4', '', 'signed_in_ms', ARGV[5])
return 'in'
