-- What Redisson's unlock of the write side does to the keys of a read-write lock, for the comparison.
-- KEYS  1 lock, 2 channel, 3 latch
-- ARGV  1 message, 2 lease in ms, 3 the owner as a writer, 4 command to publish with, 5 life of the latch in ms
-- reply 1: given back; 0: held on; nil: not ours
local lock, channel, latch = KEYS[1], KEYS[2], KEYS[3]
local message, lease, owner, publish, life = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local done = redis.call('GET', latch)
if done then
    return tonumber(done)
end
local mode = redis.call('HGET', lock, 'mode')
if not mode then
    redis.call(publish, channel, message)
    redis.call('SET', latch, 1, 'PX', life)
    return nil
end
if mode == 'read' or redis.call('HEXISTS', lock, owner) == 0 then
    return nil
end
if redis.call('HINCRBY', lock, owner, -1) > 0 then
    redis.call('PEXPIRE', lock, lease)
    redis.call('SET', latch, 0, 'PX', life)
    return 0
end
redis.call('HDEL', lock, owner)
if redis.call('HLEN', lock) > 1 then
    redis.call('HSET', lock, 'mode', 'read')
else
    redis.call('DEL', lock)
    redis.call(publish, channel, message)
end
redis.call('SET', latch, 1, 'PX', life)
return 1
