-- Gives back holds of a tenure on a spin lock: no message is sent.
-- KEYS  1 lock, 2 holder details (optional)
-- ARGV  1 field of the tenure, 2 count to leave, 3 time in ms that the holds left still need
-- reply released, or holds left: 0; -1: no field is there; -2: another client is there
--
-- Nothing left: remove the field, with which the lock goes. Something left: raise the lease to what it needs and set the
-- count. Every branch begins with a write that a full server allows. Details are for people: what cannot be done about
-- them is left out.
local lock, details = KEYS[1], KEYS[2]
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
return 0
