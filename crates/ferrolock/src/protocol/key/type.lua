-- Which type the key under a lock's name has; asked after a call found the wrong type. Writes nothing.
-- KEYS  1 lock
-- reply the type's name
local lock = KEYS[1]

return redis.call('TYPE', lock)['ok']
