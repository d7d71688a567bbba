-- Frees a read-write lock, whoever holds it.
-- KEYS  1 lock, 2 channel, 3 write intent, 4 holder details
-- reply 1: it was held; 0: there was nothing to free
--
-- A key of another type is left alone: reading it as a lock raises the server's own error. Hold keys of few readers go too;
-- those of many end by themselves, and count for nothing without their fields.
local lock, channel, intent, details = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local fields = redis.call('HLEN', lock)
if fields == 0 then
    return 0
end
local base = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
local known = fields <= 17 and redis.call('HKEYS', lock) or {}
redis.call('DEL', lock, intent, details)
for _, field in ipairs(known) do
    redis.call('DEL', base .. ':' .. field .. ':rwlock_timeout:1')
end
redis.call('PUBLISH', channel, '1')
return 1
