-- What a reading of a wallet changes, and the alerts of it, in one step: both or neither.
-- KEYS: lease, what is known of the wallet, stream of alerts.
-- ARGV: owner, version that the change was computed from, ms to live, entries of the stream,
--   number of fields, fields and values, number of fields that are gone, these,
--   and for alerts: epoch, index, frames.
-- Returns 1; 0 where another has the lease, or has changed what is known: nothing is written then.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if (redis.call('HGET', KEYS[2], 'version') or '0') ~= ARGV[2] then
  return 0
end
local at = 6
local put = tonumber(ARGV[5])
for _ = 1, put do
  redis.call('HSET', KEYS[2], ARGV[at], ARGV[at + 1])
  at = at + 2
end
local gone = tonumber(ARGV[at])
for n = 1, gone do
  redis.call('HDEL', KEYS[2], ARGV[at + n])
end
at = at + gone + 1
redis.call('HINCRBY', KEYS[2], 'version', 1)
redis.call('PEXPIRE', KEYS[2], ARGV[3])
if ARGV[at] then
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[4], '*',
    'epoch', ARGV[at], 'index', ARGV[at + 1], 'frames', ARGV[at + 2])
end
return 1
