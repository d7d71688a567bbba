-- Gives back holds of a tenure on a plain lock.
-- KEYS  1 lock, 2 channel, 3 holder details (optional)
-- ARGV  1 field of the tenure, 2 count to leave, 3 time in ms that the holds left still need
-- reply released: how many clients got the message (0 or more); holds left: 0; -1: no field is there; -2: another client is there
--
-- Nothing left: remove the field, with which the lock goes, and send the message to the waiters. Something left: raise the
-- lease to what it needs and set the count. Every branch begins with a write that a full server allows. Details are for
-- people: what cannot be done about them is left out, and the message goes out all the same.
local lock, channel, details = KEYS[1], KEYS[2], KEYS[3]
local field, count, need = ARGV[1], ARGV[2], ARGV[3]

if count == '0' then
    if redis.call('HDEL', lock, field) == 0 then
        return -1 - redis.call('EXISTS', lock)
    end
    if details then
        redis.pcall('HDEL', details, field)
    end
    return redis.call('PUBLISH', channel, '0')
end
local held = redis.call('HGET', lock, field)
if held == false then
    return -1 - redis.call('EXISTS', lock)
end
set_count(lock, details, field, held, count, need)
return 0
