-- Which type of key stands under a lock's name; asked after a call found the wrong one. Writes nothing.
-- KEYS  1 lock
-- reply the type's name
local lock = KEYS[1]

return redis.call('TYPE', lock)['ok']
