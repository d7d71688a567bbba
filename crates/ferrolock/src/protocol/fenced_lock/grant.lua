-- Part of the scripts that take a lock whose grants have fences. It uses the part `take`.
-- part  grant(lock, last_fence, details, field, lease, seen, who): the reply of the script: a text if it is granted, with the
--       fence; a number if it is busy: what the holder's lease still has, in ms (-1: it never ends). `details` may be nil
-- stays the last fence: it must grow from holder to holder, however long the lock is free in between
--
-- Free: the fence is one more than the last and than what the client has seen, and at least the server's time in
-- microseconds: so it grows also when the data was lost. It is written before the lock is taken. Field already there:
-- this very call ran before, and no other holder came since: granted with the last fence, or a new one if that was
-- deleted. Otherwise busy.
local function grant(lock, last_fence, details, field, lease, seen, who)
    local left = redis.call('PTTL', lock)
    if left ~= -2 and redis.call('HEXISTS', lock, field) == 0 then
        return left
    end
    local last = redis.call('GET', last_fence)
    if left ~= -2 and last then
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
    return left == -2 and take(lock, details, field, lease, who) or fence
end
