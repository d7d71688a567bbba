-- Gives back holds of a tenure on the write side of a read-write lock.
-- KEYS  1 lock, 2 channel, 3 holder details (optional)
-- ARGV  1 field of the tenure, 2 count to leave, 3 time in ms that the holds left still need
-- reply released: how many clients got the message (0 or more); holds left: 0; -1: no field is there; -2: another holder is
--       there
--
-- Something left: raise the lease to what it needs and set the count. Nothing left: remove the field; the same owner's read
-- holds go on, else the lock goes; and all who wait are woken. Every branch begins with a write that a full server allows.
-- Details are for people: what cannot be done about them is left out.
local lock, channel, details = KEYS[1], KEYS[2], KEYS[3]
local field, count, need = ARGV[1], ARGV[2], ARGV[3]

local held = redis.call('HGET', lock, field)
if held == false then
    return -1 - redis.call('EXISTS', lock)
end
if count ~= '0' then
    set_count(lock, details, field, held, count, need)
    return 0
end
redis.call('HDEL', lock, field)
if details then
    redis.pcall('HDEL', details, field)
end
after_write(lock)
return redis.call('PUBLISH', channel, '1')
