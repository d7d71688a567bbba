-- Takes a tenure out of a fair lock, whatever it has: a place in the queue, or a hold that no caller knows of.
-- KEYS  1 lock, 2 queue, 3 deadlines, 4 clients, 5 waiters, 6 amnesty, 7 holder details (optional)
-- ARGV  1 field of the tenure, 2 dead, 3 java_wait, in ms each, 4 channel, 5 inbox
-- reply it had something: how many clients got the message (0 or more); -1: no field is there; -2: another client is there
--
-- If it was the head, or held the lock, the first living waiter is told: the message may have been sent to this one. No
-- other deadline changes. Begins with a write that a full server allows.
local lock, queue, deadlines, clients, waiters, amnesty, details = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local field, dead, java_wait, channel, inbox = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local had = redis.call('ZREM', deadlines, field) + redis.call('HDEL', waiters, field)
local is_next = redis.call('LINDEX', queue, 0) == field
if is_next then
    redis.call('LPOP', queue)
elseif had > 0 then
    redis.call('LREM', queue, 1, field)
end
local freed = redis.call('HDEL', lock, field)
if details then
    redis.pcall('HDEL', details, field)
end
local is_free = redis.call('EXISTS', lock) == 0
if had == 0 and freed == 0 and not is_next then
    return is_free and -1 or -2
end
if not is_free or freed == 0 and not is_next then
    return 0
end
local line = line_of(lock, queue, deadlines, clients, waiters, amnesty, dead, java_wait)
return wake_next(line, channel, inbox)
