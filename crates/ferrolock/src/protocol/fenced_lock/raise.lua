-- The fence that a majority of nodes has agreed on, stored where the bearer has the lock.
-- KEYS  1 lock, 2 last fence
-- ARGV  1 field of the tenure, 2 that fence
-- reply 1: stored, or a larger one was there; 0: the lock is gone; -1: another field has it
-- stays the last fence: it must grow from holder to holder, however long the lock is free in between
--
-- Only for a holder: a command that comes late, after the lock went to another, must change nothing.
local lock, last_fence = KEYS[1], KEYS[2]
local field, fence = ARGV[1], ARGV[2]

if redis.call('HEXISTS', lock, field) == 0 then
    return -redis.call('EXISTS', lock)
end
local last = tonumber(redis.call('GET', last_fence) or 0)
if last and last < tonumber(fence) then
    redis.call('SET', last_fence, fence)
end
return 1
