-- Frees a plain lock, whoever holds it.
-- KEYS  1 lock, 2 channel, 3 holder details
-- reply 1: it was held; 0: there was nothing to free
--
-- A key of another type is left alone: reading it as a lock raises the server's own error.
local lock, channel, details = KEYS[1], KEYS[2], KEYS[3]

if redis.call('HLEN', lock) == 0 then
    return 0
end
redis.call('DEL', lock, details)
redis.call('PUBLISH', channel, '0')
return 1
