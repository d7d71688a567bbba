-- The first hold of a tenure on a lock with room for two, or its place in the queue.
-- KEYS  1 lock, 2 queue
-- ARGV  1 field of the tenure, 2 lease in ms, 3 whether its caller waits (1) or not (0)
-- reply granted: {1, fence, whether the next in the queue may get in too}; busy: {0, rest in ms, place or -1}
--
-- Field already there: an earlier attempt of the same waiter ran, so it is granted, and its lease begins anew. Otherwise it
-- gets in if there is room for it behind all who are before it in the queue. A caller who waits gets a place, and keeps
-- the one it has. The holders share one lease: it is raised, never cut.
local lock, queue = KEYS[1], KEYS[2]
local field, lease, waits = ARGV[1], ARGV[2], ARGV[3]

local fence = redis.call('HGET', lock, field)
local held = redis.call('HLEN', lock)
local ahead = redis.call('ZRANK', queue, field) or redis.call('ZCARD', queue)
if not fence and held + ahead >= 2 then
    local place = redis.call('ZSCORE', queue, field)
    if not place and waits == '1' then
        local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2] or 0
        place = last + 1
        redis.call('ZADD', queue, place, field)
        redis.call('PEXPIRE', queue, lease)
    end
    return { 0, redis.call('PTTL', lock), tonumber(place or -1) }
end
if not fence then
    held = held + 1
    redis.call('ZREM', queue, field)
    redis.call('HSET', lock, field, 1)
end
if redis.call('PTTL', lock) < tonumber(lease) then
    redis.call('PEXPIRE', lock, lease)
end
local more = held < 2 and redis.call('EXISTS', queue) or 0
return { 1, held, more }
