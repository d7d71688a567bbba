-- What Redisson's acquire of a caller that waits does to the keys of a fair lock, for the comparison.
-- KEYS  1 lock, 2 queue, 3 deadlines
-- ARGV  1 lease, 2 owner, 3 how long the caller waits, 4 the client's time; in ms
-- reply nil: granted; else for how many ms the caller sleeps
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local lease, owner, wait, now = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local head = drop_overdue(queue, deadlines, now)
if redis.call('EXISTS', lock) == 0 and (not head or head == owner) then
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, owner)
    for _, other in ipairs(redis.call('ZRANGE', deadlines, 0, -1)) do
        redis.call('ZINCRBY', deadlines, -wait, other)
    end
    redis.call('HSET', lock, owner, 1)
    redis.call('PEXPIRE', lock, lease)
    return nil
end
if redis.call('HEXISTS', lock, owner) == 1 then
    redis.call('HINCRBY', lock, owner, 1)
    redis.call('PEXPIRE', lock, lease)
    return nil
end
local left = redis.call('PTTL', lock)
if redis.call('ZSCORE', deadlines, owner) then
    return math.max(0, left)
end
local last = redis.call('LINDEX', queue, -1)
local ends = last and last ~= owner and redis.call('ZSCORE', deadlines, last)
local sleep = ends and tonumber(ends) - now or left
if redis.call('ZADD', deadlines, sleep + wait + now, owner) == 1 then
    redis.call('RPUSH', queue, owner)
end
return sleep
