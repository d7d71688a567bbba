-- One more hold of a running tenure on a plain lock.
-- KEYS  1 lock, 2 holder details (optional)
-- ARGV  1 field of the tenure, 2 lease in ms, 3 count to leave
-- reply 1: entered; 0: nothing is there; -1: somebody else is there
--
-- The field must be there: a re-entry never revives a lock that vanished. The lease is raised, never cut, and the
-- count is set, so a repeat changes nothing. The lease comes first: after that a full server takes the HSET. Details
-- are for people: what cannot be done about them is left out.
local lock, details = KEYS[1], KEYS[2]
local field, lease, count = ARGV[1], ARGV[2], ARGV[3]

local held = redis.call('HGET', lock, field)
if held == false then
    return -redis.call('EXISTS', lock)
end
local left = redis.call('PTTL', lock)
if left < tonumber(lease) then
    redis.call('PEXPIRE', lock, lease)
    if details then
        redis.pcall('PEXPIRE', details, lease)
    end
elseif held ~= count then
    redis.call('PEXPIRE', lock, left)
end
if held ~= count then
    redis.call('HSET', lock, field, count)
end
return 1
