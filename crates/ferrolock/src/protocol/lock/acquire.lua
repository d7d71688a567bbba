-- The first hold of a tenure on a plain lock.
-- KEYS  1 lock, 2 holder details (optional)
-- ARGV  1 field of the tenure, 2 lease in ms, 3 who it is (with key 2)
-- reply nil: granted; else what the holder's lease still has, in ms (-1: it never ends)
--
-- Free: take it. Field already there: this very call ran before, so it is granted. Otherwise busy.
local lock, details = KEYS[1], KEYS[2]
local field, lease, who = ARGV[1], ARGV[2], ARGV[3]

local left = redis.call('PTTL', lock)
if left == -2 then
    return take(lock, details, field, lease, who) or false
end
if redis.call('HEXISTS', lock, field) == 1 then
    return false
end
return left
