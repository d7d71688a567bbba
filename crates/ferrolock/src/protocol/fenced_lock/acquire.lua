-- The first hold of a tenure on a fenced lock, with a fence that is larger than all before it.
-- KEYS  1 lock, 2 last fence, 3 holder details (optional)
-- ARGV  1 field of the tenure, 2 lease in ms, 3 the largest fence that the client has seen, 4 who it is (with key 3)
-- reply a text: granted, with that fence; a number: what the holder's lease still has, in ms (-1: it never ends)
-- stays the last fence: it must grow from holder to holder, however long the lock is free in between
--
-- Free: the fence is one more than the last and than what the client has seen, and at least the server's time in
-- microseconds: so it grows also when the data was lost. It is written before the lock is taken. Field already there:
-- this very call ran before, and no other holder came since: granted with the last fence. Otherwise busy.
local lock, last_fence, details = KEYS[1], KEYS[2], KEYS[3]
local field, lease, seen, who = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local left = redis.call('PTTL', lock)
if left ~= -2 and redis.call('HEXISTS', lock, field) == 0 then
    return left
end
local last = redis.call('GET', last_fence)
if left ~= -2 then
    return last
end
local known = tonumber(last or 0)
if not known then
    return redis.error_reply('ERR the last fence of the lock is no number')
end
local now = redis.call('TIME')
local fence = math.max(known + 1, seen + 1, now[1] * 1000000 + now[2])
if fence >= 2 ^ 53 then
    return redis.error_reply('ERR the last fence of the lock is too large')
end
fence = string.format('%.0f', fence)
redis.call('SET', last_fence, fence)
return take(lock, details, field, lease, who) or fence
