-- The first hold of a tenure on a plain lock.
-- KEYS  1 lock, 2 holder details (optional)
-- ARGV  1 field of the tenure, 2 lease in ms, 3 who it is (with key 2)
-- reply nil: granted; else what the holder's lease still has, in ms (-1: it never ends)
--
-- Free: write the field with a count of one and start the lease. Field already there: this very call ran before, so
-- it is granted. Otherwise busy. Nothing is written before the first HSET, which a full server refuses. A lock that
-- could not be given an end is taken back, and the reason is the reply. Details are for people: what cannot be done
-- about them is left out.
local lock, details = KEYS[1], KEYS[2]
local field, lease, who = ARGV[1], ARGV[2], ARGV[3]

local left = redis.call('PTTL', lock)
if left ~= -2 then
    if redis.call('HEXISTS', lock, field) == 1 then
        return false
    end
    return left
end
redis.call('HSET', lock, field, 1)
local ends = redis.pcall('PEXPIRE', lock, lease)
if ends ~= 1 then
    redis.call('HDEL', lock, field)
    return ends
end
local now = details and redis.pcall('TIME')
if now and not now.err then
    redis.pcall('HSET', details, field, string.format('%d%03d', now[1], math.floor(now[2] / 1000)) .. '\n' .. who)
    redis.pcall('PEXPIRE', details, lease)
end
return false
