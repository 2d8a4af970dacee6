-- Take a payment for a request. KEYS: the payment. ARGV: request, owner, lease in ms, TTL in ms.
-- Returns {"new"}, {"busy"}, {"other"}, {"delivered"}, or {state, answer, settlement, sight} of a
-- payment
-- whose last owner is gone.
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('HMGET', KEYS[1], 'request', 'state', 'lease_until_ms')
if not found[1] then
  redis.call('HSET', KEYS[1], 'request', ARGV[1], 'state', 'claimed', 'owner', ARGV[2],
    'lease_until_ms', now_ms + ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  return {'new'}
end
if found[1] ~= ARGV[1] then
  return {'other'}
end
if found[2] == 'delivered' then
  return {'delivered'}
end
if tonumber(found[3]) > now_ms then
  return {'busy'}
end
redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'lease_until_ms', now_ms + ARGV[3])
if found[2] == 'claimed' then
  return {'new'}
end
local kept = redis.call('HMGET', KEYS[1], 'answer', 'settlement', 'sight')
return {found[2], kept[1] or '', kept[2] or '', kept[3] or ''}
