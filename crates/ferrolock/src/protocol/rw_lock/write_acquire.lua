-- The first hold of a tenure on the write side of a read-write lock.
-- KEYS  1 lock, 2 write intent (only if readers have to wait behind this writer); last holder details (optional)
-- ARGV  1 field of the tenure, 2 lease in ms, 3 time in ms that the intent lasts (0: key 2 is not there), 4 who it is (with
--       details)
-- reply nil: granted; else for how many ms it is busy (-1: it never ends)
--
-- Field already there: this call ran before, or an earlier attempt of a writer with an intent, whose answer was lost: it is
-- granted, for the whole lease from now. Only dead readers are left: the lock goes. Free: take it, and the own intent ends.
-- Otherwise busy: as long as the longest reader, or the writer; nothing changes before without a message. The intent is for
-- the first writer that sets it.
local lock, intent, details = KEYS[1], KEYS[2], KEYS[#KEYS]
local field, lease, lasts, who = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local left = redis.call('PTTL', lock)
local is_free = left == -2
if not is_free then
    if redis.call('HEXISTS', lock, field) == 1 then
        return raise(lock, lease) or false
    end
    if redis.call('HGET', lock, 'mode') == 'read' then
        left = longest_read(lock)
        is_free = left == 0
    end
end
local waits = lasts ~= '0' and redis.call('GET', intent)
if not is_free then
    if lasts ~= '0' and (not waits or waits == field) then
        redis.call('SET', intent, field, 'PX', lasts)
    end
    return left
end
if left == 0 then
    redis.call('DEL', lock)
end
if waits == field then
    redis.call('DEL', intent)
end
redis.call('HSET', lock, 'mode', 'write')
local failed = take(lock, who and details, field, lease, who)
if failed then
    redis.call('DEL', lock)
end
return failed or false
