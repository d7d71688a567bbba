-- Gives back holds of a tenure on the read side of a read-write lock.
-- KEYS  1 lock, 2 channel, 3 hold key, 4 holder details (optional)
-- ARGV  1 field of the tenure, 2 count to leave, 3 time in ms that the holds left still need
-- reply released, and the lock is free: how many clients got the message (0 or more); released, and others hold it: -3;
--       holds left: 0; -1: the hold is not there; -2: a writer is there
--
-- Something left: raise both leases to what it needs and set the count. Nothing left: remove hold key and field. The same
-- owner's write hold goes on: no more to do. Others read: the lock lives as long as the longest of them, if all were seen.
-- Nobody reads: the lock goes, with fields that only dead readers left, and a writer is woken. Every branch begins with a
-- write that a full server allows. Details are for people: what cannot be done about them is left out.
local lock, channel, hold, details = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local field, count, need = ARGV[1], ARGV[2], ARGV[3]

local held, mode = redis.call('HGET', lock, field), redis.call('HGET', lock, 'mode')
if held == false then
    return mode == 'write' and -2 or -1
end
if count ~= '0' then
    if redis.call('EXISTS', hold) == 0 then
        return -1
    end
    raise(hold, need)
    set_count(lock, details, field, held, count, need)
    return 0
end
redis.call('DEL', hold)
redis.call('HDEL', lock, field)
if details then
    redis.pcall('HDEL', details, field)
end
if mode == 'write' then
    return -3
end
local longest, is_exact = longest_read(lock)
if longest > 0 then
    if is_exact and redis.call('PTTL', lock) > longest then
        redis.call('PEXPIRE', lock, longest)
    end
    return -3
end
redis.call('DEL', lock)
return redis.call('PUBLISH', channel, '0')
