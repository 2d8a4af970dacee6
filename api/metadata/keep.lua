-- Keeps what a token's URI said, and lets those go that were asked for longest ago.
-- KEYS: documents, images, sizes, asked. ARGV: mint, document, image (may be empty), now in ms,
-- most bytes of all together, ms after which a token that nobody asked for leaves.
local documents, images, sizes, asked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local mint, document, image = ARGV[1], ARGV[2], ARGV[3]
local now, most, rest = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local OVERHEAD = 512 -- of the entries of four keys

local function leave(each)
  local size = tonumber(redis.call('HGET', sizes, each) or '0')
  redis.call('HDEL', documents, each)
  redis.call('HDEL', images, each)
  redis.call('HDEL', sizes, each)
  redis.call('ZREM', asked, each)
  return redis.call('HINCRBY', sizes, '', -size)
end

leave(mint)
local size = #document + #image + OVERHEAD
if size > most then return 0 end
redis.call('HSET', documents, mint, document)
if image ~= '' then redis.call('HSET', images, mint, image) end
redis.call('HSET', sizes, mint, size)
redis.call('ZADD', asked, now, mint)
local all = redis.call('HINCRBY', sizes, '', size)
for _, each in ipairs(redis.call('ZRANGEBYSCORE', asked, '-inf', now - rest, 'LIMIT', 0, 100)) do
  all = leave(each)
end
while all > most do
  local oldest = redis.call('ZRANGE', asked, 0, 0)[1]
  if not oldest then break end
  all = leave(oldest)
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, rest + 86400000) end
return 1
