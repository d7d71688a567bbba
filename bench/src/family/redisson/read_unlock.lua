-- What Redisson's unlock of the read side does to the keys of a read-write lock, for the comparison.
-- KEYS  1 lock, 2 channel, 3 hold keys of the owner, without their number, 4 what all hold keys begin with, 5 latch
-- ARGV  1 message, 2 owner, 3 command to publish with, 4 life of the latch in ms
-- reply 1: free; 0: held on; nil: not ours
local lock, channel, holds, all, latch = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local message, owner, publish, life = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

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
if redis.call('HEXISTS', lock, owner) == 0 then
    return nil
end
local count = redis.call('HINCRBY', lock, owner, -1)
if count == 0 then
    redis.call('HDEL', lock, owner)
end
redis.call('DEL', holds .. ':' .. (count + 1))
if redis.call('HLEN', lock) > 1 then
    local longest = -3
    for _, field in ipairs(redis.call('HKEYS', lock)) do
        for n = tonumber(redis.call('HGET', lock, field)) or 0, 1, -1 do
            longest = math.max(longest, redis.call('PTTL', all .. ':' .. field .. ':rwlock_timeout:' .. n))
        end
    end
    if longest > 0 then
        redis.call('PEXPIRE', lock, longest)
    end
    if longest > 0 or mode == 'write' then
        redis.call('SET', latch, 0, 'PX', life)
        return 0
    end
end
redis.call('DEL', lock)
redis.call(publish, channel, message)
redis.call('SET', latch, 1, 'PX', life)
return 1
