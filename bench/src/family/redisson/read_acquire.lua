-- What Redisson's acquire of the read side does to the keys of a read-write lock, for the comparison.
-- KEYS  1 lock, 2 hold keys of the owner, without their number
-- ARGV  1 lease in ms, 2 owner, 3 the owner as a writer
-- reply nil: granted; else what the writer's lease still has, in ms
local lock, holds, lease, owner = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

local mode = redis.call('HGET', lock, 'mode')
if not mode then
    redis.call('HSET', lock, 'mode', 'read')
    redis.call('HSET', lock, owner, 1)
    redis.call('SET', holds .. ':1', 1)
    redis.call('PEXPIRE', holds .. ':1', lease)
    redis.call('PEXPIRE', lock, lease)
    return nil
end
if mode == 'read' or redis.call('HEXISTS', lock, ARGV[3]) == 1 then
    local hold = holds .. ':' .. redis.call('HINCRBY', lock, owner, 1)
    redis.call('SET', hold, 1)
    redis.call('PEXPIRE', hold, lease)
    local left = redis.call('PTTL', lock)
    redis.call('PEXPIRE', lock, math.max(left, tonumber(lease)))
    return nil
end
return redis.call('PTTL', lock)
