-- Gives back holds of a tenure on a fair lock.
-- KEYS  1 lock, 2 queue, 3 deadlines, 4 clients, 5 waiters, 6 amnesty, 7 holder details (optional)
-- ARGV  1 field of the tenure, 2 count to leave, 3 time in ms that the holds left still need, 4 dead, 5 java_wait, in ms each,
--       6 channel, 7 inbox
-- reply released: how many clients got the message (0 or more); holds left: 0; -1: no field is there; -2: another client is there
--
-- Nothing left: remove the field, with which the lock goes, and tell the first living waiter. The same if the lock has gone
-- by itself: its end was no message. Something left: raise the lease to what it needs and set the count. Every branch
-- begins with a write that a full server allows. Details are for people: what cannot be done about them is left out.
local lock, queue, deadlines, clients, waiters, amnesty, details = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local field, count, need, dead, java_wait, channel, inbox = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

if count ~= '0' then
    local held = redis.call('HGET', lock, field)
    if held == false then
        return -1 - redis.call('EXISTS', lock)
    end
    set_count(lock, details, field, held, count, need)
    return 0
end
local released = redis.call('HDEL', lock, field)
if details then
    redis.pcall('HDEL', details, field)
end
if redis.call('EXISTS', lock) == 1 then
    return -2
end
local line = line_of(lock, queue, deadlines, clients, waiters, amnesty, dead, java_wait)
local heard = wake_next(line, channel, inbox)
return released == 1 and heard or -1
