-- What Redisson's acquire of the write side does to the keys of a read-write lock, for the comparison.
-- KEYS  1 lock
-- ARGV  1 lease in ms, 2 the owner as a writer
-- reply nil: granted; else what the holders' lease still has, in ms
local lock, lease, owner = KEYS[1], ARGV[1], ARGV[2]

local mode = redis.call('HGET', lock, 'mode')
if not mode then
    redis.call('HSET', lock, 'mode', 'write')
    redis.call('HSET', lock, owner, 1)
    redis.call('PEXPIRE', lock, lease)
    return nil
end
local left = redis.call('PTTL', lock)
if mode == 'write' and redis.call('HEXISTS', lock, owner) == 1 then
    redis.call('HINCRBY', lock, owner, 1)
    redis.call('PEXPIRE', lock, left + lease)
    return nil
end
return left
