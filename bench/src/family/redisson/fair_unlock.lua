-- What Redisson's unlock does to the keys of a fair lock, for the comparison.
-- KEYS  1 lock, 2 queue, 3 deadlines, 4 channel, 5 latch
-- ARGV  1 message, 2 lease in ms, 3 owner, 4 the client's time in ms, 5 command to publish with, 6 life of the latch in ms
-- reply 1: free; 0: held on; nil: not ours
local lock, queue, deadlines, channel, latch = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local message, lease, owner, publish, life = ARGV[1], ARGV[2], ARGV[3], ARGV[5], ARGV[6]

local done = redis.call('GET', latch)
if done then
    return tonumber(done)
end
local head = drop_overdue(queue, deadlines, tonumber(ARGV[4]))
if redis.call('EXISTS', lock) == 1 then
    if redis.call('HEXISTS', lock, owner) == 0 then
        return nil
    end
    if redis.call('HINCRBY', lock, owner, -1) > 0 then
        redis.call('PEXPIRE', lock, lease)
        redis.call('SET', latch, 0, 'PX', life)
        return 0
    end
    redis.call('DEL', lock)
end
redis.call('SET', latch, 1, 'PX', life)
if head then
    redis.call(publish, channel .. ':' .. head, message)
end
return 1
