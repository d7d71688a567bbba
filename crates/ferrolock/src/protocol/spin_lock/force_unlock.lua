-- Frees a spin lock, whoever holds it: no message is sent.
-- KEYS  1 lock, 2 holder details
-- reply 1: it was held; 0: there was nothing to free
--
-- A key of another type is left alone: reading it as a lock raises the server's own error.
local lock, details = KEYS[1], KEYS[2]

if redis.call('HLEN', lock) == 0 then
    return 0
end
redis.call('DEL', lock, details)
return 1
