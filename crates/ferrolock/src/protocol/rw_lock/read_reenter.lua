-- One more hold of a running tenure on the read side of a read-write lock.
-- KEYS  1 lock, 2 hold key, 3 holder details (optional)
-- ARGV  1 field of the tenure, 2 lease in ms, 3 count to leave
-- reply 1: entered; 0: the hold is not there; -1: a writer is there
--
-- Field and hold key must be there: a re-entry never revives a hold that vanished.
local lock, hold, details = KEYS[1], KEYS[2], KEYS[3]
local field, lease, count = ARGV[1], ARGV[2], ARGV[3]

local held = redis.call('HGET', lock, field)
if held == false then
    return redis.call('HGET', lock, 'mode') == 'write' and -1 or 0
end
if redis.call('EXISTS', hold) == 0 then
    return 0
end
raise(hold, lease)
set_count(lock, details, field, held, count, lease)
return 1
