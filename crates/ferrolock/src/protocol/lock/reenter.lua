-- One more hold of a running tenure on a plain lock.
-- KEYS  1 lock, 2 holder details (optional)
-- ARGV  1 field of the tenure, 2 lease in ms, 3 count to leave
-- reply 1: entered; 0: no field is there; -1: another client is there
--
-- The field must be there: a re-entry never revives a lock that vanished.
local lock, details = KEYS[1], KEYS[2]
local field, lease, count = ARGV[1], ARGV[2], ARGV[3]

local held = redis.call('HGET', lock, field)
if held == false then
    return -redis.call('EXISTS', lock)
end
set_count(lock, details, field, held, count, lease)
return 1
