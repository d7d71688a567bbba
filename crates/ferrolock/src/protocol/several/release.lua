-- Gives back the hold of a tenure on a lock with room for two, and its place in the queue.
-- KEYS  1 lock, 2 channel, 3 queue
-- ARGV  1 field of the tenure
-- reply released: how many clients got the message (0 or more); -1: nothing is there; -2: others are there
--
-- The message is the number of the first in the queue: that waiter is meant.
local lock, channel, queue = KEYS[1], KEYS[2], KEYS[3]
local field = ARGV[1]

local waited = redis.call('ZREM', queue, field)
if redis.call('HDEL', lock, field) + waited == 0 then
    return -1 - redis.call('EXISTS', lock)
end
local first = redis.call('ZRANGE', queue, 0, 0)[1]
return redis.call('PUBLISH', channel, string.match(first or ':0', ':(%d+)$'))
