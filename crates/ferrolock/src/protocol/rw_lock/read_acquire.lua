-- The first hold of a tenure on the read side of a read-write lock.
-- KEYS  1 lock, 2 hold key, 3 write intent (only for a reader that lets writers go first); last holder details (optional)
-- ARGV  1 field of the tenure, 2 lease in ms, 3 write field of the same owner (or nothing), 4 whether key 3 is there (1) or
--       not (0), 5 who it is (with details)
-- reply nil: granted; else for how many ms it is busy (-1: it never ends)
--
-- Field already there: this very call ran before, so it is granted. Busy: a writer is there, and it is not the same owner;
-- or another kind of lock; or a writer waits that goes first. Otherwise it gets in. Its hold key comes first: if that
-- alone is written, it ends by itself.
local lock, hold, intent, details = KEYS[1], KEYS[2], KEYS[3], KEYS[#KEYS]
local field, lease, own_write, yields, who = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local mode = redis.call('HGET', lock, 'mode')
if mode and redis.call('HEXISTS', lock, field) == 1 then
    return false
end
if mode == 'write' then
    if redis.call('HEXISTS', lock, own_write) == 0 then
        return redis.call('PTTL', lock)
    end
else
    local other = mode and -2 or redis.call('PTTL', lock)
    local waits = yields == '1' and redis.call('PTTL', intent) or -2
    if other ~= -2 or waits >= 0 then
        return other ~= -2 and other or waits
    end
end
redis.call('SET', hold, 1, 'PX', lease)
redis.call('HSET', lock, 'mode', mode or 'read', field, 1)
local failed = raise(lock, lease)
if failed then
    redis.call('HDEL', lock, field, not mode and 'mode' or field)
    redis.call('DEL', hold)
    return failed
end
if who then
    describe(details, field, lease, who)
end
return false
